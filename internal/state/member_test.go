package state

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/oncemq/oncemq/internal/command"
)

// joining is a node that joins the bundle's cluster.
func joining(n byte) *command.MemberAdd {
	return &command.MemberAdd{
		Request: 7, Token: [32]byte{n}, Key: [32]byte{100 + n}, Addresses: command.Addresses{Peer: "10.0.0.9:5673", AMQP: "10.0.0.9:5672"},
	}
}

// member is the answer to a membership command.
func (b *bundle) member(c command.Command) command.Effect {
	b.Helper()
	b.do(1, c)
	e := b.one(command.EffectMember)
	if e.Node != 1 || e.Request != 7 {
		b.Fatalf("%+v", e)
	}
	return e
}

// join makes a token and uses it; the answer is the member's id.
func (b *bundle) join(n byte, replace command.NodeID) command.NodeID {
	b.Helper()
	if e := b.member(&command.TokenPut{Request: 7, Hash: [32]byte{n}, Expires: b.civil + 1000, Replace: replace}); e.Refusal != nil {
		b.Fatalf("%+v", e.Refusal)
	}
	e := b.member(joining(n))
	if e.Refusal != nil {
		b.Fatalf("%+v", e.Refusal)
	}
	return command.NodeID(e.Number)
}

func (b *bundle) refused(c command.Command, condition, text string) {
	b.Helper()
	e := b.member(c)
	if e.Refusal == nil || e.Refusal.Condition != condition || !strings.Contains(e.Refusal.Description, text) {
		b.Fatalf("%+v: %+v", c, e.Refusal)
	}
}

func ids(n ...command.NodeID) []command.NodeID { return n }

// The founding voters are members, by the command that founds the cluster.
func TestFounders(t *testing.T) {
	b := newBundle(t)
	var got []command.NodeID
	for _, m := range b.m.Members() {
		if m.Role != RoleVoter || !m.Up || m.Level != 1 || m.Leaving {
			t.Errorf("%+v", m)
		}
		got = append(got, m.ID)
	}
	c, ok := b.m.Configuration()
	if !slices.Equal(got, ids(1, 2, 3)) || b.m.LastNode() != 3 || !ok || !reflect.DeepEqual(c, Configuration{Voters: ids(1, 2, 3)}) {
		t.Fatalf("%v, last %d, %+v", got, b.m.LastNode(), c)
	}
}

// A node's name and addresses are those of its last life; a name that another has isn't taken.
func TestAnnouncement(t *testing.T) {
	b := newBundle(t)
	up := func(n command.NodeID, name, peer string) {
		b.nonces++
		b.system(&command.NodeUp{Node: n, Nonce: [16]byte{b.nonces}, Announcement: command.Announcement{Level: 2, Name: name, Addresses: command.Addresses{Peer: peer}}})
	}
	up(1, "a", "one:1")
	up(2, "a", "two:1")
	up(1, "", "one:2")
	up(3, "no spaces", strings.Repeat("x", command.MaxAddress+1))
	for i, want := range []MemberInfo{
		{ID: 1, Name: "a", Addresses: command.Addresses{Peer: "one:2"}},
		{ID: 2, Name: "node-2", Addresses: command.Addresses{Peer: "two:1"}},
		{ID: 3, Name: "node-3"},
	} {
		m, _ := b.m.Member(want.ID)
		want.Role, want.Level, want.Up, want.Added = RoleVoter, 2, true, m.Added
		if m != want {
			t.Errorf("%d: %+v, want %+v", i, m, want)
		}
	}
}

