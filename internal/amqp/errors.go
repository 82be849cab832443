package amqp

import (
	"errors"
	"fmt"
)

// ErrShort says that src doesn't yet hold a whole frame or protocol header: read more and decode again.
var ErrShort = errors.New("oncemq: more bytes are needed for a whole frame")

// DecodeError refuses bytes. The connection that they came from is to be closed with Condition.
type DecodeError struct {
	// Condition is ErrCondDecodeError or ErrCondFramingError.
	Condition Symbol
	// Offset is the place in the decoded bytes where it was noticed.
	Offset int
	// What says what is wrong, with which field; it holds nothing of the peer's bytes, so that it can be logged.
	What string
}

// Error names the condition, the place and the reason.
func (e *DecodeError) Error() string {
	return fmt.Sprintf("oncemq: %s at byte %d: %s", e.Condition, e.Offset, e.What)
}
