package engine

import (
	"errors"

	"github.com/oncemq/oncemq/internal/amqp"
)

// header queues our protocol header.
func (c *Conn) header() {
	if !c.headerOut {
		c.headerOut = true
		c.out = amqp.AppendProtoHeader(c.out, amqp.ProtoAMQP)
	}
}

// setLimit bounds the frames that are taken from now on.
func (c *Conn) setLimit(maxFrame uint32) { c.dec.Limits.MaxFrameSize = maxFrame }

// takeHeader takes the peer's protocol header; ok says that it is there and ours. Any other gets our header back, and the
// socket is to be closed (2.2; checklist 2).
func (c *Conn) takeHeader(b []byte) (consumed int, ok bool) {
	if c.err != nil || c.closeIn {
		return len(b), false
	}
	h, err := amqp.ParseProtoHeader(b)
	if errors.Is(err, amqp.ErrShort) {
		return 0, false
	}
	if err != nil || !h.Supported() || h.ID != amqp.ProtoAMQP {
		c.header()
		c.err = &Error{
			Scope: ScopeConnection, cause: ErrHeader,
			AMQP: amqp.Error{Condition: amqp.ErrCondFramingError, Description: "another protocol header than AMQP 1.0.0"},
		}
		c.closeOut = true
		c.over(c.err)
		return len(b), false
	}
	c.headerIn = true
	c.header()
	return amqp.ProtoHeaderSize, true
}

// takeFrame takes the frame that b begins with, 0 if it isn't whole.
func (c *Conn) takeFrame(b []byte) (consumed int) {
	size, err := amqp.FrameSize(b, c.dec.Limits)
	if err == nil && len(b) >= size && !isHot(b[:size]) {
		b = append([]byte(nil), b[:size]...) // its performative belongs to the event's receiver
	}
	var f amqp.Frame
	if err == nil {
		f, size, err = c.dec.Decode(b)
	}
	if err != nil {
		c.undecodable(err)
		return 0
	}
	if f.Type != amqp.FrameAMQP {
		c.fail(amqp.ErrCondFramingError, "a SASL frame behind the SASL layer")
		return 0
	}
	if f.Body != nil {
		c.dispatch(f.Channel, f.Body, f.Payload)
	}
	return size
}

// undecodable ends the connection, unless only bytes are missing.
func (c *Conn) undecodable(err error) {
	var bad *amqp.DecodeError
	if errors.As(err, &bad) {
		c.fail(bad.Condition, bad.What)
	}
}

// isHot says that a frame is surely a flow, transfer or disposition: those are decoded in place.
func isHot(frame []byte) bool {
	at := int(frame[4]) * 4
	return at+2 < len(frame) && frame[at] == 0 && frame[at+1] == 0x53 && frame[at+2] >= 0x13 && frame[at+2] <= 0x15
}

// append makes a frame at once, behind a disposition that waits to be joined.
func (c *Conn) append(channel uint16, p amqp.Performative) {
	c.flush()
	c.out = amqp.AppendFrame(c.out, channel, p, nil)
}

// appendWhole is append for a frame that may be larger than the peer takes: then nothing is made, and false.
func (c *Conn) appendWhole(channel uint16, p amqp.Performative) bool {
	c.flush()
	start := len(c.out)
	c.out = amqp.AppendFrame(c.out, channel, p, nil)
	if c.openIn != nil && len(c.out)-start > int(c.maxOut) {
		c.out = c.out[:start]
		return false
	}
	return true
}

// maxDescription is what an error's description is cut to where its frame would be too large.
const maxDescription = 128

// appendFault makes a frame that may carry an error. An error that doesn't fit into the peer's frame loses its info and most of
// its description, never its condition.
func (c *Conn) appendFault(channel uint16, e *amqp.Error, with func(*amqp.Error) amqp.Performative) {
	if c.appendWhole(channel, with(e)) {
		return
	}
	c.append(channel, with(cutError(e)))
}

func cutError(e *amqp.Error) *amqp.Error {
	if e == nil {
		return nil
	}
	cut := amqp.Error{Condition: e.Condition, Description: e.Description}
	if len(cut.Description) > maxDescription {
		cut.Description = cut.Description[:maxDescription]
	}
	return &cut
}
