package state

import (
	"strings"
	"testing"

	"github.com/oncemq/oncemq/internal/command"
)

func someKeys(salt byte) command.ScramKeys {
	return command.ScramKeys{Iterations: 50_000, Salt: [16]byte{salt}, Stored256: [32]byte{1}, Server512: [64]byte{63: 2}}
}

// userAnswer gives one user command and returns its refusal's condition, "" for done.
func (b *bundle) userAnswer(c command.Command) string {
	b.Helper()
	b.do(2, c)
	e := b.one(command.EffectUser)
	if e.Node != 2 || e.Local != 0 || e.Request != 7 {
		b.Errorf("the answer goes to node %d, connection %d, request %d; want 2, 0, 7", e.Node, e.Local, e.Request)
	}
	if e.Refusal == nil {
		return ""
	}
	return e.Refusal.Condition
}

// TestUsers: made once, changed where they are, deleted; the bundle compares with a
// machine loaded from disk after each entry.
func TestUsers(t *testing.T) {
	b := newBundle(t)
	put := func(rule command.UserRule, name string, keys command.ScramKeys, seed byte) string {
		t.Helper()
		return b.userAnswer(&command.UserPut{Request: 7, Rule: rule, Name: name, Keys: keys, Seed: [32]byte{seed}})
	}
	if b.m.UserSeed() != [32]byte{} {
		t.Error("a seed before the first user")
	}
	for _, step := range []struct {
		what      string
		condition string
		want      string
	}{
		{"change of nobody", put(command.UserChange, "alice", someKeys(1), 1), condNotFound},
		{"first", put(command.UserNew, "alice", someKeys(1), 2), ""},
		{"again", put(command.UserNew, "alice", someKeys(2), 3), condPrecondition},
		{"change", put(command.UserChange, "alice", someKeys(3), 4), ""},
		{"without a password", put(command.UserNew, "bob", command.ScramKeys{}, 5), ""},
		{"weak keys", put(command.UserNew, "eve", command.ScramKeys{Iterations: 4095}, 6), condNotAllowed},
		{"no name", put(command.UserNew, "", someKeys(1), 6), condNotAllowed},
		{"the reserved name", put(command.UserNew, command.Anonymous, someKeys(1), 6), condNotAllowed},
		{"a control character", put(command.UserNew, "a\nb", someKeys(1), 6), condNotAllowed},
		{"not UTF-8", put(command.UserNew, "a\xff", someKeys(1), 6), condNotAllowed},
		{"too long", put(command.UserNew, strings.Repeat("n", command.MaxUserName+1), someKeys(1), 6), condNotAllowed},
		{"the longest", put(command.UserNew, strings.Repeat("n", command.MaxUserName), someKeys(1), 6), ""},
		{"deletion", b.userAnswer(&command.UserDelete{Request: 7, Name: strings.Repeat("n", command.MaxUserName)}), ""},
		{"deletion of nobody", b.userAnswer(&command.UserDelete{Request: 7, Name: "carol"}), condNotFound},
	} {
		if step.condition != step.want {
			t.Errorf("%s: %q, want %q", step.what, step.condition, step.want)
		}
	}
	if seed := b.m.UserSeed(); seed != [32]byte{2} {
		t.Errorf("seed %x, want that of the first user", seed)
	}
	all := b.m.Users()
	if len(all) != 2 || all[0].Name != "alice" || all[0].Keys != someKeys(3) || all[1].Name != "bob" || !all[1].Keys.None() {
		t.Errorf("users %v", all)
	}
	if u, ok := b.m.User("alice"); !ok || u.Keys != someKeys(3) {
		t.Errorf("alice: %v %v", u, ok)
	}
	if _, ok := b.m.User("carol"); ok {
		t.Error("carol is there")
	}
}

// TestUserDeletedWhileConnected: the user's connections end in the same step, others'
// don't, and what was handed out goes to somebody else; a ConnOpen that was under way is
// refused, until there is a user of that name again.
func TestUserDeletedWhileConnected(t *testing.T) {
	b := newBundle(t)
	for _, name := range []string{"alice", "bob"} {
		b.do(1, &command.UserPut{Request: 7, Rule: command.UserNew, Name: name, Keys: someKeys(1)})
	}
	alice, bob := b.connect(1, "app"), b.connectAs(2, &command.ConnOpen{Principal: "bob", ContainerID: "app"})
	nobody := b.connectAs(3, &command.ConnOpen{Principal: command.Anonymous, ContainerID: "app"})
	alice.receiver(1, "q", 5)
	bob.send("q", "m1")
	b.wantDepth("q", 1, 1)
	b.do(3, &command.UserDelete{Request: 7, Name: "alice"})
	if e := b.one(command.EffectConnEnded); e.Node != 1 || e.Local != alice.local || e.Refusal == nil || e.Refusal.Condition != condUnauthorized {
		t.Errorf("ended: %+v", e)
	}
	if b.m.conns[alice.id] != nil || b.m.conns[bob.id] == nil || b.m.conns[nobody.id] == nil {
		t.Error("want alice's connection ended, and no other")
	}
	b.wantDepth("q", 1, 0)
	open := func() *command.Refusal {
		b.do(1, &command.ConnOpen{Local: 99, Principal: "alice", ContainerID: "late"})
		return b.one(command.EffectConnOpened).Refusal
	}
	if r := open(); r == nil || r.Condition != condUnauthorized {
		t.Errorf("a late ConnOpen: %+v", r)
	}
	b.do(1, &command.UserPut{Request: 7, Rule: command.UserNew, Name: "alice", Keys: someKeys(1)})
	if r := open(); r != nil {
		t.Errorf("made anew: %+v", r)
	}
}

// TestUsersAreBounded.
func TestUsersAreBounded(t *testing.T) {
	m := New(testGroup)
	for i := range maxUsers {
		m.users[strings.Repeat("n", 1+i%64)+string(rune('A'+i/64))] = &user{}
	}
	var p plan
	if v := m.checkUserPut(&command.UserPut{Rule: command.UserNew, Name: "more"}, &p); v != refuse || p.refusal.Condition != condLimit {
		t.Errorf("one more: %v %+v", v, p.refusal)
	}
}

// TestUserOfANewerVersion: keys that this binary can't read stop the start.
func TestUserOfANewerVersion(t *testing.T) {
	b := newBundle(t)
	b.do(1, &command.UserPut{Request: 7, Rule: command.UserNew, Name: "alice", Keys: someKeys(1)})
	key := string(append(appendKey(nil, testGroup, keyUser), "alice"...))
	value := []byte(b.disk.kv[key])
	value[len(putInt(nil, b.m.civil.now))] = 2
	b.disk.kv[key] = string(value)
	if _, err := Load(testGroup, b.disk.next(testGroup)); err == nil || !strings.Contains(err.Error(), "newer version") {
		t.Errorf("%v", err)
	}
}
