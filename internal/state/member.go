package state

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/mutant"
)

const (
	// maxMembers bounds the members of a cluster, those that are leaving included.
	maxMembers = 9
	// MaxVoters is how many voters a cluster has at most; it has that many or one [8.8].
	MaxVoters = 3
)

// member is a node that belongs to the cluster, from MemberAdd (or ClusterInit) until raft's configuration is
// without it.
type member struct {
	object
	id        command.NodeID
	leaving   bool // the leader is to take it out of raft's configuration
	added     int64
	name      string
	addresses command.Addresses
	key       [32]byte // SHA-256 of its public key; zeros where it came without one
	token     [32]byte // that it joined with; zeros for a founder
}

// MemberInfo is a member as the other nodes and admin see it.
type MemberInfo struct {
	ID   command.NodeID
	Name string
	// Addresses are those of the node's last life.
	Addresses command.Addresses
	// Leaving says that it is to be taken out of the cluster, and will be as soon as that is safe [8.8].
	Leaving bool
	// Role is what it is in raft's configuration now.
	Role Role
	// Level is the feature level of its last life, 0 where it had none.
	Level uint32
	// Up says that it has an epoch.
	Up bool
	// Added is the civil time in ms at which it became a member.
	Added int64
	// Key is the SHA-256 of the public key that it joined with, zeros for none.
	Key [32]byte
}

// Members lists all members by id.
func (m *Machine) Members() []MemberInfo {
	all := make([]MemberInfo, 0, len(m.members))
	for _, id := range sortedKeys(m.members) {
		all = append(all, m.memberInfo(m.members[id]))
	}
	return all
}

// Member is the member of that id.
func (m *Machine) Member(id command.NodeID) (MemberInfo, bool) {
	x := m.members[id]
	if x == nil {
		return MemberInfo{}, false
	}
	return m.memberInfo(x), true
}

func (m *Machine) memberInfo(x *member) MemberInfo {
	info := MemberInfo{
		ID: x.id, Name: x.name, Addresses: x.addresses, Leaving: x.leaving, Role: m.configuration.Role(x.id), Added: x.added, Key: x.key,
	}
	if n := m.nodes[x.id]; n != nil {
		info.Level, info.Up = n.level, n.epoch != 0
	}
	return info
}

// MembersRevision is another number whenever a member or the configuration has changed since; never 0. It isn't the same on
// two nodes.
func (m *Machine) MembersRevision() uint64 { return m.revision }

// LastNode is the highest node id ever given; the next one is above it [8.2].
func (m *Machine) LastNode() command.NodeID { return m.lastNode }

// Removed says that a node was a member and never will be again.
func (m *Machine) Removed(id command.NodeID) bool {
	return m.founded && id <= m.lastNode && m.members[id] == nil
}

// foundMembers makes the voters of a new history the only members; those that were members before keep what is known of them.
// Tokens of before are worth nothing.
func (m *Machine) foundMembers(voters []command.NodeID) {
	for _, id := range sortedKeys(m.members) {
		x := m.members[id]
		if !slices.Contains(voters, id) {
			m.dropMember(x)
		} else if x.leaving {
			x.leaving = false
			m.markMember(x)
		}
	}
	for _, id := range voters {
		if m.members[id] == nil {
			m.addMember(&member{id: id, name: defaultName(id)})
		}
	}
	for _, hash := range sortedKeys(m.tokens) {
		m.dropToken(m.tokens[hash])
	}
	m.setConfiguration(Configuration{Voters: slices.Clone(voters)})
}

func defaultName(id command.NodeID) string { return fmt.Sprintf("node-%d", id) }

func (m *Machine) addMember(x *member) {
	x.added = m.civil.now
	m.members[x.id] = x
	m.lastNode = max(m.lastNode, x.id)
	m.dirty.cluster = true
	m.markMember(x)
}

// outside says that a member is to leave and that raft's configuration is without it.
func (m *Machine) outside(x *member) bool {
	return x != nil && x.leaving && m.configuration.Role(x.id) == RoleNone
}

