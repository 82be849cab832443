package selector

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// tokenKind is a kind of token.
type tokenKind uint8

const (
	tokenEnd tokenKind = iota
	tokenName
	tokenKeyword
	tokenString
	tokenInteger
	tokenFloat
	tokenSymbol
)

// token is one token of the text, which is text[at:end].
type token struct {
	kind    tokenKind
	at, end int
	// text is a name, the value of a string, a reserved word in upper case, or a symbol.
	text string
	// bits are an integer, or a float's IEEE 754 bits.
	bits uint64
	// decimal says of an integer that it wasn't hexadecimal, octal or binary, whose digits may use all 64 bits.
	decimal bool
}

// is says whether t is that reserved word or symbol.
func (t token) is(text string) bool {
	return (t.kind == tokenKeyword || t.kind == tokenSymbol) && t.text == text
}

// scan returns the token that begins at or behind offset i of text.
func scan(text string, i int) (token, *SyntaxError) {
	for i < len(text) && isSpace(text[i]) {
		i++
	}
	if i == len(text) {
		return token{kind: tokenEnd, at: i, end: i}, nil
	}
	c := text[i]
	switch {
	case c == '\'':
		return scanQuoted(text, i, tokenString, "string")
	case c == '"':
		t, err := scanQuoted(text, i, tokenName, "name")
		if err == nil && t.text == "" {
			return token{}, syntaxError(text, i, `expected a name between the quotation marks, found ""; a string stands in apostrophes`)
		}
		return t, err
	case isDigit(c) || c == '.' && i+1 < len(text) && isDigit(text[i+1]):
		return scanNumber(text, i)
	case isNameStart(c):
		return scanName(text, i), nil
	}
	return scanSymbol(text, i)
}

func scanSymbol(text string, i int) (token, *SyntaxError) {
	n := 1
	switch text[i] {
	case '=', '>', '<', '+', '-', '*', '/', '(', ')', ',':
		if i+1 < len(text) {
			switch text[i : i+2] {
			case "<>", "<=", ">=":
				n = 2
			}
		}
		return token{kind: tokenSymbol, at: i, end: i + n, text: text[i : i+n]}, nil
	case '!':
		return token{}, syntaxError(text, i, `"!" has no meaning here; "not equal" is <>`)
	}
	r, _ := utf8.DecodeRuneInString(text[i:])
	return token{}, syntaxError(text, i, strconv.QuoteToASCII(string(r))+" has no meaning here; a name with such a character stands in quotation marks")
}

// scanQuoted reads what stands between two of text[i], where that character itself is written twice.
func scanQuoted(text string, i int, kind tokenKind, what string) (token, *SyntaxError) {
	quote := text[i]
	var value strings.Builder
	for j := i + 1; j < len(text); j++ {
		if text[j] != quote {
			value.WriteByte(text[j])
			continue
		}
		if j+1 < len(text) && text[j+1] == quote {
			value.WriteByte(quote)
			j++
			continue
		}
		return token{kind: kind, at: i, end: j + 1, text: value.String()}, nil
	}
	return token{}, syntaxError(text, i, "expected "+string(quote)+" at the end of the "+what+" that begins here, found the end")
}

// scanName reads a name: Java's rules, but that every character beyond ASCII is a letter, for Java's own tables change,
// and that a full stop may stand inside (header.priority).
func scanName(text string, i int) token {
	j := i + 1
	for j < len(text) && (isNamePart(text[j]) || text[j] == '.' && j+1 < len(text) && isNamePart(text[j+1])) {
		j++
	}
	t := token{kind: tokenName, at: i, end: j, text: text[i:j]}
	if word := reserved(t.text); word != "" {
		t.kind, t.text = tokenKeyword, word
	}
	return t
}

// reserved is the reserved word that s is, in whatever case, or "".
func reserved(s string) string {
	for _, word := range [...]string{"AND", "OR", "NOT", "BETWEEN", "IN", "LIKE", "ESCAPE", "IS", "NULL", "TRUE", "FALSE"} {
		if len(s) == len(word) && upper(s) == word {
			return word
		}
	}
	return ""
}

