package state

import (
	"unicode/utf8"

	"github.com/oncemq/oncemq/internal/command"
)

// maxUsers bounds the users of a cluster: all are kept in memory.
const maxUsers = 10_000

// leastIterations is the fewest rounds that keys may have been made with (RFC 7677).
const leastIterations = 4096

// user is who may connect.
type user struct {
	object
	name    string
	keys    command.ScramKeys
	changed int64 // civil time, ms
}

// UserInfo is a user as the home checks it and admin shows it.
type UserInfo struct {
	Name string
	Keys command.ScramKeys
	// Changed is the civil time in ms of the last UserPut.
	Changed int64
}

func (u *user) info() UserInfo { return UserInfo{Name: u.name, Keys: u.keys, Changed: u.changed} }

// User is the user of that name.
func (m *Machine) User(name string) (UserInfo, bool) {
	u := m.users[name]
	if u == nil {
		return UserInfo{}, false
	}
	return u.info(), true
}

// Users lists all users by name.
func (m *Machine) Users() []UserInfo {
	all := make([]UserInfo, 0, len(m.users))
	for _, name := range sortedKeys(m.users) {
		all = append(all, m.users[name].info())
	}
	return all
}

// UserSeed is what the salts of unknown users are derived from: random, alike on all
// nodes, and told to nobody. Before the first user it is made of zeros.
func (m *Machine) UserSeed() [32]byte { return m.userSeed }

// validUser says whether a user may have that name. The home has prepared it; here only
// what would do harm is refused.
func validUser(name string) bool {
	if name == "" || len(name) > command.MaxUserName || name == command.Anonymous || !utf8.ValidString(name) {
		return false
	}
	for _, r := range name {
		if r < 0x20 || r >= 0x7f && r < 0xa0 {
			return false
		}
	}
	return true
}

func (m *Machine) checkUserPut(c *command.UserPut, p *plan) verdict {
	u := m.users[c.Name]
	switch {
	case c.Rule == command.UserChange && u == nil:
		return p.refuse(refusal(condNotFound, "there is no user %.300q", c.Name))
	case c.Rule == command.UserNew && u != nil:
		return p.refuse(refusal(condPrecondition, "there is a user %.300q already", c.Name))
	case !validUser(c.Name):
		return p.refuse(refusal(condNotAllowed,
			"%.300q can't be the name of a user: 1 to %d bytes of UTF-8 without control characters, not %s", c.Name, command.MaxUserName, command.Anonymous))
	case !c.Keys.None() && c.Keys.Iterations < leastIterations:
		return p.refuse(refusal(condNotAllowed, "keys of %d iterations: at least %d are needed", c.Keys.Iterations, leastIterations))
	case u == nil && len(m.users) >= maxUsers:
		return p.refuse(refusal(condLimit, "there are %d users, which is the limit", maxUsers))
	}
	return act
}

func (m *Machine) changeUserPut(c *command.UserPut) {
	if !m.guarded {
		m.guarded, m.userSeed = true, c.Seed
		m.dirty.seed = true
	}
	u := m.users[c.Name]
	if u == nil {
		u = &user{name: c.Name}
		m.users[c.Name] = u
	}
	u.keys, u.changed = c.Keys, m.civil.now
	m.markUser(u)
	m.tellAsker(nil, command.EffectUser).Request = c.Request
}

func (m *Machine) checkUserDelete(c *command.UserDelete, p *plan) verdict {
	if m.users[c.Name] == nil {
		return p.refuse(refusal(condNotFound, "there is no user %.300q", c.Name))
	}
	return act
}

// changeUserDelete takes the user away and ends its connections in the same step, as if
// their home were lost: nobody reports what they had written (C8).
func (m *Machine) changeUserDelete(c *command.UserDelete) {
	u := m.users[c.Name]
	delete(m.users, u.name)
	u.gone = true
	m.markUser(u)
	for _, id := range sortedKeys(m.conns) {
		if x := m.conns[id]; x.client.key.principal == u.name {
			m.tell(x, command.EffectConnEnded).Refusal = refusal(condUnauthorized, "user %q was deleted", u.name)
			m.endConn(x, endHomeLost)
		}
	}
	m.tellAsker(nil, command.EffectUser).Request = c.Request
}

// mayOpen says whether connections of principal are let in: its home has checked the
// password, but the user may have been deleted meanwhile. Where no user was ever made
// there is only ANONYMOUS, which --dev alone lets in.
func (m *Machine) mayOpen(principal string) bool {
	return !m.guarded || principal == command.Anonymous || m.users[principal] != nil
}

func (m *Machine) markUser(u *user) {
	if u.mark() {
		m.dirty.users = append(m.dirty.users, u)
	}
}

func (u *user) encode(dst []byte) []byte {
	return command.AppendScramKeys(putInt(dst, u.changed), &u.keys)
}

func (m *Machine) flushUsers() {
	d := &m.dirty
	if d.seed {
		d.seed = false
		m.keyBuf = appendKey(m.keyBuf[:0], m.group, keySeed)
		m.insert(m.keyBuf, m.userSeed[:])
	}
	for _, u := range d.users {
		m.write(&u.object, append(appendKey(m.keyBuf[:0], m.group, keyUser), u.name...), u.encode)
	}
	d.users = emptied(d.users)
}

func (m *loader) user(k, v *fields) error {
	u := &user{object: object{stored: true}, name: string(k.take(len(k.b))), changed: v.int()}
	keys, err := command.DecodeScramKeys(v.b)
	if err != nil {
		return stored(err)
	}
	u.keys = keys
	m.users[u.name] = u
	return nil
}
