// Package selector is the message selectors of JMS 1.1 to Jakarta Messaging 3.1 (JMS 2.0, 3.8.1): Parse reads the text of
// one, AppendTo and Decode are its form in the replicated log (docs/format/selector.md), and Match says whether a message
// fits, from the sections as they came. What users may write stands in docs/selectors.md.
//
// Homes parse; every replica decodes and matches, and all of them must come to the same answer: so the package reads no
// clock, uses no table of Unicode (which differs between releases of Go), and puts the result of every operation on floats
// through float64(), since arm64 and GOAMD64=v3 fuse them otherwise [4.3]. The text is parsed once, at the home, so that a
// later release that parses otherwise changes nothing that stands in a log.
//
// Evaluation is bounded. A message's sections are read once, whatever the number of names. After that each operation of
// the selector is done at most once, there are fewer than MaxLength of them beside the members of IN lists, and each takes
// a constant number of steps but for two: a LIKE takes a number that is proportional to the length of the value, whatever
// its pattern, and an IN one for each number, or the logarithm of the number of strings, in its list. Nothing recurses
// and, after Decode, nothing is allocated.
//
// The package imports nothing of this module. It must not know queues, links or frames.
package selector

// Limits of a selector. They are part of the format: a replica refuses what goes beyond them, so they may only grow, under
// a new version.
const (
	// MaxLength is the longest text in bytes that Parse takes.
	MaxLength = 8192
	// MaxDepth bounds the nesting of parentheses.
	MaxDepth = 32
	// MaxForm is the longest parsed form in bytes: Parse never makes a longer one, Decode refuses it.
	MaxForm = 8 * MaxLength
	// MaxRun is the most characters that a part of a LIKE pattern with an underscore in it may have when it stands between
	// two percent signs. All other parts are as long as they like.
	MaxRun = 64
)

// Message is what a selector can see of one message. The slices are encoded sections, each with its descriptor, as
// amqp.ParseSections cuts them; an empty one is absent. They are borrowed until Match returns. They need not be valid: what
// can't be read is NULL.
type Message struct {
	// Header, MessageAnnotations, Properties and ApplicationProperties are the sections.
	Header, MessageAnnotations, Properties, ApplicationProperties []byte
	// DeliveryCount is the number of failed attempts so far, as the broker counts them and writes them in the header that it
	// hands out. The sender's own number, in Header, isn't read.
	DeliveryCount uint32
}

// Selector is a parsed selector. It has registers of its own that Match uses: one goroutine at a time may call Match on a
// Selector; AppendTo may be called any time.
type Selector struct {
	// form is the parsed form, all that is replicated; the rest is made of it.
	form []byte

	code     []instr
	sets     [][][]byte
	numbers  [][]value
	patterns []pattern

	// values are the registers: one for each name, then the constants, then intermediate results. Those of the names borrow
	// the message's bytes while Match runs.
	values []value
	// names is the number of registers that names have.
	names int
	conds []cond

	header, properties []want
	counts             []want
	application        []key
	annotations        []key
}

// want is a field of a list section that a register wants.
type want struct {
	field field
	slot  int32
}

// key is a key of a map section that a register wants.
type key struct {
	name string
	slot int32
}

// AppendTo appends the parsed form to dst. Selectors that were parsed from texts that differ in white space, letter case
// of reserved words or the like have equal forms.
func (s *Selector) AppendTo(dst []byte) []byte { return append(dst, s.form...) }
