package selector

import (
	"regexp"
	"strings"
	"testing"
)

func TestLike(t *testing.T) {
	for _, row := range []struct {
		value   any
		pattern string // with what follows it
		want    string
	}{
		// The examples of JMS 3.8.1.1.
		{"123", "'12%3'", "T"},
		{"12993", "'12%3'", "T"},
		{"1234", "'12%3'", "F"},
		{"lose", "'l_se'", "T"},
		{"loose", "'l_se'", "F"},
		{"_foo", `'\_%' ESCAPE '\'`, "T"},
		{"bar", `'\_%' ESCAPE '\'`, "F"},
		// Empty ones.
		{"", "''", "T"},
		{"a", "''", "F"},
		{"", "'%'", "T"},
		{"", "'_'", "F"},
		{"", "'%_'", "F"},
		{"", "'%%'", "T"},
		{"abc", "'%'", "T"},
		{"abc", "'%%%'", "T"},
		// Runs at both ends, and that they don't overlap.
		{"abc", "'abc'", "T"},
		{"abc", "'ab'", "F"},
		{"abc", "'bc'", "F"},
		{"abc", "'a%'", "T"},
		{"abc", "'%c'", "T"},
		{"abc", "'a%c'", "T"},
		{"abc", "'abc%abc'", "F"},
		{"aba", "'ab%ba'", "F"},
		{"abba", "'ab%ba'", "T"},
		{"a", "'a%a'", "F"},
		{"aa", "'a%a'", "T"},
		{"abc", "'A%'", "F"},
		// Search.
		{"abcabd", "'%abd%'", "T"},
		{"aaab", "'%aab'", "T"},
		{"xaxbxcx", "'%a%b%c%'", "T"},
		{"xaxcxbx", "'%a%b%c%'", "F"},
		{"aXb aYc", "'%a_c%'", "T"},
		{"aXb aYd", "'%a_c%'", "F"},
		{"abcde", "'_b%d_'", "T"},
		{"abcde", "'__%__'", "T"},
		{"abc", "'__%__'", "F"},
		{"abcd", "'%__c%'", "T"},
		{"bc", "'%__c%'", "F"},
		{"mississippi", "'%i_s%i_p%'", "T"},
		{"mississippi", "'%i_s%s%pp_'", "T"},
		{"mississippi", "'m%iss%_pi'", "T"},
		{"ababac", "'%ab_c%'", "T"},
		{"aab", "'%a_b%'", "T"},
		{"abb", "'%a_bb%'", "F"},
		{"aabb", "'%a_b%'", "T"},
		{"xyz", "'%_y_%'", "T"},
		{"xyz", "'%____%'", "F"},
		{"wxyz", "'%____%'", "T"},
		// Characters, not bytes.
		{"ü", "'_'", "T"},
		{"日本語", "'日_語'", "T"},
		{"日本語", "'__'", "F"},
		{"a日本語b", "'%日_語%'", "T"},
		{"x日", "'%_日'", "T"},
		{"😀b", "'_b'", "T"},
		{"\xff\xfe", "'__'", "T"},
		{"é", "'%\u0301%'", "F"},
		// Escapes.
		{"100%", "'100!%' ESCAPE '!'", "T"},
		{"1000", "'100!%' ESCAPE '!'", "F"},
		{"a!b", "'a!!b' ESCAPE '!'", "T"},
		{"a_b", "'a__b' ESCAPE '_'", "T"},
		{"a%b", "'a%%b' ESCAPE '%'", "T"},
		{"axb", "'a%%b' ESCAPE '%'", "F"},
		{"a%b", "'%!%%' ESCAPE '!'", "T"},
		{"axb", "'a!xb' ESCAPE '!'", "T"},
		{"a%", "'aü%' ESCAPE 'ü'", "T"},
		{"it's", "'it''_' escape '!'", "T"},
		{"a\x00b", "'a\x00b'", "T"},
		{`a\b`, `'a\b'`, "T"},
		{"a.c", "'a.c'", "T"},
		{"abc", "'a.c'", "F"},
		{"a*(b", "'a*(b'", "T"},
		{"a\nb", "'a%b'", "T"},
		{"a\nb", "'a_b'", "T"},
		// Other types, and NULL.
		{12, "'12'", "F"},
		{true, "'%'", "F"},
		{nil, "'%'", "U"},
		{symbol("text/plain"), "'text/%'", "T"},
	} {
		not := map[string]string{"T": "F", "F": "T", "U": "U"}[row.want]
		check(t, withProperties("x", row.value), []evaluation{{"x LIKE " + row.pattern, row.want}, {"x NOT LIKE " + row.pattern, not}})
	}
}

// TestLikeAgainstRegexp: the compiled patterns answer as Go's regular expressions, for all texts and patterns of a few characters.
func TestLikeAgainstRegexp(t *testing.T) {
	var words func(alphabet string, n int) []string
	words = func(alphabet string, n int) []string {
		if n == 0 {
			return []string{""}
		}
		all := []string{""}
		for _, w := range words(alphabet, n-1) {
			for _, c := range alphabet {
				all = append(all, w+string(c))
			}
		}
		return all
	}
	texts := words("aö", 6)
	for _, like := range words("aö_%", 5) {
		p, fault := newPattern(like, 0)
		if fault != "" {
			t.Fatalf("%s: %s", like, fault)
		}
		re := regexp.MustCompile("^(?s:" + strings.NewReplacer("_", ".", "%", ".*").Replace(like) + ")$")
		for _, text := range texts {
			if got, want := p.match([]byte(text)), re.MatchString(text); got != want {
				t.Fatalf("%q LIKE %q: %v, want %v", text, like, got, want)
			}
		}
	}
}

func TestLongRuns(t *testing.T) {
	if p, _ := newPattern(strings.Repeat("%", 100)+"a"+strings.Repeat("%", 100), 0); len(p.runs) != 3 {
		t.Errorf("many %% make %d runs; want 3", len(p.runs))
	}
	long := strings.Repeat("ab", 2000)
	check(t, withProperties("x", long+"c"+long), []evaluation{
		{"x LIKE '%" + strings.Repeat("a_", MaxRun/2) + "%'", "T"},
		{"x LIKE '%" + strings.Repeat("a_", MaxRun/2-1) + "bc%'", "F"},
		{"x LIKE '%" + strings.Repeat("ab", MaxRun) + "%'", "T"},
		{"x LIKE '%" + strings.Repeat("_b", MaxRun) + "'", "T"},
		{"x LIKE '" + strings.Repeat("_b", MaxRun) + "%'", "T"},
		{"x LIKE '" + strings.Repeat("_a", MaxRun) + "%'", "F"},
		{"x LIKE '%" + strings.Repeat("_", MaxRun-2) + "bc%'", "T"},
		{"x LIKE '%" + strings.Repeat("_", MaxRun-2) + "ca%'", "T"},
		{"x LIKE '%" + strings.Repeat("_", MaxRun-2) + "cb%'", "F"},
	})
}
