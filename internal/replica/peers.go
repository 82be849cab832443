package replica

import (
	"bytes"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/oncemq/oncemq/internal/peer"
)

// peerHandler takes what peers send; its methods run on their readers' goroutines. What may
// be large goes through bounded, which holds its stream back.
type peerHandler struct {
	events  *inbox[event]
	bounded func(e event, bytes int)
}

// Raft implements peer.Handler.
func (h peerHandler) Raft(from uint64, message []byte) {
	m := new(pb.Message)
	if err := proto.Unmarshal(message, m); err != nil || m.GetFrom() != from {
		return // the frame's checksum was right: another version's message
	}
	if len(m.Entries) > 0 {
		h.bounded(event{kind: evMessage, from: from, message: m}, len(message))
		return
	}
	h.events.put(event{kind: evMessage, from: from, message: m})
}

// Records implements peer.Handler.
func (h peerHandler) Records(from uint64, r peer.Records) {
	data := append([]byte(nil), r.Data...)
	h.bounded(event{kind: evRecords, from: from, term: r.Term, stream: r.Stream, data: data}, len(data))
}

// Note implements peer.Handler.
func (h peerHandler) Note(from uint64, n peer.Note) {
	n.Data = bytes.Clone(n.Data)
	h.events.put(event{kind: evNote, from: from, note: n})
}

// PeerUp implements peer.Handler.
func (h peerHandler) PeerUp(p uint64) { h.events.put(event{kind: evUp, from: p}) }

// PeerLost implements peer.Handler.
func (h peerHandler) PeerLost(p uint64) { h.events.put(event{kind: evLost, from: p}) }

// PeerGone implements peer.Handler.
func (h peerHandler) PeerGone(p uint64, refused bool) {
	h.events.put(event{kind: evGone, from: p, refused: refused})
}

// Removed implements peer.Handler.
func (h peerHandler) Removed(p uint64) { h.events.put(event{kind: evRemoved, from: p}) }

// payload is a raft message, encoded by the peer's writer: nothing changes it once raft
// has handed it out.
type payload struct{ m *pb.Message }

// AppendTo implements peer.Payload.
func (p payload) AppendTo(dst []byte) []byte {
	out, err := proto.MarshalOptions{}.MarshalAppend(dst, p.m)
	if err != nil {
		panic("replica: encoding a raft message: " + err.Error())
	}
	return out
}

// Size implements peer.Payload.
func (p payload) Size() int {
	n := 64
	for _, e := range p.m.Entries {
		n += len(e.Data) + 16
	}
	return n
}
