package client

import "errors"

// What operations end with, besides *amqp.Error. The root package exports them under the same names.
var (
	ErrExpired        = errors.New("oncemq: expired: the broker no longer keeps this session or outcome")
	ErrDeliveryLost   = errors.New("oncemq: delivery lost: its message went back to the queue")
	ErrTxDone         = errors.New("oncemq: the transaction has ended: begin a new one")
	ErrClosed         = errors.New("oncemq: closed")
	ErrSettled        = errors.New("oncemq: the delivery was settled before")
	ErrTooManyUnknown = errors.New("oncemq: the session has 1,000 transactions of unknown outcome: resolve them with Client.Outcome or open a new session")
	ErrForeign        = errors.New("oncemq: sender, delivery or receipt of another session")
	ErrSilent         = errors.New("oncemq: the node sent nothing although an answer was due")
	ErrNotOncemq      = errors.New("oncemq: the broker doesn't offer oncemq:session-1: this client needs an OncemQ node")
	ErrNoAddress      = errors.New("oncemq: no address to connect to")
	ErrBadReply       = errors.New("oncemq: $oncemq.outcome sent a reply that can't be read")
)