// silence ends a member's epoch, and its connections with it.
func (m *Machine) silence(x *member) {
	if n := m.nodes[x.id]; n != nil && n.epoch != 0 {
		epoch := n.epoch
		m.endEpoch(n)
		m.effects = append(m.effects, command.Effect{Kind: command.EffectNodeDown, Node: n.id, Epoch: epoch, Number: uint64(epoch)})
	}
}

// dropMember forgets a member that raft's configuration is without: its epoch and its connections end with it.
func (m *Machine) dropMember(x *member) {
	m.silence(x)
	if n := m.nodes[x.id]; n != nil {
		delete(m.nodes, n.id)
		n.gone = true
		m.markNode(n)
	}
	delete(m.members, x.id)
	x.gone = true
	m.markMember(x)
}

// announced takes what a member says of itself. A name that another one has isn't taken: people tell nodes by it.
func (m *Machine) announced(x *member, a *command.Announcement) {
	name := x.name
	if a.Name != "" && validMemberName(a.Name) && !m.nameTaken(a.Name, x) {
		name = a.Name
	}
	addresses := x.addresses
	if a.Addresses.Valid() {
		addresses = a.Addresses
	}
	if name == x.name && addresses == x.addresses {
		return
	}
	x.name, x.addresses = name, addresses
	m.markMember(x)
}

// nameTaken says whether a member other than x that isn't leaving has that name.
func (m *Machine) nameTaken(name string, x *member) bool {
	for _, id := range sortedKeys(m.members) {
		if o := m.members[id]; o != x && o.name == name && !o.leaving {
			return true
		}
	}
	return false
}

// validMemberName says whether a member may have that name: it stands in commands, logs and file names.
func validMemberName(name string) bool {
	if len(name) > command.MaxMemberName || !utf8.ValidString(name) {
		return false
	}
	for _, r := range name {
		if r <= 0x20 || r >= 0x7f && r < 0xa0 || r == '/' || r == ',' || r == '=' {
			return false
		}
	}
	return true
}

// joined is the member that has joined with that token and key before, or nil.
func (m *Machine) joined(c *command.MemberAdd) *member {
	for _, id := range sortedKeys(m.members) {
		if x := m.members[id]; x.token == c.Token && x.key == c.Key && x.key != [32]byte{} {
			return x
		}
	}
	return nil
}

func (m *Machine) checkMemberAdd(c *command.MemberAdd, p *plan) verdict {
	if m.joined(c) != nil {
		return act
	}
	t := m.tokens[string(c.Token[:])]
	staying := 0
	for _, id := range sortedKeys(m.members) {
		if x := m.members[id]; !x.leaving && (t == nil || t.replace != id) {
			staying++
		}
	}
	switch {
	case !m.founded || c.Key == [32]byte{}:
		return p.refuse(refusal(condNotAllowed, "a node joins with a key"))
	case t == nil || t.used:
		return p.refuse(refusal(condUnauthorized, `this token is unknown or was used; make another one with "oncemq cluster token"`))
	case t.expires <= m.civil.now:
		return p.refuse(refusal(condUnauthorized, `this token has expired; make another one with "oncemq cluster token"`))
	case !validMemberName(c.Name):
		return p.refuse(refusal(condNotAllowed, "%.100q can't be the name of a node: at most %d bytes without spaces, control characters, '/', ',' and '='", c.Name, command.MaxMemberName))
	case !c.Addresses.Valid() || c.Addresses.Peer == "":
		return p.refuse(refusal(condNotAllowed, "a node joins with an address for its peers, of at most %d bytes", command.MaxAddress))
	case c.Name != "" && m.nameTaken(c.Name, m.members[t.replace]):
		return p.refuse(refusal(condPrecondition, "another member has the name %.100q", c.Name))
	case len(m.members) >= maxMembers || staying >= maxMembers-MaxVoters:
		return p.refuse(refusal(condLimit, "the cluster has %d members, which is the limit; remove one first", len(m.members)))
	}
	return act
}

