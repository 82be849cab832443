package peer

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
)

// memberOf is a node that knows others from the state, not from its operator.
func memberOf(t *testing.T, node uint64, ls map[uint64]net.Listener, m Members) *knowing {
	t.Helper()
	s := stampOf(node)
	return &knowing{start(t, s, nil, func(c *Config) {
		c.Members, c.Listener, c.Address = m, ls[node], ls[node].Addr().String()
	})}
}

type knowing struct{ *node }

func (n *knowing) wait(t *testing.T, what string, from uint64) {
	t.Helper()
	n.want(t, event{what, from, ""})
}

func members(last uint64, ls map[uint64]net.Listener, ids ...uint64) Members {
	m := Members{Addresses: map[uint64]string{}, Last: last}
	for _, id := range ids {
		m.Addresses[id] = ls[id].Addr().String()
	}
	return m
}

func listeners(t *testing.T, n uint64) map[uint64]net.Listener {
	ls := map[uint64]net.Listener{}
	for id := uint64(1); id <= n; id++ {
		ls[id] = listen(t, "")
	}
	return ls
}

// A node that the others don't know yet is let in, since it may be the leader that tells them of itself, and they find it
// where it says it is.
func TestUnknownMemberIsLetIn(t *testing.T) {
	ls := listeners(t, 3)
	a := memberOf(t, 1, ls, members(2, ls, 1))
	c := memberOf(t, 3, ls, members(3, ls, 1, 3))
	c.wait(t, "up", 1)
	a.wait(t, "up", 3)
	if !a.SendNote(3, Note{Kind: NoteCut, Index: 7}) {
		t.Fatal("it takes nothing")
	}
	c.want(t, event{"note", 1, "5 7"})
	a.SetMembers(members(3, ls, 1, 3))
	if !a.Connected(3) {
		t.Error("the stream was lost when the node became known")
	}
}

// Nobody below the highest id is let in who is no member: not even one that a hello was never judged for.
func TestStrangerWithoutMembers(t *testing.T) {
	ls := listeners(t, 3)
	memberOf(t, 1, ls, Members{Addresses: map[uint64]string{2: ls[2].Addr().String()}})
	c := memberOf(t, 3, ls, members(3, ls, 1, 3))
	if _, err := c.Ask(t.Context(), 1); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "isn't among the nodes") {
		t.Errorf("%v", err)
	}
}

// 8.2: a removed node's streams end, it is told so when it dials, and it is dialled no more.
func TestRemovedMember(t *testing.T) {
	ls := listeners(t, 2)
	a, b := memberOf(t, 1, ls, members(2, ls, 1, 2)), memberOf(t, 2, ls, members(2, ls, 1, 2))
	a.wait(t, "up", 2)
	b.wait(t, "up", 1)
	a.SetMembers(members(2, ls, 1))
	b.wait(t, "lost", 1)
	b.wait(t, "removed", 1)
	if _, err := b.Ask(t.Context(), 1); !errors.Is(err, ErrRemoved) || !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "node 2 was removed") {
		t.Errorf("%v", err)
	}
	if a.Connected(2) || a.SendNote(2, Note{Kind: NoteCut}) {
		t.Error("the removed node is still a peer")
	}
	a.SetMembers(members(1, ls, 1, 2)) // older than what is known
	if _, err := b.Ask(t.Context(), 1); !errors.Is(err, ErrRemoved) {
		t.Errorf("%v", err)
	}
}

// 8.2: of two removed nodes none sends the other away: a member that doesn't know of it yet may need both to find out.
func TestRemovedTogether(t *testing.T) {
	ls := listeners(t, 3)
	memberOf(t, 1, ls, members(3, ls, 3))
	b := memberOf(t, 2, ls, members(3, ls, 1, 2, 3))
	if _, err := b.Ask(t.Context(), 1); !errors.Is(err, ErrRefused) || errors.Is(err, ErrRemoved) {
		t.Errorf("%v, want a refusal that doesn't end the node", err)
	}
}

// A member's address may change: its hello, or the state, says where it is now; what the operator has said stands above both.
func TestAddressChanges(t *testing.T) {
	ls := listeners(t, 3)
	a := memberOf(t, 1, ls, Members{Addresses: map[uint64]string{2: "", 1: ls[1].Addr().String()}, Last: 2})
	if _, err := a.Ask(t.Context(), 2); !errors.Is(err, errNoAddress) {
		t.Fatalf("%v", err)
	}
	b := memberOf(t, 2, ls, members(2, ls, 1, 2))
	a.wait(t, "up", 2)
	b.stop()
	a.wait(t, "lost", 2)
	moved := map[uint64]net.Listener{1: ls[1], 2: ls[3]}
	a.SetMembers(members(2, moved, 1, 2))
	memberOf(t, 2, moved, Members{Addresses: map[uint64]string{1: ""}, Last: 2})
	a.wait(t, "up", 2)

	fixed := start(t, stampOf(1), map[uint64]net.Listener{2: ls[1]}, nil)
	fixed.SetMembers(members(2, ls, 1, 2))
	if got, err := fixed.address(2); err != nil || got != ls[1].Addr().String() {
		t.Errorf("%s, %v; the operator said %s", got, err, ls[1].Addr())
	}
}

// Members that come before Run, or after its end, start nothing that outlives it.
func TestMembersAroundRun(t *testing.T) {
	ls := listeners(t, 2)
	r := &recorder{events: make(chan event, 100)}
	n := New(Config{Stamp: stampOf(1), Listener: ls[1], Handler: r})
	n.SetMembers(members(2, ls, 1, 2))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); n.Run(ctx) }()
	memberOf(t, 2, ls, members(2, ls, 1, 2)).wait(t, "up", 1)
	r.want(t, event{"up", 2, ""})
	cancel()
	<-done
	n.SetMembers(members(9, ls, 1, 2))
}
