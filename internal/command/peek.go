package command

import (
	"encoding/binary"
	"errors"
)

// ErrNoMessage says that a message is no longer stored.
var ErrNoMessage = errors.New("oncemq: the message is no longer stored")

// BodyConn is the connection that a record's body speaks for, read from its first
// command without decoding it: every command but ConnOpen and the node's own begins with
// its Conn. Zero for those, and for a body that is none.
func BodyConn(body []byte) ConnID {
	const head = 5 // kind and padded length, see Append
	if len(body) <= head {
		return 0
	}
	switch kind := Kind(body[0]); {
	case kind == KindConnOpen, kind >= KindPart && kind < kindEnd:
		return 0
	}
	v, n := binary.Uvarint(body[head:])
	if n <= 0 {
		return 0
	}
	return ConnID(v)
}
