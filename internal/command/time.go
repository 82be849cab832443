package command

// MaxBy is the most bytes of a name in SetTime.
const MaxBy = 128

// SetTime sets civil time, also back: the only way in which it goes back [4.5]. What is
// kept for a time stays for what is left of it; tokens that nobody has used end. Answer: EffectCluster; all nodes get
// EffectTimeSet.
type SetTime struct {
	Request uint64
	Civil   int64  // ms since 1970, above 0 and below MaxCivil
	By      string // who asks, for the record: at most MaxBy bytes
}

// MaxCivil bounds civil time that is set: the year 9999.
const MaxCivil = 253_402_300_800_000

// Kind implements Command.
func (*SetTime) Kind() Kind { return KindSetTime }

func (c *SetTime) append(dst []byte) []byte {
	return appendString(appendInt(appendUint(dst, c.Request), c.Civil), c.By)
}

func (c *SetTime) decode(r *reader) { c.Request, c.Civil, c.By = r.uint(), r.int(), r.string() }
