package state

import (
	"cmp"
	"slices"

	"github.com/oncemq/oncemq/internal/command"
)

const (
	// maxTokens bounds the tokens that nobody has used yet.
	maxTokens = 100
	// maxUsedTokens bounds those that are kept so that they stay used.
	maxUsedTokens = 1000
)

// joinToken lets one node join. Used, it is kept up to its end: a TokenPut that is repeated, because its answer was lost, must not
// let a second node in. Behind its end no TokenPut brings it back.
type joinToken struct {
	object
	hash    [32]byte
	expires int64
	replace command.NodeID
	used    bool // nobody can join with it any more
}

// TokenInfo is a token that nobody has used yet.
type TokenInfo struct {
	Hash    [32]byte
	Expires int64 // civil time, ms
	Replace command.NodeID
}

// Tokens lists the tokens that can still be used, by hash.
func (m *Machine) Tokens() []TokenInfo {
	all := make([]TokenInfo, 0, len(m.tokens))
	for _, hash := range sortedKeys(m.tokens) {
		if t := m.tokens[hash]; !t.used && t.expires > m.civil.now {
			all = append(all, TokenInfo{Hash: t.hash, Expires: t.expires, Replace: t.replace})
		}
	}
	return all
}

func (m *Machine) checkTokenPut(c *command.TokenPut, p *plan) verdict {
	t := m.tokens[string(c.Hash[:])]
	switch {
	case c.Expires <= m.civil.now:
		return p.refuse(refusal(condNotAllowed, "the token would have expired already by the cluster's clock; give it a later end"))
	case t != nil && t.expires == c.Expires && t.replace == c.Replace:
		return act // repeated
	case t != nil || m.joinedWith(c.Hash):
		return p.refuse(refusal(condPrecondition, "there is such a token already; make another one"))
	case c.Replace != 0 && m.members[c.Replace] == nil:
		return p.refuse(refusal(condNotFound, "node %d, which is to be replaced, is no member of this cluster", c.Replace))
	case len(m.Tokens()) >= maxTokens:
		return p.refuse(refusal(condLimit, "there are %d tokens that nobody has used yet, which is the limit; they end by themselves", maxTokens))
	}
	return act
}

// joinedWith says that a member has joined with the token of that hash.
func (m *Machine) joinedWith(hash [32]byte) bool {
	for _, id := range sortedKeys(m.members) {
		if m.members[id].token == hash && hash != [32]byte{} {
			return true
		}
	}
	return false
}

func (m *Machine) changeTokenPut(c *command.TokenPut) {
	existed := m.tokens[string(c.Hash[:])] != nil
	if !existed {
		for _, hash := range sortedKeys(m.tokens) {
			if t := m.tokens[hash]; t.expires <= m.civil.now {
				m.dropToken(t)
			}
		}
		t := &joinToken{hash: c.Hash, expires: c.Expires, replace: c.Replace}
		m.tokens[string(t.hash[:])] = t
		m.markToken(t)
	}
	e := m.tellAsker(nil, command.EffectMember)
	e.Request, e.Existed = c.Request, existed
}

// spendToken lets nobody join with t any more. Of very many used tokens the one that ends first is forgotten.
func (m *Machine) spendToken(t *joinToken) {
	t.used = true
	m.markToken(t)
	var used []*joinToken
	for _, hash := range sortedKeys(m.tokens) {
		if t := m.tokens[hash]; t.used {
			used = append(used, t)
		}
	}
	if len(used) > maxUsedTokens {
		m.dropToken(slices.MinFunc(used, func(a, b *joinToken) int { return cmp.Compare(a.expires, b.expires) }))
	}
}

func (m *Machine) dropToken(t *joinToken) {
	delete(m.tokens, string(t.hash[:]))
	t.gone = true
	m.markToken(t)
}

func (m *Machine) markToken(t *joinToken) {
	if t.mark() {
		m.dirty.tokens = append(m.dirty.tokens, t)
	}
}

func (t *joinToken) encode(dst []byte) []byte {
	return putBools(putUint(putInt(dst, t.expires), uint64(t.replace)), t.used)
}

func (m *loader) token(k, v *fields) {
	t := &joinToken{object: object{stored: true}, expires: v.int(), replace: command.NodeID(v.uint()), used: v.byte()&1 != 0}
	copy(t.hash[:], k.take(len(t.hash)))
	m.tokens[string(t.hash[:])] = t
}
