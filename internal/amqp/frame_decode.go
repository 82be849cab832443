package amqp

import "encoding/binary"

// FrameSize is the size of the frame that src begins with. It is ErrShort before the size is there; a size that is too
// large or impossible is refused as soon as it is seen, so that nobody waits or allocates for it.
func FrameSize(src []byte, lim Limits) (int, error) {
	if len(src) < 4 {
		return 0, ErrShort
	}
	size := binary.BigEndian.Uint32(src)
	switch {
	case size < frameHeader:
		return 0, framingError(0, "a frame that is smaller than its header")
	case size > lim.maxFrameSize():
		return 0, framingError(0, "a frame that is larger than the limit")
	}
	return int(size), nil
}

func framingError(offset int, what string) error {
	return &DecodeError{Condition: ErrCondFramingError, Offset: offset, What: what}
}

// DecodeFrame decodes the frame that src begins with and says how many bytes it took. The error is ErrShort as long as src
// doesn't hold all of it, else a *DecodeError. Byte slices in the frame alias src; everything else is new.
func DecodeFrame(src []byte, lim Limits) (Frame, int, error) {
	d := Decoder{Limits: lim}
	return d.Decode(src)
}

// Decoder decodes frames and reuses the structs of the hot path: the *Transfer, *Disposition and *Flow of a frame, and the
// *TransactionalState in it, are overwritten by the next Decode. All else in a frame is new, and byte slices alias src. It
// is for one goroutine; the zero Decoder is ready, with the default limits.
type Decoder struct {
	// Limits bounds each frame; it may be changed between two frames, as when Open has been exchanged.
	Limits Limits

	r           reader
	transfer    Transfer
	disposition Disposition
	flow        Flow
	tx          TransactionalState
}

// Decode is DecodeFrame, but for what is reused.
func (d *Decoder) Decode(src []byte) (Frame, int, error) {
	if mangling {
		d.mangle()
	}
	size, err := FrameSize(src, d.Limits)
	if err != nil {
		return Frame{}, 0, err
	}
	if len(src) < frameHeader {
		return Frame{}, 0, ErrShort
	}
	f := Frame{Type: src[5], Channel: binary.BigEndian.Uint16(src[6:])}
	body := int(src[4]) * 4
	switch {
	case body < frameHeader || body > size:
		return Frame{}, 0, framingError(4, "a data offset outside of the frame")
	case f.Type != FrameAMQP && f.Type != FrameSASL:
		return Frame{}, 0, framingError(5, "a frame type that is not defined")
	case len(src) < size:
		return Frame{}, 0, ErrShort
	}
	d.r = newReader(src[:size:size], d.Limits)
	d.r.off = body
	if err := d.body(&f); err != nil {
		return Frame{}, 0, err
	}
	return f, size, nil
}

// body decodes what stands behind the frame's header.
func (d *Decoder) body(f *Frame) error {
	r := &d.r
	if r.off == r.end && f.Type == FrameAMQP {
		return nil
	}
	if r.byte() != 0x00 {
		r.fail("a frame's body that has no descriptor")
	}
	code := r.descriptor()
	if r.err != nil {
		return r.err
	}
	f.Body = d.performative(code)
	switch {
	case f.Body == nil:
		r.fail("a frame's body that is not a performative")
	case f.Body.frameType() != f.Type:
		r.fail("a performative in a frame of the other type")
	case r.off == r.end:
	case code == codeTransfer:
		f.Payload = r.buf[r.off:r.end:r.end]
	default:
		r.fail("bytes behind a performative that has no payload")
	}
	return r.result()
}

// performative reads the fields of the performative whose descriptor was code; nil if it is none.
func (d *Decoder) performative(code uint64) Performative {
	r := &d.r
	switch code {
	case codeTransfer:
		r.tx = &d.tx
		d.transfer.decode(r)
		return &d.transfer
	case codeDisposition:
		r.tx = &d.tx
		d.disposition.decode(r)
		return &d.disposition
	case codeFlow:
		d.flow.decode(r)
		return &d.flow
	case codeOpen:
		x := new(Open)
		x.decode(r)
		return x
	case codeBegin:
		x := new(Begin)
		x.decode(r)
		return x
	case codeAttach:
		x := new(Attach)
		x.decode(r)
		return x
	case codeDetach:
		x := new(Detach)
		x.decode(r)
		return x
	case codeEnd:
		x := new(End)
		x.decode(r)
		return x
	case codeClose:
		x := new(Close)
		x.decode(r)
		return x
	}
	return saslPerformative(r, code)
}

func saslPerformative(r *reader, code uint64) Performative {
	switch code {
	case codeSASLMechanisms:
		x := new(SASLMechanisms)
		x.decode(r)
		return x
	case codeSASLInit:
		x := new(SASLInit)
		x.decode(r)
		return x
	case codeSASLChallenge:
		x := new(SASLChallenge)
		x.decode(r)
		return x
	case codeSASLResponse:
		x := new(SASLResponse)
		x.decode(r)
		return x
	case codeSASLOutcome:
		x := new(SASLOutcome)
		x.decode(r)
		return x
	}
	return nil
}

var mangled = []byte("mangled")

// mangle makes what was handed out last unusable.
func (d *Decoder) mangle() {
	const bad = 0xdbdbdbdb
	d.transfer = Transfer{Handle: bad, DeliveryID: Some(uint32(bad)), DeliveryTag: mangled}
	d.disposition = Disposition{First: bad}
	d.flow = Flow{IncomingWindow: bad, NextOutgoingID: bad, OutgoingWindow: bad, Handle: Some(uint32(bad))}
	d.tx = TransactionalState{TxnID: mangled}
}
