package replica

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/oncemq/oncemq/internal/peer"
	"github.com/oncemq/oncemq/internal/store"
)

// askPause is the pause between two rounds of the bootstrap question.
const askPause = 30 * time.Millisecond

// found returns the stamp that this node takes part with [8.2]. A directory that knows its
// cluster is used as it is. An empty one founds a cluster with all others of the list, if
// every one of them answers: the cluster's id is a hash over the births of all their
// directories, so all compute the same, whoever is first, and a directory that was emptied
// since (another birth) doesn't fit.
func (r *Replica) found(ctx context.Context) (peer.Stamp, error) {
	stamp := r.stamp()
	if stamp.Cluster != [16]byte{} {
		return stamp, r.checkVoters()
	}
	if len(stamp.Voters) == 0 {
		return stamp, fmt.Errorf("%w: %s is empty and there is no list of nodes to found a cluster with", ErrEmptyDirectory, r.opts.Dir)
	}
	if restored := stamp.History > 0; restored {
		if err := r.checkRestored(stamp); err != nil {
			return stamp, err
		}
	}
	births := map[uint64][16]byte{stamp.Node: stamp.Birth}
	exists := map[uint64][16]byte{}
	for len(births) < len(stamp.Voters) {
		for _, id := range stamp.Voters {
			if _, ok := births[id]; ok {
				continue
			}
			answer, err := r.peers.Ask(ctx, id)
			switch {
			case err == nil:
				births[id] = answer.Birth
				if answer.Cluster != [16]byte{} {
					exists[id] = answer.Cluster
				}
			case errors.Is(err, peer.ErrRefused):
				r.logger.Error("a peer won't found a cluster with this node", "peer", id, "error", err)
			}
		}
		if len(births) < len(stamp.Voters) {
			select {
			case <-time.After(askPause):
			case <-ctx.Done():
				return stamp, ctx.Err()
			}
		}
	}
	stamp.Cluster = clusterID(births, r.state.AppliedIndex(), r.decides.Digest())
	for id, cluster := range exists {
		if cluster != stamp.Cluster {
			return stamp, fmt.Errorf("%w: node %d belongs to cluster %x; %s would vote under the old identity of node %d: put the old directory back",
				ErrEmptyDirectory, id, cluster, r.opts.Dir, stamp.Node)
		}
	}
	if err := r.noteFounding(stamp); err != nil {
		return stamp, err
	}
	r.logger.Info("cluster founded", "cluster", fmt.Sprintf("%x", stamp.Cluster), "nodes", stamp.Voters)
	r.peers.SetStamp(stamp)
	return stamp, nil
}

// clusterID is a hash over the nodes and their directories' births, and over the state that a backup has brought: nodes that
// were made from different ones find no cluster together.
func clusterID(births map[uint64][16]byte, applied, digest uint64) (id [16]byte) {
	h := sha256.New()
	h.Write([]byte("oncemq cluster 1"))
	nodes := make([]uint64, 0, len(births))
	for n := range births {
		nodes = append(nodes, n)
	}
	slices.Sort(nodes)
	for _, n := range nodes {
		birth := births[n]
		h.Write(binary.BigEndian.AppendUint64(nil, n))
		h.Write(birth[:])
	}
	if applied > 0 {
		h.Write([]byte("restored"))
		h.Write(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, applied), digest))
	}
	copy(id[:], h.Sum(nil))
	return id
}

// stamp is what this node's directory says of it.
func (r *Replica) stamp() peer.Stamp {
	s := r.dir.Stamp()
	voters, err := r.dir.Voters()
	if fresh := s.Cluster == [16]byte{} && s.History == 0; err != nil || fresh || len(voters) == 0 {
		voters = r.listed() // found says what is wrong
	}
	return peer.Stamp{Cluster: s.Cluster, History: s.History, Node: s.Node, Birth: r.dir.Birth(), Voters: voters}
}

// listed are the nodes of Options.Peers, ascending.
func (r *Replica) listed() []uint64 {
	var ids []uint64
	for id := range r.opts.Peers {
		ids = append(ids, uint64(id))
	}
	slices.Sort(ids)
	return ids
}

