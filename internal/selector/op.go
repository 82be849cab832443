package selector

// op is an operation of the parsed form, which is postfix: docs/format/selector.md. Operations work on a stack of values
// and conditions; a condition is true, false or unknown.
type op byte

const (
	// These push a value.
	opName    op = 1
	opInteger op = 2
	opFloat   op = 3
	opString  op = 4
	opTrue    op = 5
	opFalse   op = 6

	// These make a value of one or two.
	opAdd      op = 8
	opSubtract op = 9
	opMultiply op = 10
	opDivide   op = 11
	opNegate   op = 12
	opPlus     op = 13

	// These make a condition of one, two or three values.
	opEqual          op = 16
	opNotEqual       op = 17
	opLess           op = 18
	opLessOrEqual    op = 19
	opGreater        op = 20
	opGreaterOrEqual op = 21
	opBetween        op = 22
	opNotBetween     op = 23
	opInStrings      op = 24
	opInNumbers      op = 25
	opLike           op = 26
	opIsNull         op = 27

	// These join conditions. A test stands between the two sides: where the first decides, the second is passed over.
	opNot     op = 32
	opAndTest op = 33
	opAnd     op = 34
	opOrTest  op = 35
	opOr      op = 36

	// These make a condition a value, and a value a condition.
	opValue     op = 40
	opCondition op = 41
)

// cond is a condition of SQL's three-valued logic. In this order AND is the lower of two, OR the higher.
type cond uint8

const (
	condFalse cond = iota
	condUnknown
	condTrue
)

// item is an operation of a program with its operands.
type item struct {
	op op
	// bits are an integer, a float's bits, the index of a name, or the escape character of a pattern (0: none).
	bits uint64
	// text is a string or a pattern.
	text string
	// strings and numbers are the members of an IN list; numbers are opInteger and opFloat items.
	strings []string
	numbers []item
}

// program is a parsed selector before it is encoded.
type program struct {
	names []name
	items []item
}
