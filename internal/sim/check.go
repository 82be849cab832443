package sim

import (
	"fmt"
	"sort"
)

// check compares, after the drain, what clients were told with what there was: in linear time, as every message's id is its own.
func (w *world) check() {
	for _, m := range w.history.list {
		w.checkMessage(m)
	}
	for _, t := range w.history.txs {
		w.checkTx(t)
	}
	for _, q := range sortedKeys(w.mortal) {
		w.checkConserved(q)
	}
	w.checkDigests()
	w.checkForgotten()
	w.checkCivil()
}

// checkMessage is K1, K2 and K3: a message that is stored is consumed once or still there; one that is not is nowhere.
func (w *world) checkMessage(m *message) {
	taken, maybe := 0, 0
	for _, h := range m.settles {
		switch h.took {
		case done:
			if !h.back {
				taken++
			}
		case pending:
			maybe++
		case undone:
		}
	}
	w.checkRemoved(m)
	there := taken + m.drained
	switch {
	case there > 1:
		w.fail("K3", "%s: consumed %d times, left %d times", m.about(), taken, m.drained)
	case m.sent == done && there+maybe == 0 && !w.removed(m):
		w.fail("K1", "%s: its send is done, and it is nowhere", m.about())
	case m.sent == undone && there > 0:
		w.fail("K2", "%s: its send did not happen, and it is there", m.about())
	}
}

func (m *message) about() string {
	s := fmt.Sprintf("%s to %s (send %v, seen %d, left %d", m.id, m.queue, m.sent, m.seen, m.drained)
	if m.producer != "" {
		s += fmt.Sprintf(", %s's number %d", m.producer, m.n)
	}
	if m.tx != nil {
		s += ", in " + m.tx.name
	}
	for _, h := range m.settles {
		s += ", taken " + h.took.String()
		if h.tx != nil {
			s += " in " + h.tx.name
		}
	}
	return s + ")"
}

// checkTx is K5 for those that nobody could be asked about: all or nothing of it happened.
func (w *world) checkTx(t *txn) {
	if t.decided != pending || !t.asked {
		return
	}
	w.count("outcome unknown at the end")
	yes, no := "", ""
	for _, m := range t.sends {
		switch {
		case m.seen > 0 || m.drained > 0:
			yes = m.about()
		case !w.removed(m):
			no = m.about()
		}
	}
	for _, h := range t.settles {
		other, open := false, 0
		for _, x := range h.m.settles {
			switch {
			case x == h:
			case x.took == done:
				other = true
			case x.took == pending:
				open++
			}
		}
		switch {
		case h.m.drained > 0 || other:
			no = h.m.about()
		case open == 0 && !w.removed(h.m):
			yes = h.m.about() // consumed by nobody else
		}
	}
	if yes != "" && no != "" {
		w.fail("K5", "%s happened in part: not %s, but %s", t.name, no, yes)
	}
}

// applied notes a node's digest after an apply step (K8).
func (w *world) applied(n *node) {
	st := n.step.Status()
	w.noteCommitted(n, st.Applied)
	w.noteRemoved(n)
	digest := n.step.Machine().Digest()
	if old, ok := w.digests[st.Applied]; ok && old != digest {
		w.fail("K8", "n%d has digest %x after entry %d, another node %x", n.id, digest, st.Applied, old)
	}
	w.digests[st.Applied] = digest
}

// checkDigests compares the nodes at rest.
func (w *world) checkDigests() {
	type at struct {
		index, digest uint64
	}
	var last []at
	for _, n := range w.nodes {
		if n.up && n.step != nil {
			last = append(last, at{n.step.Status().Applied, n.step.Machine().Digest()})
		}
	}
	if len(last) == 0 {
		return
	}
	same := 0
	for _, a := range last[1:] {
		if a == last[0] {
			same++
		} else if a.index == last[0].index {
			w.fail("K8", "at rest the digests after entry %d are %x and %x", a.index, a.digest, last[0].digest)
		}
	}
	if same > 0 {
		w.count("digests compared at rest")
	}
}

// fail notes a violation.
func (w *world) fail(checker, format string, args ...any) {
	text := checker + ": " + fmt.Sprintf(format, args...)
	w.say("VIOLATION %s", text)
	if len(w.violations) < 20 {
		w.violations = append(w.violations, text)
	}
}

// count is a coverage counter (K15).
func (w *world) count(what string) { w.coverage[what]++ }

// sortedKeys is a map's keys in order.
func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
