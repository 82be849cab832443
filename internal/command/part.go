package command

// Part carries a piece of one large command [5.2]: the pieces of (epoch, Command),
// in order, joined, are a run of encoded commands as in a record's body; the last
// makes them happen. Parts end with their node's epoch. No answer of its own.
type Part struct {
	// Command tells the home's large commands apart; it rises within an epoch.
	Command uint64
	// Offset is the sum of the lengths of the pieces before this one.
	Offset uint64
	Last   bool
	Data   []byte
}

// MaxPlain is the size in bytes above which a record body travels in parts, and the
// most that one part carries.
const MaxPlain = 256 << 10

// Kind implements Command.
func (*Part) Kind() Kind { return KindPart }

func (c *Part) append(dst []byte) []byte {
	dst = appendUint(dst, c.Command)
	dst = appendUint(dst, c.Offset)
	dst = appendBool(dst, c.Last)
	return appendBytes(dst, c.Data)
}

func (c *Part) decode(r *reader) {
	c.Command = r.uint()
	c.Offset = r.uint()
	c.Last = r.bool()
	c.Data = r.bytes()
}
