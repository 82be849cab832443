package amqp

// MaxDepth bounds the nesting of lists, maps, arrays and descriptors in everything that is decoded, skipped or validated.
const MaxDepth = 32

// MinMaxFrameSize is the least max-frame-size that a peer may announce, and the bound for frames before Open (2.4.1, 5.3).
const MinMaxFrameSize = 512

// The limits that stand for a zero field of Limits.
const (
	DefaultMaxFrameSize = 1 << 20
	DefaultMaxElements  = 1 << 17
	DefaultMaxBytes     = 8 << 20
)

// Limits is the budget of one decode (one frame, one message, one value). A zero field stands for its default.
type Limits struct {
	// MaxFrameSize is the largest frame in bytes that is accepted, its header included.
	MaxFrameSize uint32
	// MaxElements bounds the values in lists, maps and arrays, those without width included. Where nothing is built
	// (ParseSections) only those without width count: the others are bounded by the bytes that they take.
	MaxElements int
	// MaxBytes bounds the memory, estimated, that the decoded values take beyond the bytes that they alias.
	MaxBytes int
}

func (l Limits) maxFrameSize() uint32 {
	if l.MaxFrameSize == 0 {
		return DefaultMaxFrameSize
	}
	return l.MaxFrameSize
}

func (l Limits) maxElements() int {
	if l.MaxElements == 0 {
		return DefaultMaxElements
	}
	return l.MaxElements
}

func (l Limits) maxBytes() int {
	if l.MaxBytes == 0 {
		return DefaultMaxBytes
	}
	return l.MaxBytes
}
