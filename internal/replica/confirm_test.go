package replica

import (
	"errors"
	"testing"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/peer"
)

// offersCheckpoints lets a stepped node make checkpoints, of what it has applied.
func offersCheckpoints(n *steppedNode) {
	n.offers.drop = func(Offer) {}
	n.offers.make = func() (Offer, error) {
		o := Offer{ID: [16]byte{byte(n.id)}, Node: n.id, Index: n.state.AppliedIndex()}
		var err error
		o.Term, err = n.log.Term(o.Index)
		return o, err
	}
}

// A leader confirms nothing to a node that recovers before it has heard from a majority which doesn't count the asker: it may have been
// followed by another, for which the asker has voted, and whose entries it has acknowledged (C14).
func TestConfirmNeedsAMajority(t *testing.T) {
	w := newStepped(t, 3)
	w.ready()
	leader := w.leader()
	asker, third := w.nodes[leader.id%3], w.nodes[(leader.id+1)%3]
	offersCheckpoints(leader)
	asker.crash()
	third.held = true
	asked := 0
	w.until("it leads no more", func() bool {
		if c := leader.Confirm(asker.id, [16]byte{1}); c.Term > 0 {
			asked++
			if c.Offer.Index > 0 {
				t.Fatalf("a leader that nobody hears confirms %+v", c)
			}
		}
		return leader.Status().Role != roleLeader
	})
	if asked < 100 {
		t.Errorf("it was asked %d times: too few", asked)
	}
	third.held = false
	for _, n := range w.nodes {
		if n.Stepper != nil {
			offersCheckpoints(n)
		}
	}
	var c Confirmation
	w.until("a leader that is heard confirms", func() bool {
		for _, n := range w.nodes {
			if n.Stepper != nil && c.Offer.Index == 0 {
				c = n.Confirm(asker.id, [16]byte{1})
			}
		}
		return c.Offer.Index > 0
	})
	if c.Leader != w.leader().id || c.Term != w.leader().Status().Term {
		t.Errorf("%+v", c)
	}
}

// What a leader confirms has at least the entries that it had sent when it was asked, though an older checkpoint lies there, and they aren't
// even on its own disk yet: the asker may have acknowledged all of them (C14).
func TestConfirmHasTheWholeLog(t *testing.T) {
	w := newStepped(t, 4)
	w.ready()
	leader := w.leader()
	asker := w.nodes[leader.id%3]
	offersCheckpoints(leader)
	old := Offer{ID: [16]byte{99}, Node: leader.id, Index: leader.state.AppliedIndex(), Term: leader.Status().Term}
	leader.offers.made.Store(&old)
	leader.hangs = true // its disk: what it sends isn't stored
	err := leader.Request(&command.QueueCreate{Name: "q"}, func(command.Effect, error) {})
	if err != nil {
		t.Fatal(err)
	}
	had := asker.log.LastIndex()
	w.until("the others have an entry that the leader hasn't stored", func() bool {
		return asker.log.LastIndex() > had && asker.log.LastIndex() > leader.log.LastIndex()
	})
	acknowledged := asker.log.LastIndex()
	asker.crash()
	leader.Confirm(asker.id, [16]byte{1})
	leader.hangs = false
	var c Confirmation
	w.until("it confirms", func() bool {
		c = leader.Confirm(asker.id, [16]byte{1})
		return c.Offer.Index > 0
	})
	if c.Offer.Index < acknowledged {
		t.Errorf("it confirms a checkpoint up to %d, and the asker has acknowledged %d", c.Offer.Index, acknowledged)
	}
}

// A repeated question is one question; another life of the asker puts another, with what the leader has by then.
func TestConfirmAnew(t *testing.T) {
	w := newStepped(t, 5)
	w.ready()
	leader := w.leader()
	asker := w.nodes[leader.id%3]
	offersCheckpoints(leader)
	asker.crash()
	confirmed := func(id byte) (c Confirmation) {
		w.until("it confirms", func() bool { c = leader.Confirm(asker.id, [16]byte{id}); return c.Offer.Index > 0 })
		return c
	}
	first := confirmed(1)
	last := leader.core.last
	w.create(leader, "q")
	if again := confirmed(1); again != first {
		t.Errorf("asked again: %+v, and %+v before", again, first)
	}
	if c := confirmed(2); c.Offer.Index <= last {
		t.Errorf("asked anew: up to %d, its log had %d before another entry", c.Offer.Index, last)
	}
}

// TestConfirmation: answers come over as they are, and no other bytes are taken for one.
func TestConfirmation(t *testing.T) {
	offer := Confirmation{Offer: Offer{ID: [16]byte{7, 15: 9}, Node: 2, Index: 1 << 40, Term: 300}, Term: 301, Leader: 2}
	for _, c := range []Confirmation{{}, {Leader: 3}, {Term: 1}, offer} {
		b := c.appendTo(nil)
		if got, err := decodeConfirmation(b); err != nil || got != c {
			t.Errorf("%+v became %+v, %v", c, got, err)
		}
		for n := range b {
			if got, err := decodeConfirmation(b[:n]); !errors.Is(err, peer.ErrFrame) {
				t.Errorf("%+v cut at %d became %+v, %v", c, n, got, err)
			}
		}
		if _, err := decodeConfirmation(append(b, 0)); !errors.Is(err, peer.ErrFrame) {
			t.Errorf("%+v with a byte more: %v", c, err)
		}
	}
	bad := offer
	bad.Term = 299 // below the last entry's
	if _, err := decodeConfirmation(bad.appendTo(nil)); !errors.Is(err, peer.ErrFrame) {
		t.Errorf("%+v: %v", bad, err)
	}
}
