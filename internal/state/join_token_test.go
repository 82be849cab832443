package state

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/oncemq/oncemq/internal/command"
)

// A TokenPut may be repeated: before the token is used it is the same token, and behind that it lets nobody in, whether the member
// that came by it is still there or not.
func TestTokenPutRepeated(t *testing.T) {
	b := newBundle(t)
	put := &command.TokenPut{Request: 7, Hash: [32]byte{1}, Expires: b.civil + 1000}
	for again := range 2 {
		if e := b.member(put); e.Refusal != nil || e.Existed != (again == 1) || len(b.m.Tokens()) != 1 {
			t.Fatalf("%d: %+v, %d tokens", again, e, len(b.m.Tokens()))
		}
	}
	if e := b.member(joining(1)); e.Refusal != nil || e.Number != 4 {
		t.Fatalf("%+v", e)
	}
	thief := joining(1)
	thief.Key = [32]byte{9}
	spent := func(when string) {
		t.Helper()
		if e := b.member(put); e.Refusal != nil || !e.Existed {
			t.Fatalf("%s: %+v", when, e)
		}
		b.refused(&command.TokenPut{Request: 7, Hash: [32]byte{1}, Expires: b.civil + 5000}, condPrecondition, "already")
		b.refused(thief, condUnauthorized, "was used")
		if len(b.m.Tokens()) != 0 {
			t.Fatalf("%s: it is shown: %+v", when, b.m.Tokens())
		}
	}
	spent("used")
	b.member(&command.MemberRemove{Request: 7, Nodes: ids(4)})
	if !b.m.Removed(4) {
		t.Fatal("node 4 is still there")
	}
	spent("its member is gone")
	b.refused(joining(1), condUnauthorized, "was used")
}

// A member's token stays used for as long as the member is there, also behind the token's end.
func TestTokenOfAMember(t *testing.T) {
	b := newBundle(t)
	b.join(1, 0)
	b.tick(1000)
	b.member(&command.TokenPut{Request: 7, Hash: [32]byte{2}, Expires: b.civil + 1000})
	if len(b.m.tokens) != 1 {
		t.Fatalf("%d tokens; one has expired", len(b.m.tokens))
	}
	b.refused(&command.TokenPut{Request: 7, Hash: [32]byte{1}, Expires: b.civil + 1000}, condPrecondition, "already")
}

// SetTime ends the tokens of before for good; used ones don't count among those that can be made.
func TestTokensBehindSetTime(t *testing.T) {
	b := newBundle(t)
	put := &command.TokenPut{Request: 7, Hash: [32]byte{1}, Expires: b.civil + 1000}
	b.member(put)
	b.civil -= 500
	b.do(1, &command.SetTime{Request: 1, Civil: b.civil, By: "test"})
	if e := b.member(put); e.Refusal != nil || len(b.m.Tokens()) != 0 {
		t.Fatalf("%+v %+v", e, b.m.Tokens())
	}
	b.refused(joining(1), condUnauthorized, "was used")
	for n := range maxTokens {
		c := &command.TokenPut{Request: 7, Hash: [32]byte{9, byte(n)}, Expires: b.civil + 1000}
		if e := b.member(c); e.Refusal != nil {
			t.Fatalf("token %d: %+v", n, e.Refusal)
		}
	}
}

// Used tokens are kept up to a number; then the one that ends first goes.
func TestUsedTokensAreBounded(t *testing.T) {
	b := newBundle(t)
	b.single = true
	end := b.civil + 1_000_000
	for n := range maxUsedTokens + 5 {
		hash := [32]byte{1, byte(n >> 8), byte(n)}
		b.member(&command.TokenPut{Request: 7, Hash: hash, Expires: end - int64(n)})
		c := joining(0)
		c.Token = hash
		e := b.member(c)
		if e.Refusal != nil {
			t.Fatalf("%d: %+v", n, e.Refusal)
		}
		b.member(&command.MemberRemove{Request: 7, Nodes: ids(command.NodeID(e.Number))})
	}
	if len(b.m.tokens) != maxUsedTokens {
		t.Fatalf("%d tokens are kept, want %d", len(b.m.tokens), maxUsedTokens)
	}
}

// tokenModel is what the rules say of one token, and nothing else.
type tokenModel struct {
	expires int64
	used    bool
}

// Against a model: whatever is repeated in whatever order, a token lets in one node.
func TestTokenModel(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 8))
		b := newBundle(t)
		b.single = seed%5 != 0
		model := map[byte]*tokenModel{}
		admitted := map[byte]int{}
		var puts []*command.TokenPut
		for range 150 {
			n := byte(1 + r.IntN(4))
			switch r.IntN(6) {
			case 0: // a new one, or another with the same secret, which is refused while the first is remembered
				n = byte(1 + len(model))
				c := &command.TokenPut{Request: 7, Hash: [32]byte{n}, Expires: b.civil + 1 + r.Int64N(3000)}
				if len(model) < 200 {
					puts = append(puts, c)
					model[n] = &tokenModel{expires: c.Expires}
					b.member(c)
				}
			case 1:
				if len(puts) > 0 {
					b.member(puts[r.IntN(len(puts))])
				}
			case 2, 3:
				if len(model) > 0 {
					n = byte(1 + r.IntN(len(model)))
				}
				c := joining(n)
				c.Key = [32]byte{byte(1 + r.IntN(3)), n}
				x := model[n]
				want := x != nil && !x.used && x.expires > b.civil
				e := b.member(c)
				if e.Refusal != nil && e.Refusal.Condition == condLimit {
					continue
				}
				if got := e.Refusal == nil && !e.Existed; got != want {
					t.Fatalf("seed %d: token %d let a node in: %v, want %v (%+v)", seed, n, got, want, e.Refusal)
				} else if got {
					x.used = true
					admitted[n]++
				}
			case 4:
				if members := b.m.Members(); members[len(members)-1].ID > 3 {
					b.member(&command.MemberRemove{Request: 7, Nodes: ids(members[3+r.IntN(len(members)-3)].ID)})
				}
			case 5:
				b.tick(int64(r.IntN(300)))
			}
		}
		for n, times := range admitted {
			if times > 1 {
				t.Errorf("seed %d: token %d let in %d nodes", seed, n, times)
			}
		}
		if len(admitted) < 3 || !slices.ContainsFunc(puts, func(c *command.TokenPut) bool { return model[c.Hash[0]].used && c.Expires > b.civil }) && seed == 0 {
			t.Errorf("seed %d: %d tokens were used; the test tests nothing", seed, len(admitted))
		}
	}
}