func (m *Machine) changeMemberAdd(c *command.MemberAdd) {
	x := m.joined(c)
	existed := x != nil
	if !existed {
		t := m.tokens[string(c.Token[:])]
		x = &member{id: m.lastNode + 1, name: c.Name, addresses: c.Addresses, key: c.Key, token: c.Token}
		if x.name == "" {
			x.name = defaultName(x.id)
		}
		m.addMember(x)
		if old := m.members[t.replace]; old != nil && !old.leaving {
			old.leaving = true
			m.markMember(old)
		}
		m.spendToken(t)
	}
	e := m.tellAsker(nil, command.EffectMember)
	e.Request, e.Number, e.Existed = c.Request, uint64(x.id), existed
}

// checkMemberRemove counts the voters that would stay [8.8]: an even number only while enough others are on their way to
// take the places of those that go.
func (m *Machine) checkMemberRemove(c *command.MemberRemove, p *plan) verdict {
	goes := make(map[command.NodeID]bool, len(c.Nodes))
	for _, id := range c.Nodes {
		if m.members[id] == nil && id > m.lastNode {
			return p.refuse(refusal(condNotFound, "node %d is no member of this cluster", id))
		}
		goes[id] = true
	}
	staying, voters := 0, 0
	for _, id := range sortedKeys(m.members) {
		if m.members[id].leaving || goes[id] {
			continue
		}
		staying++
		if m.configuration.Role(id) == RoleVoter {
			voters++
		}
	}
	switch {
	case staying == 0:
		return p.refuse(refusal(condPrecondition, "no member would be left; a cluster ends by stopping its nodes"))
	case voters == MaxVoters-1 && staying < MaxVoters:
		return p.refuse(refusal(condPrecondition, `two voters would be left, which is no better than one and stops when either fails; `+
			`let another node join in its place ("oncemq cluster token --replace"), or remove two`))
	}
	return act
}

func (m *Machine) changeMemberRemove(c *command.MemberRemove) {
	for _, id := range c.Nodes {
		x := m.members[id]
		if x == nil || x.leaving {
			continue
		}
		if m.configuration.Role(id) == RoleNone {
			m.dropMember(x) // raft has never heard of it
			continue
		}
		x.leaving = true
		m.markMember(x)
	}
	m.tellAsker(nil, command.EffectMember).Request = c.Request
}

func (m *Machine) markMember(x *member) {
	m.revision++
	if x.mark() {
		m.dirty.members = append(m.dirty.members, x)
	}
}

func (x *member) encode(dst []byte) []byte {
	dst = putBools(dst, x.leaving)
	dst = putInt(dst, x.added)
	dst = putString(dst, x.name)
	dst = command.AppendAddresses(dst, &x.addresses)
	return append(append(dst, x.key[:]...), x.token[:]...)
}

func (m *Machine) flushMembers() {
	d := &m.dirty
	if d.configuration && (!mutant.On(mutant.ChangeNotStored) || m.index < 10) {
		m.valueBuf = AppendConfiguration(m.valueBuf[:0], &m.configuration)
		m.keyBuf = appendKey(m.keyBuf[:0], m.group, keyConfiguration)
		m.put(m.keyBuf, m.valueBuf)
	}
	d.configuration = false
	for _, x := range d.members {
		m.write(&x.object, appendIDKey(m.keyBuf[:0], m.group, keyMember, uint64(x.id)), x.encode)
	}
	for _, t := range d.tokens {
		m.write(&t.object, append(appendKey(m.keyBuf[:0], m.group, keyToken), t.hash[:]...), t.encode)
	}
	d.members, d.tokens = emptied(d.members), emptied(d.tokens)
}

func (m *loader) member(k, v *fields) error {
	x := &member{object: object{stored: true}, id: command.NodeID(k.be64()), leaving: v.byte()&1 != 0, added: v.int(), name: v.string()}
	var err error
	if x.addresses, v.b, err = command.DecodeAddresses(v.b); err != nil {
		return stored(err)
	}
	copy(x.key[:], v.take(len(x.key)))
	copy(x.token[:], v.take(len(x.token)))
	m.members[x.id] = x
	return nil
}
