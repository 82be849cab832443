package replica

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/state"
	"github.com/oncemq/oncemq/internal/store"
)

// lostCluster is a cluster of three that has lost two nodes: it returns what is left, whose last entries are only in its log.
func lostCluster(t *testing.T) (files store.FS, dir string, survivor command.NodeID, session command.SessionID) {
	t.Helper()
	boxes := map[command.NodeID]*effects{}
	disks := map[command.NodeID]store.FS{}
	c := newCluster(t, 3, func(o *Options) {
		realMachine(o)
		boxes[o.Node], disks[o.Node] = &effects{make(chan command.Effect, 1000), make(chan command.Epoch, 10)}, store.NewMemFS()
		o.Mailbox, o.FS, o.Limits.SegmentBytes = boxes[o.Node], disks[o.Node], 64<<10
	})
	l := c.leader()
	if !l.Propose(command.Append(nil, &command.ConnOpen{Local: 7, Principal: "p", ContainerID: "c", Nonce: [16]byte{7}})) {
		t.Fatal("no epoch")
	}
	conn := boxes[l.id].want(t, command.EffectConnOpened).Detail.(*command.ConnOpened).Conn
	if !l.Propose(command.Append(nil, &command.SessionOpen{Conn: conn, Request: 1, Nonce: [16]byte{1}})) {
		t.Fatal("no epoch")
	}
	session = boxes[l.id].want(t, command.EffectSessionOpened).Tx.Session()
	for i := range 20 {
		if _, err := l.Request(t.Context(), &command.QueueCreate{Name: fmt.Sprint("q", i)}); err != nil {
			t.Fatal(err)
		}
	}
	c.digests()
	for id := range c.peers {
		c.kill(id)
	}
	return disks[l.id], c.dirs[l.id], l.id, session
}

// TestForceNewCluster [8.7]: of three nodes two are lost; the third goes on alone with all that it has, in a new history: no session of the
// old one is known, no other node is a member, and a node of the old cluster is another one's.
func TestForceNewCluster(t *testing.T) {
	files, dir, id, session := lostCluster(t)
	before, err := Foresee(files, dir)
	if err != nil || before.Last < 23 || before.Commit > before.Last || before.Node != id || len(before.Damage) > 0 || before.LogLast != before.Last {
		t.Fatalf("%+v, %v", before, err)
	}
	cluster := [16]byte{0xAB}
	if err := ForceNewCluster(ForceOptions{Dir: dir, FS: files, Cluster: cluster, History: before.History + 1}); err != nil {
		t.Fatal(err)
	}
	after, err := Foresee(files, dir)
	if err != nil || after.Cluster != cluster || after.History != before.History+1 || after.Last != before.Last || len(after.Voters) != 1 || after.Queues != 20 {
		t.Fatalf("afterwards: %+v, %v", after, err)
	}
	box := &effects{make(chan command.Effect, 1000), make(chan command.Epoch, 10)}
	c := newCluster(t, 0, func(o *Options) {
		realMachine(o)
		o.Mailbox, o.FS = box, files
	})
	c.peers[id], c.dirs[id] = "alone", dir
	m := c.start(id)
	c.wait("the survivor is ready", func() bool { return m.Ready() == nil })
	err = m.Read(t.Context(), func(s *state.Machine) {
		id, history, _ := s.Cluster()
		if id != cluster || history != before.History+1 || len(s.Queues()) != 20 || s.Sessions() != 0 || len(s.Members()) != 1 {
			t.Errorf("cluster %x, history %d, %d queues, %d sessions, members %+v", id, history, len(s.Queues()), s.Sessions(), s.Members())
		}
		if cfg, ok := s.Configuration(); !ok || len(cfg.Nodes()) != 1 {
			t.Errorf("configuration %+v", cfg)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	<-box.epochs
	if !m.Propose(command.Append(nil, &command.ConnOpen{Local: 8, Principal: "p", ContainerID: "c", Nonce: [16]byte{8}})) {
		t.Fatal("no epoch")
	}
	conn := box.want(t, command.EffectConnOpened).Detail.(*command.ConnOpened).Conn
	m.Propose(command.Append(nil, &command.Outcome{Conn: conn, Request: 1, Tx: command.NewTxID(session, 1), Decide: true}))
	if e := box.want(t, command.EffectOutcome); e.Outcome != command.TxExpired {
		t.Errorf("a transaction of the old history: %+v", e)
	}
}

// TestForceFromDamage: a survivor whose log is damaged keeps what comes before, and says what doesn't; one whose state is damaged
// makes it anew where its log reaches back to the beginning.
func TestForceFromDamage(t *testing.T) {
	files, dir, _, _ := lostCluster(t)
	whole, err := Foresee(files, dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"log", "state"} {
		copied, f := spoilt(t, files, dir, name)
		if short := f.Last < whole.Last && f.LogLast == whole.Last; short != (name == "log") {
			t.Errorf("%s: up to entry %d of %d, the log ends with %d", name, f.Last, whole.Last, f.LogLast)
		}
		if err := ForceNewCluster(ForceOptions{Dir: dir, FS: copied, Cluster: [16]byte{1}, History: 1}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if after, err := Foresee(copied, dir); err != nil || after.Last != f.Last || len(after.Damage) > 0 || name == "state" && after.Queues != 20 {
			t.Errorf("%s: afterwards %+v, %v", name, after, err)
		}
	}
	if _, err := Foresee(store.NewMemFS(), dir); !errors.Is(err, store.ErrNothing) {
		t.Errorf("nothing there: %v", err)
	}
}

// spoilt is a copy of a directory in which a bit of the log or of the list of tables is another.
func spoilt(t *testing.T, files store.FS, dir, part string) (store.FS, *Forecast) {
	t.Helper()
	names, err := files.List(dir + "/" + part)
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(500) {
		copied := store.CrashFS(files, 1, 100)
		for _, name := range names {
			if strings.HasPrefix(name, "MANIFEST") || name == "0000000000000001.seg" {
				if _, err := store.FlipBit(copied, dir+"/"+part+"/"+name, rand.New(rand.NewPCG(seed, 1))); err != nil {
					t.Fatal(err)
				}
			}
		}
		if f, err := Foresee(copied, dir); err == nil && len(f.Damage) > 0 {
			return copied, f
		}
	}
	t.Fatal("no changed bit was found")
	return nil, nil
}
