package client

import (
	"strings"
	"testing"
)

// A selector is in the source, and a broker that doesn't take it is not taken for one that does.
func TestSelector(t *testing.T) {
	for _, honoured := range []bool{true, false} {
		r := newRig(t)
		r.c.filters = honoured
		r.c.put("q", "1", "2")
		s := r.session(false)
		x := s.Receive(Source{Address: "q", Selector: "colour = 'red'"})
		r.run()
		if err := x.Err(); (err == nil) != honoured || err != nil && !strings.Contains(err.Error(), "selector") {
			t.Errorf("honoured %v: %v", honoured, err)
		}
		if got := r.c.selectors; len(got) == 0 || got[0] != "colour = 'red'" {
			t.Errorf("the broker was asked for %q", got)
		}
		if !honoured {
			r.advance(0)
			if d := x.Take(); d != nil {
				t.Errorf("%v was handed out", d)
			}
			continue
		}
		r.cut()
		r.run()
		if got := r.c.selectors; len(got) != 2 || x.Err() != nil {
			t.Errorf("after a failover the broker was asked for %q, %v", got, x.Err())
		}
	}
}