// 8.2: an id is never given twice, a token is good for one node, and a join may be repeated.
func TestJoin(t *testing.T) {
	b := newBundle(t)
	if id := b.join(1, 0); id != 4 {
		t.Fatalf("id %d", id)
	}
	m, ok := b.m.Member(4)
	if !ok || m.Name != "node-4" || m.Role != RoleNone || m.Key != [32]byte{101} || m.Addresses.AMQP != "10.0.0.9:5672" || m.Up {
		t.Fatalf("%+v", m)
	}
	if e := b.member(joining(1)); e.Number != 4 || !e.Existed || e.Refusal != nil || len(b.m.Members()) != 4 {
		t.Fatalf("the same join again: %+v", e)
	}
	thief := joining(1)
	thief.Key = [32]byte{9}
	b.refused(thief, condUnauthorized, "unknown or was used")
	// Raft hasn't heard of it: it goes at once, and its id with it.
	if e := b.member(&command.MemberRemove{Request: 7, Nodes: ids(4)}); e.Refusal != nil || !b.m.Removed(4) {
		t.Fatalf("%+v", e)
	}
	if e := b.member(&command.MemberRemove{Request: 7, Nodes: ids(4)}); e.Refusal != nil {
		t.Fatalf("again: %+v", e)
	}
	b.refused(joining(1), condUnauthorized, "unknown or was used")
	if id := b.join(2, 0); id != 5 {
		t.Fatalf("id %d", id)
	}
	b.refused(&command.MemberRemove{Request: 7, Nodes: ids(6)}, condNotFound, "node 6")
}

func TestTokens(t *testing.T) {
	b := newBundle(t)
	put := func(n byte, ms int64) *command.TokenPut {
		return &command.TokenPut{Request: 7, Hash: [32]byte{n}, Expires: b.civil + ms}
	}
	b.member(put(1, 1000))
	b.refused(put(1, 1001), condPrecondition, "already")
	b.refused(put(2, 0), condNotAllowed, "expired")
	b.refused(&command.TokenPut{Request: 7, Hash: [32]byte{2}, Expires: b.civil + 1, Replace: 9}, condNotFound, "node 9")
	if all := b.m.Tokens(); len(all) != 1 || all[0].Hash != [32]byte{1} || all[0].Expires != b.civil+1000 {
		t.Fatalf("%+v", all)
	}
	b.tick(1000)
	b.refused(joining(1), condUnauthorized, "expired")
	if len(b.m.Tokens()) != 0 {
		t.Fatal("an expired token is shown")
	}
	b.member(put(3, 5)) // what has expired goes
	if len(b.m.tokens) != 1 {
		t.Fatalf("%d tokens", len(b.m.tokens))
	}
	for n := range maxTokens - 1 {
		c := put(0, 1000)
		c.Hash[1] = byte(1 + n)
		b.member(c)
	}
	b.refused(put(4, 1000), condLimit, "limit")
}

// What a node that joins says of itself is checked.
func TestJoinRefused(t *testing.T) {
	b := newBundle(t)
	b.member(&command.TokenPut{Request: 7, Hash: [32]byte{1}, Expires: b.civil + 1000})
	for _, test := range []struct {
		change          func(*command.MemberAdd)
		condition, text string
	}{
		{func(c *command.MemberAdd) { c.Key = [32]byte{} }, condNotAllowed, "key"},
		{func(c *command.MemberAdd) { c.Name = "a/b" }, condNotAllowed, "can't be the name"},
		{func(c *command.MemberAdd) { c.Name = strings.Repeat("n", command.MaxMemberName+1) }, condNotAllowed, "can't be the name"},
		{func(c *command.MemberAdd) { c.Name = "node-2" }, condPrecondition, "another member"},
		{func(c *command.MemberAdd) { c.Addresses.Peer = "" }, condNotAllowed, "address"},
		{func(c *command.MemberAdd) { c.Addresses.Admin = strings.Repeat("n", 256) }, condNotAllowed, "address"},
	} {
		c := joining(1)
		test.change(c)
		b.refused(c, test.condition, test.text)
	}
	for n := byte(2); n < 2+maxMembers-MaxVoters-3; n++ {
		b.join(n, 0)
	}
	b.refused(joining(1), condLimit, "limit")
}

