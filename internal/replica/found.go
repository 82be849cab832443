package replica

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
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
		return stamp, r.checkVoters(stamp)
	}
	if restored := stamp.History > 0; restored {
		if err := r.checkVoters(stamp); err != nil {
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
	if err := r.dir.SetVoters(stamp.Voters); err != nil {
		return stamp, err
	}
	if err := r.dir.SetCluster(stamp.Cluster, stamp.History); err != nil {
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
	voters := make([]uint64, 0, len(r.opts.Peers))
	for id := range r.opts.Peers {
		voters = append(voters, uint64(id))
	}
	slices.Sort(voters)
	return peer.Stamp{Cluster: s.Cluster, History: s.History, Node: s.Node, Birth: r.dir.Birth(), Voters: voters}
}

// checkVoters refuses a list of nodes other than the cluster was founded with: a node of
// three that is started as a lone one would be a majority of its own.
func (r *Replica) checkVoters(stamp peer.Stamp) error {
	founded, err := r.dir.Voters()
	if err != nil {
		return err
	}
	if founded == nil {
		return fmt.Errorf("%w: %s names a cluster, but its list of nodes is missing; put the file VOTERS back", store.ErrCorrupt, r.opts.Dir)
	}
	if !slices.Equal(founded, stamp.Voters) {
		return fmt.Errorf("%w: %s was founded with the nodes %v, the peer list names %v; give the same list",
			store.ErrForeign, r.opts.Dir, founded, stamp.Voters)
	}
	return nil
}
