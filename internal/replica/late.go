package replica

import pb "go.etcd.io/raft/v3/raftpb"

// late reports that a message is the answer to a leader of an earlier term, which would mislead this one. A node that is in a
// later term answers an append of an earlier one with an acknowledgement of index 0, to make a leader that is over step down.
// A leader that is elected twice in a row gets that answer to its own earlier append, which came late (appends have a stream
// of their own, and heartbeats overtake them). Raft can't tell it from the acknowledgement of an empty log: it would send the
// peer all entries from the first on, and where those are cut the peer gets none, until another leads. A true acknowledgement
// of index 0 can be dropped as well: raft asks again with the next heartbeat.
func (c *core) late(m *pb.Message) bool {
	return m.GetType() == pb.MsgAppResp && m.GetIndex() == 0 && !m.GetReject() && m.GetTerm() <= c.node.BasicStatus().GetTerm()
}