// A replacement has the name of the one it replaces, which leaves from then on and is a member until raft is without it.
// Its epoch ends in that entry, with its connections.
func TestReplace(t *testing.T) {
	b := newBundle(t)
	p := b.connect(3, "p")
	p.receiver(1, "q", 5)
	p.send("q", "a")
	b.member(&command.TokenPut{Request: 7, Hash: [32]byte{1}, Expires: b.civil + 1000, Replace: 3})
	c := joining(1)
	c.Name = "node-3"
	if e := b.member(c); e.Refusal != nil || e.Number != 4 {
		t.Fatalf("%+v", e)
	}
	if m, _ := b.m.Member(3); !m.Leaving || m.Role != RoleVoter {
		t.Fatalf("%+v", m)
	}
	b.configure(Configuration{Voters: ids(1, 2, 3), Learners: ids(4)})
	b.configure(Configuration{Voters: ids(1, 2, 4), Outgoing: ids(1, 2, 3)})
	if m, _ := b.m.Member(3); m.Role != RoleOutgoing || len(b.effects) != 0 {
		t.Fatalf("%+v %+v", m, b.effects)
	}
	b.configure(Configuration{Voters: ids(1, 2, 4)})
	if e := b.one(command.EffectNodeDown); e.Node != 3 || command.Epoch(e.Number) != b.epochs[3] {
		t.Fatalf("%+v", e)
	}
	b.wantDepth("q", 1, 0)
	// A voter that comes back from a crash may need its vote: it is a member until the leader says that none does.
	if m, _ := b.m.Member(3); !m.Leaving || m.Role != RoleNone || m.Up || b.m.Removed(3) {
		t.Fatalf("%+v", m)
	}
	b.up(3)
	if epoch, _ := b.m.Epoch(3); epoch != 0 {
		t.Fatal("a node that leaves has a life")
	}
	b.system(&command.MemberGone{Node: 2}) // which stays
	b.system(&command.MemberGone{Node: 3})
	b.system(&command.MemberGone{Node: 3})
	if !b.m.Removed(3) || len(b.m.Members()) != 3 || b.m.conns[p.id] != nil {
		t.Fatal("node 3 is still there")
	}
	b.up(3)
	if epoch, _ := b.m.Epoch(3); epoch != 0 {
		t.Fatal("a removed node has a life")
	}
	b.up(4)
	if m, _ := b.m.Member(4); !m.Up || m.Role != RoleVoter {
		t.Fatalf("%+v", m)
	}
}

// 8.8: two or four voters exist only inside a change.
func TestRemoveKeepsTheVotersOdd(t *testing.T) {
	b := newBundle(t)
	remove := func(n ...command.NodeID) *command.MemberRemove {
		return &command.MemberRemove{Request: 7, Nodes: n}
	}
	leaving := func() (all []command.NodeID) {
		for _, m := range b.m.Members() {
			if m.Leaving {
				all = append(all, m.ID)
			}
		}
		return all
	}
	b.refused(remove(3), condPrecondition, "two voters")
	b.refused(remove(1, 2, 3), condPrecondition, "no member")
	b.join(1, 0)
	b.configure(Configuration{Voters: ids(1, 2, 3), Learners: ids(4)})
	if b.member(remove(3)); !slices.Equal(leaving(), ids(3)) {
		t.Fatalf("%v", leaving())
	}
	b.refused(remove(4), condPrecondition, "two voters") // it is to take 3's place
	b.member(remove(2))                                  // two leave together: one voter and a learner stay
	if b.member(remove(2, 3)); !slices.Equal(leaving(), ids(2, 3)) {
		t.Fatalf("%v", leaving())
	}
	b.configure(Configuration{Voters: ids(1), Outgoing: ids(1, 2, 3), Learners: ids(4)})
	b.configure(Configuration{Voters: ids(1), Learners: ids(4)})
	b.system(&command.MemberGone{Node: 2}, &command.MemberGone{Node: 3}, &command.MemberGone{Node: 4})
	if len(leaving()) != 0 || len(b.m.Members()) != 2 {
		t.Fatalf("%+v", b.m.Members())
	}
	if b.member(remove(1)); !slices.Equal(leaving(), ids(1)) { // the learner takes its place
		t.Fatalf("%v", leaving())
	}
	b.refused(remove(4), condPrecondition, "no member")
}

