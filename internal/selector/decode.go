package selector

import (
	"bytes"
	"cmp"
	"slices"
	"unicode/utf8"
)

// maxStack bounds the values and conditions that a program has on its stack at once. Each of MaxDepth parentheses adds six
// at most: a side of OR, of AND, of a BETWEEN two, of a sum and of a product.
const maxStack = 256

// instr is an operation whose operands are registers: a, b, c and dst are indexes of values, or of conditions where the
// operation says so.
type instr struct {
	op           op
	a, b, c, dst int32
	// index is that of a set, of numbers or of a pattern; of a test, the instruction to go on with.
	index int32
}

// Decode makes a selector of its parsed form, which it copies. The errors wrap ErrForm; bytes of any kind are safe, and the
// memory taken is proportional to their number.
func Decode(b []byte) (*Selector, error) {
	if len(b) > MaxForm {
		return nil, formError("%d bytes; the limit is %d", len(b), MaxForm)
	}
	s := &Selector{form: slices.Clone(b)}
	r := &formReader{left: s.form}
	if v := r.byte(); r.err == nil && v != formVersion {
		return nil, formError("version %d; this release knows %d", v, formVersion)
	}
	s.decodeNames(r)
	c := compiler{s: s, r: r}
	for n := r.count(); n > 0 && r.err == nil; n-- {
		c.operation()
	}
	if r.err == nil && len(r.left) > 0 {
		r.fail("%d bytes after its end", len(r.left))
	}
	c.finish()
	if r.err != nil {
		return nil, r.err
	}
	return s, nil
}

// decodeNames gives each name its register, by its place in the table.
func (s *Selector) decodeNames(r *formReader) {
	s.names = r.count()
	seen := make(map[name]bool, s.names)
	for slot := int32(0); slot < int32(s.names) && r.err == nil; slot++ {
		n := name{field: field(r.byte())}
		if n.field.keyed() {
			n.key = string(r.text())
		}
		if !n.field.valid() || seen[n] {
			r.fail("name %d: field %d, which is unknown or there twice", slot, n.field)
			return
		}
		seen[n] = true
		s.wantName(n, slot)
	}
	byPlace := func(a, b want) int {
		return cmp.Or(cmp.Compare(a.field.place(), b.field.place()), cmp.Compare(a.field, b.field))
	}
	slices.SortFunc(s.header, byPlace)
	slices.SortFunc(s.properties, byPlace)
	byName := func(a, b key) int { return bytes.Compare([]byte(a.name), []byte(b.name)) }
	slices.SortFunc(s.application, byName)
	slices.SortFunc(s.annotations, byName)
}

func (s *Selector) wantName(n name, slot int32) {
	w := want{n.field, slot}
	switch n.field {
	case fieldApplication:
		s.application = append(s.application, key{n.key, slot})
	case fieldAnnotation:
		s.annotations = append(s.annotations, key{n.key, slot})
	case fieldDeliveryCount, fieldJMSDeliveryCount, fieldJMSRedelivered:
		s.counts = append(s.counts, w)
	case fieldDurable, fieldJMSDeliveryMode, fieldPriority, fieldTTL, fieldFirstAcquirer:
		s.header = append(s.header, w)
	default:
		s.properties = append(s.properties, w)
	}
}

// entry is what stands on the stack: the register of a value or a condition. Constants and intermediate values get their
// final registers in finish: until then a constant's is its number, an intermediate one's -1 minus its place.
type entry struct {
	register  int32
	condition bool
}

// test is a test whose join hasn't come yet.
type test struct {
	op     op
	at     int // its instruction
	height int // of the stack, its side included
}

// compiler turns the postfix program into instructions on registers, by running it on a stack of registers.
type compiler struct {
	s         *Selector
	r         *formReader
	stack     []entry
	tests     []test
	named     int // so many names were used
	constants []value
	values    int // the most intermediate values
}

// push pushes an entry.
func (c *compiler) push(e entry) {
	if len(c.stack) == maxStack {
		c.r.fail("more than %d values at once", maxStack)
		return
	}
	c.stack = append(c.stack, e)
}

// pop takes a value or a condition off the stack, but none from before a test that is open.
func (c *compiler) pop(condition bool) int32 {
	floor := 0
	if n := len(c.tests); n > 0 {
		floor = c.tests[n-1].height
	}
	n := len(c.stack) - 1
	if n < floor || c.stack[n].condition != condition {
		c.r.fail("an operation without its operands")
		return 0
	}
	e := c.stack[n]
	c.stack = c.stack[:n]
	return e.register
}

func (c *compiler) emit(in instr) { c.s.code = append(c.s.code, in) }

// valueRegister is for an intermediate value that will be pushed next, condRegister for a condition: both go by the height
// of the stack, so what lies deeper keeps its own.
func (c *compiler) valueRegister() int32 {
	c.values = max(c.values, len(c.stack)+1)
	return -1 - int32(len(c.stack))
}

func (c *compiler) condRegister() int32 {
	if n := len(c.stack) + 1; n > len(c.s.conds) {
		c.s.conds = append(c.s.conds, make([]cond, n-len(c.s.conds))...)
	}
	return int32(len(c.stack))
}

func (c *compiler) constant(v value) {
	c.constants = append(c.constants, v)
	c.push(entry{register: int32(c.s.names + len(c.constants) - 1)})
}

