package selector

import (
	"fmt"
	"slices"
	"unicode/utf8"
)

// Parse reads the text of a selector. A text of white space alone matches every message (JMS 3.8.1). The error is a
// *SyntaxError. The work is proportional to the length of the text.
func Parse(text string) (*Selector, error) {
	prog, err := parse(text)
	if err != nil {
		return nil, err
	}
	return Decode(prog.appendTo(nil))
}

// parser is a recursive descent over the text: the next token decides. It writes the postfix program as it goes. The first
// fault sticks, and the token is then that of the end, so that every loop ends.
type parser struct {
	text  string
	tok   token
	depth int
	err   *SyntaxError
	prog  program
	index map[name]uint64
}

// kind is what is known of an operand before there is a message.
type kind uint8

const (
	kindName kind = iota // a name: of any type
	kindNumber
	kindString
	kindBoolean
	kindCondition
)

// String is the kind in the words of an error.
func (k kind) String() string {
	return [...]string{"a name", "a number", "a string", "TRUE or FALSE", "a condition"}[k]
}

func parse(text string) (program, error) {
	if len(text) > MaxLength {
		return program{}, syntaxError(text, 0, fmt.Sprintf("the selector has %d bytes; the limit is %d", len(text), MaxLength))
	}
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		if r == utf8.RuneError && n == 1 {
			return program{}, syntaxError(text, i, "not UTF-8")
		}
		i += n
	}
	p := &parser{text: text, index: make(map[name]uint64)}
	p.next()
	if p.err == nil && p.tok.kind == tokenEnd {
		p.emit(item{op: opTrue})
		p.emit(item{op: opCondition})
		return p.prog, nil
	}
	at := p.tok.at
	p.condition(p.or(), at)
	if p.err == nil && p.tok.kind != tokenEnd {
		p.expected("AND, OR or the end")
	}
	if p.err != nil {
		return program{}, p.err
	}
	return p.prog, nil
}

// next goes on to the next token.
func (p *parser) next() {
	if p.err != nil {
		return
	}
	tok, err := scan(p.text, p.tok.end)
	if err != nil {
		p.err, p.tok = err, token{}
		return
	}
	p.tok = tok
}

func (p *parser) fail(at int, reason string) {
	if p.err == nil {
		p.err, p.tok = syntaxError(p.text, at, reason), token{}
	}
}

// expected fails at the token.
func (p *parser) expected(what string) {
	p.fail(p.tok.at, "expected "+what+", found "+p.found())
}

// found is the token in the words of an error.
func (p *parser) found() string {
	if p.tok.kind == tokenEnd {
		return "the end"
	}
	s := p.text[p.tok.at:p.tok.end]
	if r := []rune(s); len(r) > 20 {
		s = string(r[:20]) + "…"
	}
	return s
}

// accept goes over the token if it is that word or symbol.
func (p *parser) accept(text string) bool {
	if !p.tok.is(text) {
		return false
	}
	p.next()
	return true
}

func (p *parser) need(text string) {
	if !p.accept(text) {
		p.expected(text)
	}
}

func (p *parser) emit(it item) { p.prog.items = append(p.prog.items, it) }

// condition makes a condition of the operand at offset at.
func (p *parser) condition(k kind, at int) {
	switch k {
	case kindNumber, kindString:
		p.fail(at, "expected a condition, found "+k.String())
	case kindName, kindBoolean:
		p.emit(item{op: opCondition})
	case kindCondition:
	}
}

// value makes a value of the operand.
func (p *parser) value(k kind) kind {
	if k == kindCondition {
		p.emit(item{op: opValue})
		return kindBoolean
	}
	return k
}

// number fails unless the operand at offset at may be a number, which what needs.
func (p *parser) number(k kind, at int, what string) {
	if k != kindName && k != kindNumber {
		p.fail(at, what+" needs numbers, found "+k.String())
	}
}

// or parses: and { OR and }.
func (p *parser) or() kind {
	return p.chain("OR", opOrTest, opOr, p.and)
}

// and parses: not { AND not }.
func (p *parser) and() kind {
	return p.chain("AND", opAndTest, opAnd, p.not)
}

func (p *parser) chain(word string, test, join op, side func() kind) kind {
	at := p.tok.at
	k := side()
	for p.tok.is(word) {
		p.condition(k, at)
		p.emit(item{op: test})
		p.next()
		at = p.tok.at
		p.condition(side(), at)
		p.emit(item{op: join})
		k = kindCondition
	}
	return k
}

// not parses: { NOT } predicate.
func (p *parser) not() kind {
	n := 0
	for p.accept("NOT") {
		n++
	}
	at := p.tok.at
	k := p.predicate()
	if n > 0 {
		p.condition(k, at)
		k = kindCondition
	}
	if n%2 != 0 {
		p.emit(item{op: opNot})
	}
	return k
}