// A configuration comes back as it was stored, and hostile bytes don't make one.
func TestConfigurationCodec(t *testing.T) {
	want := Configuration{Voters: ids(1, 2, 4), Outgoing: ids(1, 2, 3), Learners: ids(5), LearnersNext: ids(3), AutoLeave: true}
	enc := AppendConfiguration(nil, &want)
	if got, err := DecodeConfiguration(enc); err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v %v", got, err)
	}
	if got := want.Nodes(); !slices.Equal(got, ids(1, 2, 3, 4, 5)) || !want.Joint() {
		t.Errorf("%v", got)
	}
	for name, bad := range map[string][]byte{
		"cut": enc[:len(enc)-1], "longer": append(slices.Clone(enc), 0), "descending": {0, 2, 2, 1, 0, 0, 0}, "twice": {0, 2, 2, 2, 0, 0, 0},
		"node 0": {0, 1, 0, 0, 0, 0}, "nothing": {},
	} {
		if _, err := DecodeConfiguration(bad); !errors.Is(err, ErrState) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := New(testGroup).Configure(1, want, newDisk(), nil); !errors.Is(err, ErrState) {
		t.Errorf("before the founding: %v", err)
	}
}

// 8.7: a new history begins with the voters that it names. Who else was a member is removed, and no token counts any more.
func TestNewHistoryHasItsOwnMembers(t *testing.T) {
	b := newBundle(t)
	b.nonces++
	b.system(&command.NodeUp{Node: 2, Nonce: [16]byte{b.nonces}, Announcement: command.Announcement{Name: "b", Level: command.Level}})
	b.join(1, 2)
	b.member(&command.TokenPut{Request: 7, Hash: [32]byte{2}, Expires: b.civil + 1000})
	b.configure(Configuration{Voters: ids(1, 2, 3), Learners: ids(4)})
	b.system(&command.ClusterInit{Cluster: [16]byte{8}, History: 6, Voters: ids(2, 9)})
	var got []string
	for _, m := range b.m.Members() {
		got = append(got, m.Name)
		if m.Leaving || m.Role != RoleVoter || m.Up {
			t.Errorf("%+v", m)
		}
	}
	if !slices.Equal(got, []string{"b", "node-9"}) || b.m.LastNode() != 9 || !b.m.Removed(4) || len(b.m.Tokens()) != 0 {
		t.Fatalf("%v, last %d, %+v", got, b.m.LastNode(), b.m.Tokens())
	}
	b.up(2)
	b.up(9)
	if live := b.m.Nodes(); !slices.Equal(live, ids(2, 9)) {
		t.Fatalf("%v", live)
	}
}

// Room on disks is the voters' matter: a learner that is full keeps nobody from sending, and no learner makes up for two voters that are.
func TestRoomIsTheVoters(t *testing.T) {
	b := newBundle(t)
	b.join(1, 0)
	b.configure(Configuration{Voters: ids(1, 2, 3), Learners: ids(4)})
	b.up(4)
	full := func(n command.NodeID) { b.system(&command.NodeRoom{Node: n, Disk: command.RoomFull}) }
	full(4)
	if r := b.m.Room(); r != command.RoomOK {
		t.Errorf("a learner's disk is full: %v", r)
	}
	b.system(&command.NodeRoom{Node: 4, Disk: command.RoomOK})
	full(1)
	if r := b.m.Room(); r != command.RoomOK {
		t.Errorf("one voter's disk of three is full: %v", r)
	}
	full(2)
	if r := b.m.Room(); r != command.RoomFull {
		t.Errorf("two voters' disks of three are full: %v", r)
	}
}