// upper is s with its ASCII letters in upper case.
func upper(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'a' <= c && c <= 'z' {
			b[i] = c - 'a' + 'A'
		}
	}
	return string(b)
}

// scanNumber reads a numeric literal of Java.
func scanNumber(text string, i int) (token, *SyntaxError) {
	if text[i] == '0' && i+1 < len(text) {
		switch text[i+1] {
		case 'x', 'X':
			return scanHex(text, i)
		case 'b', 'B':
			return integer(text, i, digits(text, i+2, isBinary))
		}
	}
	j := digits(text, i, isDigit)
	float := j < len(text) && text[j] == '.'
	if float {
		j = digits(text, j+1, isDigit)
	}
	if k := exponent(text, j, "eE"); k > j {
		j, float = k, true
	}
	if float || j < len(text) && strings.IndexByte("dDfF", text[j]) >= 0 {
		return approximate(text, i, j)
	}
	return integer(text, i, j)
}

// scanHex reads a hexadecimal literal: an integer, or with a binary exponent a float.
func scanHex(text string, i int) (token, *SyntaxError) {
	j := digits(text, i+2, isHex)
	k := j
	if k < len(text) && text[k] == '.' {
		k = digits(text, k+1, isHex)
	}
	if end := exponent(text, k, "pP"); end > k {
		return approximate(text, i, end)
	}
	return integer(text, i, j)
}

// integer is the exact literal text[i:j], which may have an L behind it.
func integer(text string, i, j int) (token, *SyntaxError) {
	n, err := strconv.ParseUint(text[i:j], 0, 64)
	if err != nil {
		return token{}, syntaxError(text, i, "expected an integer of 64 bits, found "+text[i:j]+"; a decimal point makes a number approximate, and a leading 0 octal")
	}
	decimal := text[i] != '0'
	if j < len(text) && (text[j] == 'l' || text[j] == 'L') {
		j++
	}
	return token{kind: tokenInteger, at: i, end: j, bits: n, decimal: decimal}, nil
}

// approximate is the literal text[i:j], which may have a D or an F behind it.
func approximate(text string, i, j int) (token, *SyntaxError) {
	size := 64
	end := j
	if j < len(text) && strings.IndexByte("dDfF", text[j]) >= 0 {
		end++
		if text[j] == 'f' || text[j] == 'F' {
			size = 32
		}
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(text[i:j], "_", ""), size)
	if err != nil {
		return token{}, syntaxError(text, i, "expected a number in the range of a Java "+map[int]string{32: "float", 64: "double"}[size]+", found "+text[i:end])
	}
	return token{kind: tokenFloat, at: i, end: end, bits: math.Float64bits(f)}, nil
}

// digits is the offset behind the digits that begin at i; underscores may stand between two of them.
func digits(text string, i int, is func(byte) bool) int {
	for first := i; i < len(text); i++ {
		if is(text[i]) {
			continue
		}
		if text[i] != '_' || i == first || i+1 == len(text) || !is(text[i+1]) {
			break
		}
	}
	return i
}

// exponent is the offset behind the exponent that begins at i with one of letters, or i where there is none.
func exponent(text string, i int, letters string) int {
	if i >= len(text) || strings.IndexByte(letters, text[i]) < 0 {
		return i
	}
	j := i + 1
	if j < len(text) && (text[j] == '+' || text[j] == '-') {
		j++
	}
	if j == len(text) || !isDigit(text[j]) {
		return i
	}
	return digits(text, j, isDigit)
}

func isSpace(c byte) bool {
	return c == ' ' || '\t' <= c && c <= '\r' && c != '\v'
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isBinary(c byte) bool { return c == '0' || c == '1' }

func isHex(c byte) bool {
	return isDigit(c) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func isNameStart(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || c == '$' || c >= utf8.RuneSelf
}

func isNamePart(c byte) bool { return isNameStart(c) || isDigit(c) }
