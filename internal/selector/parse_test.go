package selector

import (
	"errors"
	"strings"
	"testing"
)

func TestErrors(t *testing.T) {
	for _, row := range []struct {
		text   string
		column int
		reason string // a part of it
	}{
		{"x =", 4, "expected a value, found the end"},
		{"= 1", 1, "expected a value, found ="},
		{"x = 1 y", 7, "expected AND, OR or the end, found y"},
		{"x = 1 = 2", 7, "expected AND, OR or the end, found ="},
		{"x = 1 AND", 10, "found the end"},
		{"x = 1 OR OR y = 2", 10, "reserved word OR"},
		{"x == 1", 4, "expected a value, found ="},
		{"x != 1", 3, "<>"},
		{"x > > 1", 5, "expected a value, found >"},
		{"x => 1", 4, "expected a value, found >"},
		{"x # 1", 3, `"#" has no meaning`},
		{"x; y", 2, "no meaning"},
		{"x\v= 1", 2, "no meaning"},
		{"ü = 1 ü", 7, "found ü"},
		{"'日本' = x AND 'a", 14, "string that begins here"},
		{"x = 'it's'", 9, "found s"},
		{`"x = 1`, 1, "name that begins here"},
		{`"" = 1`, 1, "found \"\""},
		{"(x = 1", 7, `expected ")", found the end`},
		{"x = 1)", 6, "found )"},
		{"()", 2, "expected a value, found )"},
		{"3 + 5", 1, "expected a condition, found a number"},
		{"x + 1", 1, "expected a condition, found a number"},
		{"'a'", 1, "expected a condition, found a string"},
		{"TRUE AND 3 + 5", 10, "expected a condition, found a number"},
		{"NOT 'a'", 5, "expected a condition, found a string"},
		{"(1) AND TRUE", 1, "expected a condition"},
		{"x = NULL", 5, "IS NULL"},
		{"NULL", 1, "IS NULL"},
		{"x IS", 5, "expected NULL, found the end"},
		{"x IS 1", 6, "expected NULL, found 1"},
		{"x IS NOT TRUE", 10, "expected NULL, found TRUE"},
		{"x NOT NULL", 7, "expected BETWEEN, IN or LIKE, found NULL"},
		{"x NOT = 1", 7, "expected BETWEEN, IN or LIKE"},
		{"1 IS NULL", 1, "IS NULL is said of a name, found a number"},
		{"'a' IN ('a')", 1, "IN is said of a name, found a string"},
		{"x + 1 IN (1)", 1, "IN is said of a name"},
		{"'a' LIKE 'a'", 1, "LIKE is said of a name"},
		{"TRUE LIKE 'a'", 1, "LIKE is said of a name, found TRUE or FALSE"},
		{"(x = 1) IS NULL", 1, "found a condition"},
		{"x IN", 5, "expected (, found the end"},
		{"x IN ()", 7, "expected a string or a number, found )"},
		{"x IN 'a'", 6, "expected (, found 'a'"},
		{"x IN ('a'", 10, `expected "," or ")", found the end`},
		{"x IN ('a',)", 11, "expected a string or a number"},
		{"x IN ('a' 'b')", 11, `expected "," or ")"`},
		{"x IN ('a', 1)", 12, "all strings or all numbers"},
		{"x IN (1, 'a')", 10, "all strings or all numbers"},
		{"x IN (y)", 7, "expected a string or a number, found y"},
		{"x IN (-'a')", 8, "expected"},
		{"x LIKE", 7, "expected a pattern in apostrophes, found the end"},
		{"x LIKE 5", 8, "expected a pattern in apostrophes, found 5"},
		{"x LIKE y", 8, "expected a pattern"},
		{"x LIKE 'a' ESCAPE", 18, "escape character, found the end"},
		{"x LIKE 'a' ESCAPE ''", 19, "one character"},
		{"x LIKE 'a' ESCAPE 'ab'", 19, "one character"},
		{"x LIKE 'a' ESCAPE '\x00'", 19, "one character"},
		{"x LIKE 'a' ESCAPE b", 19, "one character"},
		{"x LIKE 'a!' ESCAPE '!'", 8, "nothing follows the escape character"},
		{"x LIKE '%" + strings.Repeat("_", MaxRun+1) + "%'", 8, "the limit is 64"},
		{"x BETWEEN 1", 12, "expected AND, found the end"},
		{"x BETWEEN 1 OR 2", 13, "expected AND, found OR"},
		{"x BETWEEN 1 AND", 16, "expected a value"},
		{"x BETWEEN 'a' AND 'b'", 11, "BETWEEN needs numbers, found a string"},
		{"x BETWEEN 1 AND TRUE", 17, "BETWEEN needs numbers"},
		{"'a' BETWEEN 1 AND 2", 1, "BETWEEN needs numbers"},
		{"x > 'a'", 5, "> needs numbers, found a string"},
		{"'a' <= x", 1, "<= needs numbers, found a string"},
		{"TRUE > 0", 1, "> needs numbers, found TRUE or FALSE"},
		{"1x IS NULL", 1, "expected a condition, found a number"},
		{"%x IS NULL", 1, "no meaning"},
		{"x < TRUE", 5, "< needs numbers, found TRUE or FALSE"},
		{"(x = 1) >= y", 1, ">= needs numbers"},
		{"x + 'a' = 1", 5, "+ needs numbers, found a string"},
		{"TRUE * 2 = 1", 1, "* needs numbers"},
		{"x / (y = 1) = 1", 5, "/ needs numbers, found a condition"},
		{"-'a' = 1", 2, "a sign needs numbers"},
		{"x AND + = 1", 9, "expected a value, found ="},
		{"AND = 1", 1, "reserved word AND; a name that is one stands in quotation marks"},
		{"x = between", 5, "reserved word BETWEEN"},
		{"x = 9223372036854775808", 5, "expected an integer from -9223372036854775808 to 9223372036854775807"},
		{"x = -9223372036854775809", 6, "found 9223372036854775809"},
		{"x = 99999999999999999999", 5, "an integer of 64 bits"},
		{"x = 09", 5, "octal"},
		{"x = 0x", 5, "integer of 64 bits"},
		{"x = 0xFFFFFFFFFFFFFFFFF", 5, "integer of 64 bits"},
		{"x = 0b2", 5, "integer of 64 bits"},
		{"x = 1e999", 5, "range of a Java double"},
		{"x = 1e39F", 5, "range of a Java float, found 1e39F"},
		{"x = 5abc", 6, "found abc"},
		{"x = 1..2", 7, "found .2"},
		{"x = 1_", 6, "found _"},
		{"x = 1_x", 6, "found _x"},
		{"x. = 1", 2, "no meaning"},
		{"header.colour = 1", 1, "there is no field header.colour"},
		{"1 = properties.Subject", 5, "there is no field properties.Subject"},
		{"x = 1 -- a comment", 12, "found comment"},
		{"x = 1 /* */", 8, "expected a value, found *"},
		{"x = ?", 5, "no meaning"},
		{"x = 'a' \x00", 9, "no meaning"},
		{"x = '\xff'", 6, "not UTF-8"},
		{"x IS NOT NULL AND " + strings.Repeat("(", MaxDepth+1) + "x" + strings.Repeat(")", MaxDepth+1), 19 + MaxDepth, "more than 32 deep"},
		{strings.Repeat(" ", MaxLength) + "x", 1, "the limit is 8192"},
		{"x = " + strings.Repeat("é", 50) + " 1", 56, "found 1"},
		{"x = 1 " + strings.Repeat("é", 50), 7, "found " + strings.Repeat("é", 20) + "…"},
	} {
		s, err := Parse(row.text)
		var syntax *SyntaxError
		if !errors.As(err, &syntax) || s != nil {
			t.Errorf("%.60s: %v, want a SyntaxError", row.text, err)
			continue
		}
		if syntax.Column != row.column || !strings.Contains(syntax.Reason, row.reason) {
			t.Errorf("%.60s: %v; want column %d, %s", row.text, err, row.column, row.reason)
		}
	}
}

