package command

// MaxMemberName is the highest length of a member's name in bytes, MaxAddress that of one of its addresses.
const (
	MaxMemberName = 64
	MaxAddress    = 255
)

// MaxRemoved is how many members one MemberRemove may name.
const MaxRemoved = 16

// Addresses are where a member is reached by others: host:port each, advertised rather than bound, empty for
// none [8.12].
type Addresses struct {
	Peer  string // for the other nodes
	AMQP  string // for clients, in plaintext
	AMQPS string // for clients, with TLS
	Admin string
}

// list is the addresses in the order of their encoding.
func (a *Addresses) list() [4]*string { return [4]*string{&a.Peer, &a.AMQP, &a.AMQPS, &a.Admin} }

// Valid reports that no address is too long.
func (a *Addresses) Valid() bool {
	for _, s := range a.list() {
		if len(*s) > MaxAddress {
			return false
		}
	}
	return true
}

// AppendAddresses adds the encoding of a to dst.
func AppendAddresses(dst []byte, a *Addresses) []byte {
	for _, s := range a.list() {
		dst = appendString(dst, *s)
	}
	return dst
}

// DecodeAddresses reads what AppendAddresses wrote from the front of src and returns the rest. Errors wrap
// ErrEncoding.
func DecodeAddresses(src []byte) (a Addresses, rest []byte, err error) {
	r := reader{buf: src}
	r.addresses(&a)
	return a, r.buf, r.err
}

func (r *reader) addresses(a *Addresses) {
	for _, s := range a.list() {
		*s = r.string()
	}
}

// Announcement is what a node says of itself with each of its lives: NodeUp carries it, and so does the note that
// asks for one.
type Announcement struct {
	// Level is the highest feature level that the node's binary knows [7.1].
	Level uint32
	// Name is what people call the node, at most MaxMemberName bytes; empty leaves the name that it has.
	Name string
	// Addresses replace the member's former ones.
	Addresses Addresses
}

// AppendAnnouncement adds the encoding of a to dst.
func AppendAnnouncement(dst []byte, a *Announcement) []byte {
	dst = appendUint(dst, uint64(a.Level))
	dst = appendString(dst, a.Name)
	return AppendAddresses(dst, &a.Addresses)
}

// DecodeAnnouncement is the inverse of AppendAnnouncement; a comes from another node. Errors wrap ErrEncoding.
func DecodeAnnouncement(src []byte) (a Announcement, err error) {
	r := reader{buf: src}
	r.announcement(&a)
	if r.err == nil && len(r.buf) != 0 {
		r.fail("bytes behind the announcement")
	}
	if r.err == nil && (len(a.Name) > MaxMemberName || !a.Addresses.Valid()) {
		r.fail("a name or address that is too long")
	}
	return a, r.err
}

func (r *reader) announcement(a *Announcement) {
	a.Level, a.Name = r.uint32(), r.string()
	r.addresses(&a.Addresses)
}

// TokenPut makes a one-time token with which one node may join. State keeps a hash of its secret alone. Only a node
// itself gives it, for the admin API. Answer: EffectMember.
type TokenPut struct {
	Request uint64
	// Hash is the SHA-256 of the token's secret: the token's key in state.
	Hash [32]byte
	// Expires is the civil time in ms from which on the token is worth nothing.
	Expires int64
	// Replace is the member that leaves once the one that joins has caught up; 0 for none.
	Replace NodeID
}

// Kind implements Command.
func (*TokenPut) Kind() Kind { return KindTokenPut }

func (c *TokenPut) append(dst []byte) []byte {
	dst = appendUint(dst, c.Request)
	dst = append(dst, c.Hash[:]...)
	dst = appendInt(dst, c.Expires)
	return appendUint(dst, uint64(c.Replace))
}

func (c *TokenPut) decode(r *reader) {
	c.Request = r.uint()
	r.fixed(c.Hash[:])
	c.Expires, c.Replace = r.int(), NodeID(r.uint())
}

// MemberAdd uses a token up and makes a member, whose id state draws: one above the highest ever [8.2]. The member
// begins as a learner. With the token and the key of a member that is there, it answers that member's id and changes
// nothing: a join may be repeated. Only a node itself gives it, for the one that joins. Answer: EffectMember with
// Number = the id.
type MemberAdd struct {
	Request uint64
	// Token is the SHA-256 of the token's secret.
	Token [32]byte
	// Key is the SHA-256 of the joining node's public key.
	Key       [32]byte
	Name      string // empty: "node-" and the id
	Addresses Addresses
}

// Kind implements Command.
func (*MemberAdd) Kind() Kind { return KindMemberAdd }

func (c *MemberAdd) append(dst []byte) []byte {
	dst = appendUint(dst, c.Request)
	dst = append(dst, c.Token[:]...)
	dst = append(dst, c.Key[:]...)
	dst = appendString(dst, c.Name)
	return AppendAddresses(dst, &c.Addresses)
}

func (c *MemberAdd) decode(r *reader) {
	c.Request = r.uint()
	r.fixed(c.Token[:])
	r.fixed(c.Key[:])
	c.Name = r.string()
	r.addresses(&c.Addresses)
}

// MemberRemove says that members are to leave, all in one step. They are gone once the leader has changed raft's
// configuration; those that are gone already are passed over. Refused where a number of voters would be left that the
// cluster doesn't run with [8.8]. Only a node itself gives it, for the admin API. Answer: EffectMember.
type MemberRemove struct {
	Request uint64
	Nodes   []NodeID // ascending, at most MaxRemoved
}

// Kind implements Command.
func (*MemberRemove) Kind() Kind { return KindMemberRemove }

func (c *MemberRemove) append(dst []byte) []byte {
	return appendNodes(appendUint(dst, c.Request), c.Nodes)
}

func (c *MemberRemove) decode(r *reader) {
	c.Request = r.uint()
	if c.Nodes = r.nodes(c.Nodes); len(c.Nodes) > MaxRemoved {
		r.fail("too many nodes to be removed")
	}
}

// appendNodes writes node ids, ascending, as differences.
func appendNodes(dst []byte, nodes []NodeID) []byte {
	dst = appendUint(dst, uint64(len(nodes)))
	var last NodeID
	for _, n := range nodes {
		dst = appendUint(dst, uint64(n-last))
		last = n
	}
	return dst
}

func (r *reader) nodes(into []NodeID) []NodeID {
	n := r.count(1)
	into = into[:0]
	var last NodeID
	for range n {
		step := NodeID(r.uint())
		if step == 0 || last+step < last {
			r.fail("node ids that don't ascend")
			return nil
		}
		last += step
		into = append(into, last)
	}
	return into
}

// MemberGone ends the membership of a node that is to leave and that raft's configuration is without, and nothing if it isn't such a
// one [8.8]. The leader proposes it behind the commit of that change, and commits it without the node: so where it is applied, a majority of the voters
// has on disk, with this entry, that the change is committed, and no voter that comes back from a crash needs the node's vote to find that
// out. Only in system records. No answer.
type MemberGone struct {
	Node NodeID
}

// Kind implements Command.
func (*MemberGone) Kind() Kind { return KindMemberGone }

func (c *MemberGone) append(dst []byte) []byte { return appendUint(dst, uint64(c.Node)) }

func (c *MemberGone) decode(r *reader) { c.Node = NodeID(r.uint()) }
