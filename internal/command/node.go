package command

// NodeUp begins a life of a node [1.2]: its epoch is the entry's index, every
// connection of its earlier epoch ends in the same step, and a repeated nonce gets
// the same epoch. Of a node that is no member it changes nothing. Only in system
// records. Answer: EffectNodeUp.
type NodeUp struct {
	Node  NodeID
	Nonce [16]byte
	Announcement
}

// Kind implements Command.
func (*NodeUp) Kind() Kind { return KindNodeUp }

func (c *NodeUp) append(dst []byte) []byte {
	dst = appendUint(dst, uint64(c.Node))
	dst = append(dst, c.Nonce[:]...)
	return AppendAnnouncement(dst, &c.Announcement)
}

func (c *NodeUp) decode(r *reader) {
	c.Node = NodeID(r.uint())
	r.fixed(c.Nonce[:])
	r.announcement(&c.Announcement)
}

// NodeDown ends the epoch that it names, and nothing if that isn't the node's
// present one. Only in system records. Answer: EffectNodeDown to that node.
type NodeDown struct {
	Node  NodeID
	Epoch Epoch
}

// Kind implements Command.
func (*NodeDown) Kind() Kind { return KindNodeDown }

func (c *NodeDown) append(dst []byte) []byte {
	return appendUint(appendUint(dst, uint64(c.Node)), uint64(c.Epoch))
}

func (c *NodeDown) decode(r *reader) { c.Node, c.Epoch = NodeID(r.uint()), Epoch(r.uint()) }

// Tick moves time on and lets due work and jobs proceed [4.2, 4.5]; the leader
// proposes one when Machine.Next is due. Only in system records.
type Tick struct{}

// Kind implements Command.
func (*Tick) Kind() Kind { return KindTick }

func (*Tick) append(dst []byte) []byte { return dst }
func (*Tick) decode(*reader)           {}

// ClusterInit is the first command of a cluster's first entry: its identity, its founding voters, who are its first members
// [8.2], and the feature level at which it begins. With a higher history than the state has it begins that history with these voters, behind a
// restore or a forced recovery (C1), at the level that the state is at: all epochs end, no session of an earlier one is found again.
// Repeats change nothing.
type ClusterInit struct {
	Cluster [16]byte
	History uint16
	Voters  []NodeID // ascending
	Level   uint32   // that of the founding binary
	Version string   // its version, for people: at most MaxVersion bytes
}

// Kind implements Command.
func (*ClusterInit) Kind() Kind { return KindClusterInit }

func (c *ClusterInit) append(dst []byte) []byte {
	dst = append(dst, c.Cluster[:]...)
	dst = appendNodes(appendUint(dst, uint64(c.History)), c.Voters)
	dst = appendUint(dst, uint64(c.Level))
	return appendString(dst, c.Version)
}

func (c *ClusterInit) decode(r *reader) {
	r.fixed(c.Cluster[:])
	c.History = uint16(r.uint32())
	c.Voters = r.nodes(c.Voters)
	c.Level, c.Version = r.uint32(), r.string()
}

// Digest reports a node's running digest after entry Index, so that state can
// compare [7.2]. Only in system records.
type Digest struct {
	Node  NodeID
	Index uint64
	Sum   uint64
}

// Kind implements Command.
func (*Digest) Kind() Kind { return KindDigest }

func (c *Digest) append(dst []byte) []byte {
	dst = appendUint(dst, uint64(c.Node))
	dst = appendUint(dst, c.Index)
	return appendUint(dst, c.Sum)
}

func (c *Digest) decode(r *reader) { c.Node, c.Index, c.Sum = NodeID(r.uint()), r.uint(), r.uint() }
