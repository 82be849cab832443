package selector

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"unicode/utf8"
)

// pattern is a compiled LIKE pattern: runs of characters with % between them. A run is matched at one place only (the
// first and the last), or searched for from the left, where the earliest place is as good as any: so there is no way back.
type pattern struct {
	runs []run
}

// anyRune stands in a run for an underscore.
const anyRune rune = -1

// run is a part of a pattern without %.
type run struct {
	// chars are its characters; text is the same where none is anyRune, and wild says that one is.
	chars []rune
	text  []byte
	wild  bool
	// masks has, for a run that is searched for and wild, which places of chars each character fits, by character; every
	// character fits those of others.
	masks  []mask
	others uint64
}

type mask struct {
	char   rune
	places uint64
}

// newPattern compiles the text of a pattern; escape is 0 where there is no escape character. fault says what is wrong.
func newPattern(text string, escape rune) (p pattern, fault string) {
	var r run
	escaped := false
	for _, c := range text {
		switch {
		case escaped:
			escaped = false
			r.add(c)
		case escape != 0 && c == escape:
			escaped = true
		case c == '%':
			if len(p.runs) == 0 || len(r.chars) > 0 {
				p.runs = append(p.runs, r)
			}
			r = run{}
		case c == '_':
			r.chars, r.wild = append(r.chars, anyRune), true
		default:
			r.add(c)
		}
	}
	if escaped {
		return pattern{}, "nothing follows the escape character at the end of the pattern"
	}
	p.runs = append(p.runs, r)
	for i := 1; i < len(p.runs)-1; i++ {
		if r := &p.runs[i]; r.wild {
			if len(r.chars) > MaxRun {
				return pattern{}, fmt.Sprintf("a part of the pattern between two %% has an underscore and %d characters; the limit is %d", len(r.chars), MaxRun)
			}
			r.prepare()
		}
	}
	return p, ""
}

func (r *run) add(c rune) {
	r.chars = append(r.chars, c)
	r.text = utf8.AppendRune(r.text, c)
}

// prepare makes the masks.
func (r *run) prepare() {
	for i, c := range r.chars {
		if c == anyRune {
			r.others |= 1 << i
			continue
		}
		r.masks = append(r.masks, mask{char: c, places: 1 << i})
	}
	slices.SortFunc(r.masks, func(a, b mask) int {
		return cmp.Or(cmp.Compare(a.char, b.char), cmp.Compare(a.places, b.places))
	})
	kept := r.masks[:0]
	for _, m := range r.masks {
		if n := len(kept); n > 0 && kept[n-1].char == m.char {
			kept[n-1].places |= m.places
			continue
		}
		kept = append(kept, m)
	}
	r.masks = kept
}

// match says whether the whole of text fits. It takes steps proportional to the length of text and the pattern.
func (p *pattern) match(text []byte) bool {
	first, last := &p.runs[0], len(p.runs)-1
	n := first.prefix(text)
	if n < 0 {
		return false
	}
	text = text[n:]
	if last == 0 {
		return len(text) == 0
	}
	if n = p.runs[last].suffix(text); n < 0 {
		return false
	}
	text = text[:n]
	for i := 1; i < last; i++ {
		if n = p.runs[i].search(text); n < 0 {
			return false
		}
		text = text[n:]
	}
	return true
}

// prefix is the number of bytes at the beginning of text that fit, -1 if they don't.
func (r *run) prefix(text []byte) int {
	if !r.wild {
		if !bytes.HasPrefix(text, r.text) {
			return -1
		}
		return len(r.text)
	}
	n := 0
	for _, want := range r.chars {
		c, size := utf8.DecodeRune(text[n:])
		if size == 0 || want != anyRune && want != c {
			return -1
		}
		n += size
	}
	return n
}

// suffix is where the bytes at the end of text that fit begin, -1 if they don't.
func (r *run) suffix(text []byte) int {
	if !r.wild {
		if !bytes.HasSuffix(text, r.text) {
			return -1
		}
		return len(text) - len(r.text)
	}
	n := len(text)
	for i := len(r.chars) - 1; i >= 0; i-- {
		c, size := utf8.DecodeLastRune(text[:n])
		if want := r.chars[i]; size == 0 || want != anyRune && want != c {
			return -1
		}
		n -= size
	}
	return n
}

// search is the end of the first place where text fits, -1 if there is none. A wild run is a machine whose states are the
// places in the run, all of which take a character in one step: one bit each (Baeza-Yates and Gonnet's shift-and).
func (r *run) search(text []byte) int {
	if !r.wild {
		i := bytes.Index(text, r.text)
		if i < 0 {
			return -1
		}
		return i + len(r.text)
	}
	end := uint64(1) << (len(r.chars) - 1)
	var states uint64
	for n := 0; n < len(text); {
		c, size := utf8.DecodeRune(text[n:])
		n += size
		states = (states<<1 | 1) & r.places(c)
		if states&end != 0 {
			return n
		}
	}
	return -1
}

// places says which places of the run c fits.
func (r *run) places(c rune) uint64 {
	low, high := 0, len(r.masks)
	for low < high {
		middle := int(uint(low+high) / 2)
		switch m := &r.masks[middle]; {
		case m.char == c:
			return r.others | m.places
		case m.char < c:
			low = middle + 1
		default:
			high = middle
		}
	}
	return r.others
}
