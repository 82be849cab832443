package replica

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/store"
)

// Skips are the entries that a node passes over [4.4].
type Skips []store.Skip

func (s Skips) has(e *pb.Entry) bool {
	return len(s) > 0 && slices.Contains(s, store.Skip{Index: e.GetIndex(), Term: e.GetTerm()})
}

// loadSkips reads which entries this node passes over, and forgets those that it has behind it for good.
func (r *Replica) loadSkips() error {
	all, err := r.dir.Skips()
	if err != nil || len(all) == 0 {
		return err
	}
	durable := r.state.AppliedIndex() // a start has just read it from the disk
	left := slices.DeleteFunc(slices.Clone(all), func(s store.Skip) bool { return s.Index <= durable })
	if len(left) < len(all) {
		if err := r.dir.SetSkips(left); err != nil {
			return err
		}
	}
	r.skips = left
	return nil
}

// forgetSkips drops a list that can't be read, behind a checkpoint that was installed: what this node would have passed over, the others have, and
// the checkpoint's state with them. The next look at the list would find the damage again otherwise, and the node recover without an end.
func (r *Replica) forgetSkips() error {
	_, err := r.dir.Skips()
	if !errors.Is(err, store.ErrCorrupt) {
		return err
	}
	r.logger.Warn("the list of skipped entries is removed, since the checkpoint has what it was for", "error", err)
	return r.dir.SetSkips(nil)
}

// SkipOptions name an entry to be skipped in the directory of a node that isn't running.
type SkipOptions struct {
	// Dir is the data directory, in FS (nil: the operating system's).
	Dir string
	FS  store.FS
	// Index and Term are the entry's. Term 0: that of the entry in this directory's log.
	Index, Term uint64
}

// SkipReport says what will be skipped.
type SkipReport struct {
	Node        command.NodeID
	Index, Term uint64
	// InLog: this directory's log has the entry, of Bytes, with these commands: how many of each kind.
	InLog    bool
	Bytes    int
	Commands map[string]int
	// Applied and Last are what the node's state has, and the end of its log; Commit is what it knows to be committed.
	Applied, Commit, Last uint64
}

// SkipEntry notes in the directory that its node passes over an entry [4.4]: when it comes to apply it, none of its commands
// is carried out, and the state remembers so. Every node has to do the same. Errors: those of opening the
// directory; an entry that the state has already, that changes the configuration, or whose term nobody knows here.
func SkipEntry(o SkipOptions) (report SkipReport, err error) {
	stamp, err := store.StampOf(o.FS, o.Dir)
	if err != nil {
		return report, err
	}
	d, err := store.Open(store.Options{Dir: o.Dir, FS: o.FS, Node: stamp.Node, SafetyOff: stamp.SafetyOff, CheckLevel: command.CheckLevel})
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	log, err := d.OpenLog(store.LogOptions{Group: group})
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	disk, err := d.OpenState(store.StateOptions{Group: group})
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, disk.Close()) }()
	report = SkipReport{
		Node: command.NodeID(stamp.Node), Index: o.Index, Term: o.Term,
		Applied: disk.AppliedIndex(), Commit: log.HardState().Commit, Last: log.LastIndex(),
	}
	if err := report.find(log); err != nil {
		return report, err
	}
	before, err := d.Skips()
	if err != nil {
		return report, err
	}
	return report, d.SetSkips(append(before, store.Skip{Index: report.Index, Term: report.Term}))
}

// find looks at the entry.
func (r *SkipReport) find(log *store.Log) error {
	if r.Index <= r.Applied {
		return fmt.Errorf("entry %d is in this node's state already, which has all up to %d; there is nothing to skip", r.Index, r.Applied)
	}
	if r.Index < log.FirstIndex() || r.Index > r.Last {
		if r.Term == 0 {
			return fmt.Errorf("this node's log ends at %d and hasn't entry %d: give its term, which this command has printed on a node that has it", r.Last, r.Index)
		}
		return nil
	}
	entries, err := log.Entries(nil, r.Index, r.Index+1, 0)
	if err != nil {
		return err
	}
	if len(entries) != 1 {
		return fmt.Errorf("entry %d can't be read", r.Index)
	}
	e := &entries[0]
	if r.Term != 0 && r.Term != e.Term {
		return nil // the leader will replace what is here by the one of that term
	}
	if pb.EntryType(e.Type) != pb.EntryNormal || len(e.Data) == 0 {
		return fmt.Errorf("entry %d is raft's own and can't be skipped", r.Index)
	}
	r.Term, r.InLog, r.Bytes, r.Commands = e.Term, true, len(e.Data), commandsIn(e.Data)
	return nil
}

// commandsIn counts an entry's commands by kind, as far as they can be read.
func commandsIn(entry []byte) map[string]int {
	found := map[string]int{}
	_, records, err := command.DecodeEntry(entry)
	var decoder command.Decoder
	for err == nil && len(records) > 0 {
		var record command.Record
		if record, records, err = command.DecodeRecord(records); err != nil {
			break
		}
		decoder.Reset(record.Body)
		for c := decoder.Next(); c != nil; c = decoder.Next() {
			found[strings.TrimPrefix(fmt.Sprintf("%T", c), "*command.")]++
		}
	}
	return found
}