// fixed are the addresses that the operator has said.
func (r *Replica) fixed() map[uint64]string {
	addresses := map[uint64]string{}
	for id, address := range r.opts.Peers {
		if id != r.opts.Node {
			addresses[uint64(id)] = address
		}
	}
	return addresses
}

// elsewhere are the other nodes, ascending, as far as the directory's lists and the operator say: without a state.
func (r *Replica) elsewhere() []uint64 {
	ids := r.listed()
	if voters, err := r.dir.Voters(); err == nil {
		ids = append(ids, voters...)
	}
	if noted, err := r.dir.Members(); err == nil {
		ids = slices.AppendSeq(ids, maps.Keys(noted))
	}
	slices.Sort(ids)
	return slices.DeleteFunc(slices.Compact(ids), func(id uint64) bool { return id == uint64(r.opts.Node) })
}

// known is who the members are and where, as far as the files say: what was written down for the start, and the state, which may be older or newer.
// Those of another history than the directory's are nobody's.
func (r *Replica) known() peer.Members {
	m := peer.Members{Addresses: map[uint64]string{}}
	noted, err := r.dir.Members()
	if err != nil {
		r.logger.Warn("the list of members", "error", err)
	}
	var history uint16
	founded := false
	if r.damage == nil {
		_, history, founded = r.decides.Cluster()
	}
	former := founded && history < r.dir.Stamp().History
	switch {
	case founded && !former:
		m = (&membership{all: r.decides.Members(), last: r.decides.LastNode()}).peers()
	case former || len(noted) == 0:
		for _, id := range r.stamp().Voters {
			m.Addresses[id] = ""
		}
	}
	if former {
		return m
	}
	last := m.Last
	for id, address := range noted {
		if _, member := m.Addresses[id]; member && address != "" || id > last {
			m.Addresses[id] = address
		}
		m.Last = max(m.Last, id)
	}
	return m
}

// noteMembers writes down where the members are found, for the next start. It is no loss where that fails: a full disk most likely.
func (r *Replica) noteMembers() {
	m := r.members.Load()
	if m == nil || m == r.noted {
		return
	}
	r.noted = m
	if err := r.dir.SetMembers(m.peers().Addresses); err != nil {
		r.logger.Warn("where the members are found could not be written down", "error", err)
	}
}

// noteFounding makes the directory one of the cluster that was founded; the stamp goes last.
func (r *Replica) noteFounding(stamp peer.Stamp) error {
	if err := r.dir.SetVoters(stamp.Voters); err != nil {
		return err
	}
	members := r.fixed()
	members[stamp.Node] = r.opts.Addresses.Peer
	if err := r.dir.SetMembers(members); err != nil {
		return err
	}
	return r.dir.SetCluster(stamp.Cluster, stamp.History)
}

// checkRestored wants the list of nodes that a backup was restored for: these found the cluster.
func (r *Replica) checkRestored(stamp peer.Stamp) error {
	if err := r.checkVoters(); err != nil {
		return err
	}
	if listed := r.listed(); !slices.Equal(listed, stamp.Voters) {
		return fmt.Errorf("%w: %s was restored for the nodes %v, the peer list names %v; give the same list, or restore for this one",
			store.ErrForeign, r.opts.Dir, stamp.Voters, listed)
	}
	return nil
}

// checkVoters refuses a list of nodes other than the cluster was founded with. This node's address alone is no list: who the others are
// stands in the directory.
func (r *Replica) checkVoters() error {
	founded, err := r.dir.Voters()
	if err != nil {
		return err
	}
	if founded == nil {
		return fmt.Errorf("%w: %s names a cluster, but its list of nodes is missing; put the file VOTERS back", store.ErrCorrupt, r.opts.Dir)
	}
	if listed := r.listed(); len(listed) > 1 && !slices.Equal(founded, listed) {
		return fmt.Errorf("%w: %s was founded with the nodes %v, the peer list names %v; give the same list, or none",
			store.ErrForeign, r.opts.Dir, founded, listed)
	}
	return nil
}
