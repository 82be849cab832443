package oncemq_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/oncemq/oncemq"
)

// A message is consumed and another one sent, both or neither, whatever node is lost meanwhile.
func ExampleDial() {
	ctx := context.Background()
	c, err := oncemq.Dial(ctx, "amqp://mq1:5672,mq2:5672,mq3:5672", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close(ctx)
	s, err := c.OpenSession(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	out, err := s.NewSender(ctx, "receipts", nil)
	if err != nil {
		log.Fatal(err)
	}
	in, err := s.NewReceiver(ctx, "orders", nil)
	if err != nil {
		log.Fatal(err)
	}
	for {
		d, err := in.Receive(ctx)
		if err != nil {
			log.Fatal(err)
		}
		err = s.InTx(ctx, func(tx *oncemq.Tx) error {
			if err := tx.Accept(d); err != nil {
				return err
			}
			return tx.Send(ctx, out, oncemq.NewMessage(d.Message.Data))
		})
		if err != nil && !errors.Is(err, oncemq.ErrRolledBack) {
			log.Fatal(err)
		}
	}
}

// The same with four workers; a message whose handler fails comes again.
func ExampleConsume() {
	ctx := context.Background()
	c, err := oncemq.Dial(ctx, "amqp://mq1,mq2,mq3", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close(ctx)
	err = oncemq.Consume(ctx, c, "orders", 4, func(ctx context.Context, tx *oncemq.Tx, d *oncemq.Delivery) error {
		out, err := tx.Session().Sender(ctx, "receipts")
		if err != nil {
			return err
		}
		return tx.Send(ctx, out, oncemq.NewMessage(d.Message.Data))
	})
	log.Print(err)
}

// Only a commit that no node could answer before its context ended is unknown. Its id may be asked for later, by any process.
func ExampleTx_Commit() {
	var (
		ctx = context.Background()
		c   *oncemq.Client
		tx  *oncemq.Tx
	)
	if c == nil {
		return // an example without a broker
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err := tx.Commit(ctx)
	var te *oncemq.TxError
	switch {
	case err == nil: // committed
	case errors.Is(err, oncemq.ErrRolledBack): // nothing happened: do it again
	case errors.As(err, &te): // unknown: store te.ID, and ask
		outcome, err := c.Outcome(context.Background(), te.ID)
		log.Print(outcome, err)
	}
}

// Transactions have names that may be stored.
func ExampleParseTxID() {
	id, err := oncemq.ParseTxID("00010000000000000a2f0003c0ffee00/7")
	fmt.Println(id.Number(), err)
	_, err = oncemq.ParseTxID("7")
	fmt.Println(err)
	// Output:
	// 7 <nil>
	// oncemq: "7" is no transaction id: want 32 hex digits, a slash and a number
}

// Elsewhere than on the own machine there are TLS and users. The password goes by SCRAM: no node sees it.
func ExampleDial_user() {
	secret, err := os.ReadFile("/run/secrets/shop")
	if err != nil {
		return // an example without a broker
	}
	c, err := oncemq.Dial(context.Background(), "amqps://mq1,mq2,mq3", &oncemq.Config{
		CAFile:      "ca.pem",
		Credentials: oncemq.Credentials{User: "shop", Password: strings.TrimSpace(string(secret))},
	})
	switch {
	case errors.Is(err, oncemq.ErrCredentials): // no such user, or another password
	case err == nil:
		defer c.Close(context.Background())
	}
	log.Print(err)
}
