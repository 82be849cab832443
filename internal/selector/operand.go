package selector

import (
	"fmt"
	"strconv"
)

// sum parses: product { (+|-) product }.
func (p *parser) sum() kind {
	return p.arithmetic("+", opAdd, "-", opSubtract, p.product)
}

// product parses: factor { (*|/) factor }.
func (p *parser) product() kind {
	return p.arithmetic("*", opMultiply, "/", opDivide, p.factor)
}

func (p *parser) arithmetic(a string, opA op, b string, opB op, operand func() kind) kind {
	at := p.tok.at
	k := operand()
	for p.tok.is(a) || p.tok.is(b) {
		symbol, o := p.tok.text, opA
		if symbol == b {
			o = opB
		}
		p.number(k, at, symbol)
		p.next()
		at = p.tok.at
		p.number(operand(), at, symbol)
		p.emit(item{op: o})
		k = kindNumber
	}
	return k
}

// signed parses a numeric literal with its signs. ok is false, and nothing consumed but signs, where there is none.
func (p *parser) signed() (it item, ok bool) {
	_, negative := p.signs()
	if p.tok.kind != tokenInteger && p.tok.kind != tokenFloat {
		return item{}, false
	}
	return p.literal(negative), true
}

func (p *parser) signs() (n int, negative bool) {
	for p.tok.is("+") || p.tok.is("-") {
		if p.tok.text == "-" {
			negative = !negative
		}
		n++
		p.next()
	}
	return n, negative
}

// literal is the number at the token.
func (p *parser) literal(negative bool) item {
	it := item{op: opInteger, bits: p.tok.bits}
	switch {
	case p.tok.kind == tokenFloat:
		it.op = opFloat
		if negative {
			it.bits ^= 1 << 63
		}
	case p.tok.decimal && it.bits>>63 != 0 && !(negative && it.bits == 1<<63):
		p.fail(p.tok.at, "expected an integer from "+strconv.FormatInt(-1<<63, 10)+" to "+strconv.FormatInt(1<<63-1, 10)+", found "+p.found()+"; a decimal point makes a number approximate")
	case negative:
		it.bits = -it.bits
	}
	p.next()
	return it
}

// factor parses: { + | - } primary.
func (p *parser) factor() kind {
	n, negative := p.signs()
	switch p.tok.kind {
	case tokenInteger, tokenFloat:
		p.emit(p.literal(negative))
		return kindNumber
	case tokenEnd, tokenName, tokenKeyword, tokenString, tokenSymbol:
	}
	at := p.tok.at
	k := p.primary()
	if n == 0 {
		return k
	}
	p.number(k, at, "a sign")
	if negative {
		p.emit(item{op: opNegate})
	} else {
		p.emit(item{op: opPlus})
	}
	return kindNumber
}

// primary parses a name, a string, TRUE, FALSE, or a parenthesis.
func (p *parser) primary() kind {
	tok := p.tok
	switch {
	case tok.kind == tokenString:
		p.next()
		p.emit(item{op: opString, text: tok.text})
		return kindString
	case tok.kind == tokenName:
		p.next()
		p.nameAt(tok)
		return kindName
	case tok.is("TRUE"), tok.is("FALSE"):
		p.next()
		o := opTrue
		if tok.text == "FALSE" {
			o = opFalse
		}
		p.emit(item{op: o})
		return kindBoolean
	case tok.is("("):
		return p.parenthesis()
	case tok.is("NULL"):
		p.fail(tok.at, "expected a value, found NULL; whether a name has one is asked by IS NULL and IS NOT NULL")
	case tok.kind == tokenKeyword:
		p.fail(tok.at, "expected a value, found the reserved word "+tok.text+"; a name that is one stands in quotation marks")
	default:
		p.expected("a value")
	}
	return kindName
}

func (p *parser) parenthesis() kind {
	if p.depth++; p.depth > MaxDepth {
		p.fail(p.tok.at, fmt.Sprintf("parentheses are nested more than %d deep", MaxDepth))
	}
	p.next()
	k := p.or()
	if !p.accept(")") {
		p.expected(`")"`)
	}
	p.depth--
	return k
}

// nameAt emits a name, and puts it in the table where it isn't yet.
func (p *parser) nameAt(tok token) {
	n, ok := resolve(tok.text)
	if !ok {
		p.fail(tok.at, "there is no field "+tok.text+" in a message; the fields are those of AMQP 1.0, 3.2.1 and 3.2.4, with _ for -")
		return
	}
	i, ok := p.index[n]
	if !ok {
		i = uint64(len(p.prog.names))
		p.index[n] = i
		p.prog.names = append(p.prog.names, n)
	}
	p.emit(item{op: opName, bits: i})
}
