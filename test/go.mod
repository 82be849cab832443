module github.com/oncemq/oncemq/test

go 1.26

replace github.com/oncemq/oncemq => ../

require (
	github.com/Azure/go-amqp v1.7.0
	github.com/oncemq/oncemq v0.0.0
	golang.org/x/sys v0.18.0
)
