package state

import "github.com/oncemq/oncemq/internal/command"

// MessageKey appends the key under which Apply puts the bytes of a message, all
// sections as they came. Readers use ReadMessage, which knows where dead letters are.
func MessageKey(dst []byte, group uint16, inc command.Incarnation, message uint64) []byte {
	panic("soon")
}

// ReadMessage appends the bytes of a message to dst. get appends a key's value to
// dst; ok is false where there is no such key. A dead letter's bytes stay where the
// message was first stored, so this may take two more reads. ok is false when the
// message is gone. Safe for concurrent use if get is: a home calls it outside Apply.
func ReadMessage(dst []byte, group uint16, inc command.Incarnation, message uint64,
	get func(key, dst []byte) (value []byte, ok bool, err error)) (body []byte, ok bool, err error) {
	panic("soon")
}

// BodyRange is the range of keys that Load doesn't need: bodies.
func BodyRange(group uint16) (from, to []byte) { panic("soon") }