func TestErrorText(t *testing.T) {
	_, err := Parse("price >")
	if got, want := err.Error(), "selector: column 8: expected a value, found the end"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// What lies within the limits is taken, however long or deep.
func TestLimits(t *testing.T) {
	deep := func(inner string) string {
		return strings.Repeat("(", MaxDepth) + inner + strings.Repeat(")", MaxDepth)
	}
	full := func(first, more string) string {
		return first + strings.Repeat(more, (MaxLength-len(first))/len(more))
	}
	check(t, withProperties("x", 1), []evaluation{
		{deep("x = 1"), "T"},
		{deep("x") + " = 1", "T"},
		{full("(x=2)", "OR(x=1)"), "T"},
		{full("x=1", " OR x=1"), "T"},
		{full("x=2", " OR x=1"), "T"},
		{full("x=2", " OR x=2"), "F"},
		{full("x=1", " AND x=1"), "T"},
		{full("x=1", " AND x=2"), "F"},
		{full("u=1", " OR u=1"), "U"},
		{full("x = 1", "+1"), "F"},
		{full("x*1", "*1")[:MaxLength-3] + "=1", "T"},
		{strings.Repeat("NOT ", 2000) + "x = 1", "T"},
		{strings.Repeat("NOT ", 2001) + "x = 1", "F"},
		{"x = " + strings.Repeat("-", 8000) + "1", "T"},
		{"x = " + strings.Repeat("-", 8001) + "1", "F"},
		{"x IN (" + full("1", ",1")[:8000] + "1)", "T"},
		{"x NOT IN (" + strings.Repeat(".1,", 2700) + ".2)", "T"},
	})
}

// TestDecidedChain: the first side that decides a long chain ends it in one step.
func TestDecidedChain(t *testing.T) {
	for _, word := range []string{"OR", "AND"} {
		s := mustParse(t, "x=1"+strings.Repeat(" "+word+" x=1", 100))
		for i := range s.code {
			if in := &s.code[i]; (in.op == opOrTest || in.op == opAndTest) && int(in.index) != len(s.code) {
				t.Errorf("%s: instruction %d goes on at %d of %d", word, i, in.index, len(s.code))
			}
		}
	}
}

// TestStack: the deepest stack that a text can ask for, all sides open at every level, is within the bound.
func TestStack(t *testing.T) {
	values := "x"
	for range MaxDepth {
		values = "x+x*(" + values + ")"
	}
	conditions := "x = 1"
	for range MaxDepth {
		conditions = "u OR x=1 AND TRUE=(" + conditions + ")"
	}
	check(t, withProperties("x", 1), []evaluation{
		{"x BETWEEN 0 AND " + values, "T"},
		{conditions, "T"},
	})
}