// operation reads and compiles the next operation.
func (c *compiler) operation() {
	switch o := op(c.r.byte()); o {
	case opName:
		c.name()
	case opInteger, opFloat:
		c.constant(c.numeric(o))
	case opString:
		c.constant(value{kind: typeString, text: c.r.text()})
	case opTrue, opFalse:
		c.constant(valueOf(map[op]cond{opTrue: condTrue, opFalse: condFalse}[o]))
	case opAdd, opSubtract, opMultiply, opDivide:
		b, a := c.pop(false), c.pop(false)
		c.pushValue(instr{op: o, a: a, b: b})
	case opNegate, opPlus:
		c.pushValue(instr{op: o, a: c.pop(false)})
	case opEqual, opNotEqual, opLess, opLessOrEqual, opGreater, opGreaterOrEqual:
		b, a := c.pop(false), c.pop(false)
		c.pushCond(instr{op: o, a: a, b: b})
	case opBetween, opNotBetween:
		high, low, a := c.pop(false), c.pop(false), c.pop(false)
		c.pushCond(instr{op: o, a: a, b: low, c: high})
	case opInStrings, opInNumbers, opLike:
		index := c.operand(o)
		c.pushCond(instr{op: o, a: c.pop(false), index: index})
	case opIsNull, opCondition:
		c.pushCond(instr{op: o, a: c.pop(false)})
	case opNot:
		c.pushCond(instr{op: o, a: c.pop(true)})
	case opValue:
		c.pushValue(instr{op: o, a: c.pop(true)})
	case opAndTest, opOrTest:
		c.test(o)
	case opAnd:
		c.join(opAndTest, o)
	case opOr:
		c.join(opOrTest, o)
	default:
		c.r.fail("operation %d, which is unknown", o)
	}
}

func (c *compiler) pushValue(in instr) {
	in.dst = c.valueRegister()
	c.emit(in)
	c.push(entry{register: in.dst})
}

func (c *compiler) pushCond(in instr) {
	in.dst = c.condRegister()
	c.emit(in)
	c.push(entry{register: in.dst, condition: true})
}

// name pushes a name. The table has them in the order of their first use, so that a selector has one form.
func (c *compiler) name() {
	i := c.r.uint()
	if i >= uint64(c.s.names) || i > uint64(c.named) {
		c.r.fail("name %d before its turn", i)
		return
	}
	c.named = max(c.named, int(i)+1)
	c.push(entry{register: int32(i)})
}

func (c *compiler) numeric(o op) value {
	if o == opFloat {
		return value{kind: typeFloat, bits: c.r.float()}
	}
	return value{kind: typeInteger, bits: c.r.int()}
}

// operand reads what an IN or a LIKE has beside its value, and returns its index.
func (c *compiler) operand(o op) int32 {
	s := c.s
	switch o {
	case opInStrings:
		s.sets = append(s.sets, c.set())
		return int32(len(s.sets) - 1)
	case opInNumbers:
		var list []value
		for n := c.r.count(); n > 0 && c.r.err == nil; n-- {
			o := op(c.r.byte())
			if o != opInteger && o != opFloat {
				c.r.fail("a list of numbers with operation %d in it", o)
				break
			}
			list = append(list, c.numeric(o))
		}
		s.numbers = append(s.numbers, list)
		return int32(len(s.numbers) - 1)
	default:
		text, escape := c.r.text(), c.r.uint()
		if !utf8.Valid(text) || escape > utf8.MaxRune {
			c.r.fail("a pattern that isn't UTF-8")
			return 0
		}
		p, fault := newPattern(string(text), rune(escape))
		if fault != "" {
			c.r.fail("a pattern: %s", fault)
		}
		s.patterns = append(s.patterns, p)
		return int32(len(s.patterns) - 1)
	}
}

// set reads the strings of an IN list, which ascend.
func (c *compiler) set() [][]byte {
	var set [][]byte
	for n := c.r.count(); n > 0 && c.r.err == nil; n-- {
		text := c.r.text()
		if k := len(set); k > 0 && bytes.Compare(set[k-1], text) >= 0 {
			c.r.fail("a list of strings that don't ascend")
		}
		set = append(set, text)
	}
	return set
}

// test compiles what stands between the sides of a join: the first side stays on the stack.
func (c *compiler) test(o op) {
	a := c.pop(true)
	c.push(entry{register: a, condition: true})
	c.tests = append(c.tests, test{o, len(c.s.code), len(c.stack)})
	c.emit(instr{op: o, a: a})
}

// join ends what its test began.
func (c *compiler) join(want, o op) {
	n := len(c.tests) - 1
	if n < 0 || c.tests[n].op != want || len(c.stack) != c.tests[n].height+1 {
		c.r.fail("a join without its test")
		return
	}
	t := c.tests[n]
	b := c.pop(true)
	c.tests = c.tests[:n]
	a := c.pop(true)
	c.pushCond(instr{op: o, a: a, b: b})
	c.s.code[t.at].index = int32(len(c.s.code))
}

// finish checks that one condition is left, and gives the registers their final numbers.
func (c *compiler) finish() {
	s := c.s
	if len(c.stack) != 1 || !c.stack[0].condition || len(c.tests) != 0 || c.named != s.names {
		c.r.fail("it isn't one whole condition")
	}
	if c.r.err != nil {
		return
	}
	first := s.names + len(c.constants)
	s.values = make([]value, first+c.values)
	copy(s.values[s.names:], c.constants)
	for i := len(s.code) - 1; i >= 0; i-- {
		in := &s.code[i]
		for _, register := range [...]*int32{&in.a, &in.b, &in.c, &in.dst} {
			if *register < 0 {
				*register = int32(first) - 1 - *register
			}
		}
		// A test behind a test of the same kind comes to the same end: a long OR is left in one step.
		if n := int(in.index); (in.op == opAndTest || in.op == opOrTest) && n < len(s.code) && s.code[n].op == in.op && s.code[n].a == in.a {
			in.index = s.code[n].index
		}
	}
}