// predicate parses a sum, or what is said of one.
func (p *parser) predicate() kind {
	at := p.tok.at
	k := p.sum()
	if p.tok.kind == tokenSymbol {
		return p.comparison(k, at)
	}
	word := p.tok
	if word.is("IS") {
		p.next()
		not := p.accept("NOT")
		p.need("NULL")
		return p.about(k, at, "IS NULL", not, item{op: opIsNull})
	}
	not := p.accept("NOT")
	switch {
	case p.accept("BETWEEN"):
		return p.between(k, at, not)
	case p.accept("IN"):
		return p.about(k, at, "IN", not, p.list(k))
	case p.accept("LIKE"):
		return p.about(k, at, "LIKE", not, p.like())
	case not:
		p.expected("BETWEEN, IN or LIKE")
	}
	return k
}

// about ends a predicate that the grammar allows of names alone.
func (p *parser) about(k kind, at int, what string, not bool, it item) kind {
	if k != kindName {
		p.fail(at, what+" is said of a name, found "+k.String())
	}
	p.emit(it)
	if not {
		p.emit(item{op: opNot})
	}
	return kindCondition
}

// comparisons maps the symbols to their operations.
var comparisons = [...]struct {
	symbol string
	op     op
}{{"=", opEqual}, {"<>", opNotEqual}, {"<", opLess}, {"<=", opLessOrEqual}, {">", opGreater}, {">=", opGreaterOrEqual}}

func (p *parser) comparison(k kind, at int) kind {
	for _, c := range comparisons {
		if !p.accept(c.symbol) {
			continue
		}
		k = p.value(k)
		rightAt := p.tok.at
		right := p.value(p.sum())
		if c.op != opEqual && c.op != opNotEqual {
			p.number(k, at, c.symbol)
			p.number(right, rightAt, c.symbol)
		}
		p.bareIDs()
		p.emit(item{op: c.op})
		return kindCondition
	}
	return k
}

// bareIDs rewrites the string that an id is compared with, of the two operands emitted last: bareID says how.
func (p *parser) bareIDs() {
	n := len(p.prog.items)
	if n < 2 {
		return
	}
	a, b := &p.prog.items[n-2], &p.prog.items[n-1]
	switch {
	case p.isID(*a) && b.op == opString:
		b.text = bareID(b.text)
	case p.isID(*b) && a.op == opString:
		a.text = bareID(a.text)
	}
}

func (p *parser) isID(it item) bool {
	if it.op != opName {
		return false
	}
	f := p.prog.names[it.bits].field
	return f == fieldJMSMessageID || f == fieldJMSCorrelationID
}

func (p *parser) between(k kind, at int, not bool) kind {
	p.number(p.value(k), at, "BETWEEN")
	at = p.tok.at
	p.number(p.sum(), at, "BETWEEN")
	p.need("AND")
	at = p.tok.at
	p.number(p.sum(), at, "BETWEEN")
	o := opBetween
	if not {
		o = opNotBetween
	}
	p.emit(item{op: o})
	return kindCondition
}

// list parses the parenthesis behind IN: strings, or numbers, which JMS doesn't have.
func (p *parser) list(k kind) item {
	id := k == kindName && len(p.prog.items) > 0 && p.isID(p.prog.items[len(p.prog.items)-1])
	p.need("(")
	var it item
	for {
		at := p.tok.at
		switch {
		case p.tok.kind == tokenString:
			s := p.tok.text
			if id {
				s = bareID(s)
			}
			it.strings = append(it.strings, s)
			p.next()
		default:
			n, ok := p.signed()
			if !ok {
				p.expected("a string or a number")
				break
			}
			it.numbers = append(it.numbers, n)
		}
		if it.strings != nil && it.numbers != nil {
			p.fail(at, "the members of an IN list are all strings or all numbers")
		}
		if !p.accept(",") {
			break
		}
	}
	if p.err == nil && !p.tok.is(")") {
		p.expected(`"," or ")"`)
	}
	p.next()
	it.op = opInNumbers
	if it.strings != nil {
		it.op = opInStrings
		slices.Sort(it.strings)
		it.strings = slices.Compact(it.strings)
	}
	return it
}

// like parses what stands behind LIKE.
func (p *parser) like() item {
	it := item{op: opLike, text: p.tok.text}
	at := p.tok.at
	if p.tok.kind != tokenString {
		p.expected("a pattern in apostrophes")
		return it
	}
	p.next()
	if p.accept("ESCAPE") {
		r, n := utf8.DecodeRuneInString(p.tok.text)
		if p.tok.kind != tokenString || n == 0 || n != len(p.tok.text) || r == 0 {
			p.expected("one character in apostrophes, the escape character")
			return it
		}
		it.bits = uint64(r)
		p.next()
	}
	if _, fault := newPattern(it.text, rune(it.bits)); fault != "" {
		p.fail(at, fault)
	}
	return it
}
