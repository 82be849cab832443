package amqp

import "encoding/binary"

// frameHeader is the size of a frame's header as we write it: no extended header (2.3).
const frameHeader = 8

// EmptyFrameSize is the size of the frame that only says that the peer is alive.
const EmptyFrameSize = frameHeader

// AppendFrame appends a frame with p as its body; nil makes an empty one. The payload is for transfers. Whether the frame is
// within the peer's max-frame-size is for the caller to see (AppendTransferPart sees to it).
func AppendFrame(dst []byte, channel uint16, p Performative, payload []byte) []byte {
	start := len(dst)
	if p == nil {
		return closeFrame(openFrame(dst, FrameAMQP, channel), start)
	}
	dst = p.appendTo(openFrame(dst, p.frameType(), channel))
	return closeFrame(append(dst, payload...), start)
}

// AppendTransfer is AppendFrame for a transfer, without boxing it.
func AppendTransfer(dst []byte, channel uint16, x *Transfer, payload []byte) []byte {
	start := len(dst)
	dst = x.appendTo(openFrame(dst, FrameAMQP, channel))
	return closeFrame(append(dst, payload...), start)
}

// AppendDisposition is AppendFrame for a disposition, without boxing it.
func AppendDisposition(dst []byte, channel uint16, x *Disposition) []byte {
	start := len(dst)
	return closeFrame(x.appendTo(openFrame(dst, FrameAMQP, channel)), start)
}

// AppendFlow is AppendFrame for a flow, without boxing it.
func AppendFlow(dst []byte, channel uint16, x *Flow) []byte {
	start := len(dst)
	return closeFrame(x.appendTo(openFrame(dst, FrameAMQP, channel)), start)
}

// AppendTransferPart appends a transfer frame of at most maxFrame bytes with as much of payload as fits, and returns what
// doesn't. If something is left, More is written as true whatever x says, and the caller goes on with a continuation: the
// same handle, the rest of the payload; rest is empty when all is written. A maxFrame below MinMaxFrameSize counts as that,
// so that there is always progress.
func AppendTransferPart(dst []byte, channel uint16, x *Transfer, payload []byte, maxFrame uint32) (out, rest []byte) {
	start := len(dst)
	room := int(max(maxFrame, MinMaxFrameSize))
	dst = x.appendTo(openFrame(dst, FrameAMQP, channel))
	if len(dst)-start+len(payload) <= room || len(payload) == 0 {
		return closeFrame(append(dst, payload...), start), nil
	}
	part := *x
	part.More = true
	dst = part.appendTo(openFrame(dst[:start], FrameAMQP, channel))
	n := min(max(room-(len(dst)-start), 0), len(payload))
	return closeFrame(append(dst, payload[:n]...), start), payload[n:]
}

func openFrame(dst []byte, kind uint8, channel uint16) []byte {
	return append(dst, 0, 0, 0, 0, 2, kind, byte(channel>>8), byte(channel))
}

func closeFrame(dst []byte, start int) []byte {
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start))
	return dst
}
