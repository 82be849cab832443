package replica

import (
	"errors"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/peer"
	"github.com/oncemq/oncemq/internal/state"
	"github.com/oncemq/oncemq/internal/store"
)

// Joined is what the directory of a node begins with that has joined a cluster.
type Joined = store.Joined

// Prepare locks the directory of a node that joins; see store.Prepare.
func Prepare(dir string) (*store.Preparation, error) { return store.Prepare(nil, dir) }

// Owner is whose a data directory is.
type Owner struct {
	// Node is 0 where the directory is nobody's yet.
	Node command.NodeID
	// Cluster is zero as long as the node has founded or joined none.
	Cluster [16]byte
	History uint16
}

// Whose reads whose a data directory is, without locking it. Errors: store.ErrCorrupt, store.ErrVersion.
func Whose(dir string) (Owner, error) {
	stamp, _, err := store.Whose(nil, dir)
	return Owner{Node: command.NodeID(stamp.Node), Cluster: stamp.Cluster, History: stamp.History}, err
}

// WhoseToStart is Whose for a node that is about to start. Of a directory whose stamp is gone or damaged it says whose the log is: Open makes
// the stamp anew from that, where there are others to recover from, and gives the error otherwise.
func WhoseToStart(dir string) (Owner, error) {
	owner, err := Whose(dir)
	if !errors.Is(err, store.ErrCorrupt) {
		return owner, err
	}
	stamp, ok, logErr := store.WhoseLog(nil, dir)
	if logErr != nil || !ok {
		return owner, errors.Join(err, logErr)
	}
	return Owner{Node: command.NodeID(stamp.Node), Cluster: stamp.Cluster, History: stamp.History}, nil
}

// Stamp is what the directory says of the node; Voters are those that the cluster was founded with.
func (r *Replica) Stamp() (peer.Stamp, error) {
	s := r.dir.Stamp()
	voters, err := r.dir.Voters()
	return peer.Stamp{Cluster: s.Cluster, History: s.History, Node: s.Node, Birth: r.dir.Birth(), Voters: voters}, err
}

// Members are the members as of what is applied here, by id; none before that is known. The slice is never changed.
func (r *Replica) Members() []state.MemberInfo {
	if m := r.members.Load(); m != nil {
		return m.all
	}
	return nil
}
