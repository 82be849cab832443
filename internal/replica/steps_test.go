package replica

import (
	"errors"
	"fmt"
	"io"
	"log"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/state"
)

// records lists an entry's records as node:number.
func records(t *testing.T, entry []byte) (list []string) {
	t.Helper()
	_, rest, err := command.DecodeEntry(entry)
	for len(rest) > 0 && err == nil {
		var r command.Record
		r, rest, err = command.DecodeRecord(rest)
		list = append(list, fmt.Sprintf("%d:%d", r.Node, r.Number))
	}
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func encoded(node command.NodeID, from, to uint64, size int) (data []byte) {
	for n := from; n <= to; n++ {
		data = command.AppendRecord(data, command.Record{Node: node, Epoch: 1, Number: n, Body: make([]byte, size)})
	}
	return data
}

// packerOf has a stream of each node.
func packerOf(nodes ...uint64) *packer {
	p := newPacker()
	p.setNodes(nodes)
	return p
}

// [8.6] The leader takes from the nodes in turn, up to the entry's size, system records
// first, and keeps each node's order.
func TestPack(t *testing.T) {
	p := packerOf([]uint64{1, 2, 3}...)
	for i := uint64(1); i <= 3; i++ {
		p.streams[1].records = append(p.streams[1].records, packed{record: command.Record{Node: 1, Epoch: 1, Number: i, Body: make([]byte, 100)}})
	}
	if err := p.receive(2, 5, encoded(2, 1, 3, 100)); err != nil {
		t.Fatal(err)
	}
	p.system = append(p.system, &command.Tick{})
	for _, want := range []string{"[0:0 1:1 2:1 1:2 2:2]", "[1:3 2:3]"} {
		if got := fmt.Sprint(records(t, p.next(500, command.EntryHeader{}))); got != want {
			t.Errorf("packed %s, want %s", got, want)
		}
	}
	if n := p.waiting(500); n != 0 {
		t.Errorf("%d bytes still wait", n)
	}
	// A record above the size goes alone.
	if err := p.receive(3, 1, encoded(3, 1, 2, 2000)); err != nil {
		t.Fatal(err)
	}
	if got := records(t, p.next(500, command.EntryHeader{})); len(got) != 1 {
		t.Errorf("packed %v, want one large record", got)
	}
}

// A new stream replaces what is left of the former; an older one is ignored.
func TestStreamsReplaceEachOther(t *testing.T) {
	p := packerOf([]uint64{1, 2}...)
	p.receive(2, 7, encoded(2, 5, 9, 10))
	p.receive(2, 8, encoded(2, 3, 4, 10))
	p.receive(2, 7, encoded(2, 10, 10, 10))
	if got := fmt.Sprint(records(t, p.next(1<<20, command.EntryHeader{}))); got != "[2:3 2:4]" {
		t.Errorf("packed %s", got)
	}
	if err := p.receive(2, 8, []byte{1, 2}); err == nil {
		t.Error("no error for bytes that are no record")
	}
}

// [4.5] Civil time is max(last, min(own clock, median of the voters' clocks + 1 s)); running
// time stands without a leader.
func TestLogClock(t *testing.T) {
	const day = 86_400_000
	for _, tc := range []struct {
		name        string
		own         int64
		others      []int64
		last, civil int64
	}{
		{"all agree", 5000, []int64{5001, 4999}, 0, 5000},
		{"own clock a day ahead", day, []int64{5000, 5002}, 0, 6002},
		{"own clock behind", 1000, []int64{5000, 5002}, 0, 1000},
		{"never back", 1000, []int64{5000, 5002}, 3000, 3000},
		{"one other, own clock a day ahead", day, []int64{5000}, 0, 6000},
		{"alone of three: nothing to compare", 7000, nil, 0, 7000},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := logClock{civil: tc.last, running: 50, others: map[uint64]clockSample{}}
			l.setVoters([]uint64{1, 2, 3}, 1)
			for i, civil := range tc.others {
				l.sample(uint64(i+2), civil-100, time.Second)
			}
			l.elected(time.Second)
			// The samples have aged by 100 ms.
			h := l.stamp(time.Second+100*time.Millisecond, tc.own)
			if h.Civil != tc.civil || h.Running != 150 {
				t.Errorf("stamp %+v, want civil %d, running 150", h, tc.civil)
			}
			if again := l.stamp(time.Second+100*time.Millisecond, tc.own-500); again.Civil < h.Civil || again.Running != 150 {
				t.Errorf("then %+v: time goes back", again)
			}
		})
	}
}

// [1.1] The home keeps every record until it is applied, and starts anew at the oldest.
func TestHome(t *testing.T) {
	h := newHome(cryptoRandom)
	if h.propose(body("x"), nil) {
		t.Error("proposed without an epoch")
	}
	h.begin(9)
	for range 5 {
		h.propose(body("x"), nil)
	}
	numbers := func() (ns []uint64) {
		for _, r := range h.take(nil, 1, 1<<20) {
			ns = append(ns, r.Number)
		}
		return ns
	}
	check := func(what string, want ...uint64) {
		t.Helper()
		if got := numbers(); !slices.Equal(got, want) {
			t.Errorf("%s: sent %v, want %v", what, got, want)
		}
	}
	check("at first", 1, 2, 3, 4, 5)
	check("then nothing")
	h.applied(9, 2)
	h.applied(8, 5) // of another epoch
	h.rewind()
	check("anew", 3, 4, 5)
	h.untake(9, 4)
	check("taken back", 4, 5)
	h.applied(9, 5)
	if h.backlog() != 0 || h.oldest() != 0 {
		t.Errorf("backlog %d, oldest %d after all is applied", h.backlog(), h.oldest())
	}
	var got error
	_, nonce, _ := h.life()
	h.propose(body("x"), func(err error) { got = err })
	h.end()
	if _, again, _ := h.life(); !errors.Is(got, ErrEpochEnded) || nonce == again {
		t.Errorf("after the end: %v, the same nonce: %v", got, nonce == again)
	}
}

// [5.2] Never more than two parts are under way, and the bytes are counted once.
func TestHomeParts(t *testing.T) {
	h := newHome(cryptoRandom)
	h.begin(1)
	large := []byte(strings.Repeat("x", 5*command.MaxPlain))
	done := false
	h.propose(slices.Clone(large), func(error) { done = true })
	var joined []byte
	for number := uint64(1); !done; number++ {
		rs := h.take(nil, 1, 1<<30)
		if h.backlog() > len(large) || h.partsOut > partsAhead {
			t.Fatalf("backlog %d, %d parts under way", h.backlog(), h.partsOut)
		}
		for _, r := range rs {
			if len(r.Body) > command.MaxPlain {
				t.Fatalf("a part of %d bytes", len(r.Body))
			}
			var d command.Decoder
			d.Reset(r.Body)
			part := d.Next().(*command.Part)
			if part.Offset != uint64(len(joined)) {
				t.Fatalf("offset %d, want %d", part.Offset, len(joined))
			}
			joined = append(joined, part.Data...)
		}
		h.applied(1, number)
	}
	if string(joined) != string(large) || h.backlog() != 0 {
		t.Errorf("%d of %d bytes, backlog %d", len(joined), len(large), h.backlog())
	}
}

// [3.5] The lag is the age of the oldest commit index that isn't applied here.
func TestLag(t *testing.T) {
	var l lagMeter
	at := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	l.committed(10, pb.MsgApp, 0)
	l.sample(at(1), 5)
	l.committed(20, pb.MsgApp, 0)
	l.sample(at(2), 5)
	if got := l.of(at(4)); got != at(3) {
		t.Errorf("lag %s, want 3 s", got)
	}
	l.sample(at(4), 10)
	if got := l.of(at(4)); got != at(2) {
		t.Errorf("lag %s, want 2 s", got)
	}
	l.sample(at(4), 20)
	if got := l.of(at(9)); got != 0 {
		t.Errorf("lag %s of a node that has everything", got)
	}
}

// With safety off, a committed entry where another was applied early is seen.
func TestEarlyEntries(t *testing.T) {
	entry := func(index, term uint64) *pb.Entry { return &pb.Entry{Index: &index, Term: &term} }
	var x earlyEntries
	x.add([]*pb.Entry{entry(5, 2), entry(6, 2)})
	if x.next(3) != nil {
		t.Fatal("applied early in spite of a gap")
	}
	for taken := uint64(4); taken < 6; taken++ {
		if x.next(taken) == nil {
			t.Fatalf("entry %d isn't applied early", taken+1)
		}
	}
	if fresh, err := x.fresh(6, entry(5, 2)); fresh || err != nil {
		t.Errorf("the same entry, committed: %v, %v", fresh, err)
	}
	if _, err := x.fresh(6, entry(6, 3)); err == nil {
		t.Error("another entry in its place: no error")
	}
}

// [4.5] While something is due in running time the leader writes it down again and again: the next leader goes on from what
// is written, and an idle cluster whose leaders change would wait for ever. Nothing due, nothing written.
func TestRunningTimeIsWritten(t *testing.T) {
	for _, due := range []int64{60_000, state.Never} {
		c := &core{role: raft.StateLeader, packer: packerOf([]uint64{1}...), cutTick: time.Hour}
		c.progress = progress{index: 5, due: state.Due{Running: due, Civil: state.Never}}
		for c.now < 1500*time.Millisecond {
			c.now += 100 * time.Millisecond
			c.leaderTimers()
		}
		if got, want := len(c.packer.system), map[bool]int{true: 0, false: 1}[due == state.Never]; got != want {
			t.Errorf("due at %d: %d ticks, want %d", due, got, want)
		}
	}
}

// [4.2] However many entries are on their way while a job goes on, one tick is among them; one that got lost is followed by another.
func TestOneTickAtATime(t *testing.T) {
	c := &core{role: raft.StateLeader, packer: packerOf(1), cutTick: time.Hour}
	p := c.packer
	p.appended(6, 10)
	p.appended(7, 10)
	step := func(applied uint64, want int, when string) {
		t.Helper()
		c.progress = progress{index: applied, due: state.Due{Running: state.Never, Civil: state.Never, Job: true}}
		p.applied(applied)
		c.leaderTimers()
		if got := len(p.system); got != want {
			t.Fatalf("%s: %d ticks, want %d", when, got, want)
		}
		p.system = p.system[:0]
	}
	step(5, 1, "a job is under way")
	for i := uint64(8); i <= 11; i++ { // the tick is in entry 8
		p.appended(i, 10)
	}
	step(6, 0, "an entry before the tick's is applied")
	step(7, 0, "another")
	step(8, 1, "the tick's is applied")
	step(9, 0, "the next tick, in entry 12, is lost")
	step(11, 1, "and everything is applied")
	step(11, 0, "nothing is applied since")
}

// [4.5] A leader with a wrong clock hands over to a node with a right one only.
func TestRightClock(t *testing.T) {
	l := logClock{others: map[uint64]clockSample{}}
	l.setVoters([]uint64{1, 2, 3}, 1)
	const own = 10_000_000
	l.sample(2, own-2_000_000, time.Second)
	l.sample(3, own-5_000_000, time.Second)
	now := 3 * time.Second
	if off := l.off(now, own); off < clockOff {
		t.Fatalf("the own clock is off by %v only", off)
	}
	for id, want := range map[uint64]bool{2: true, 3: false, 4: false} {
		if l.right(id, now, own) != want {
			t.Errorf("node %d: %v, want %v", id, !want, want)
		}
	}
}

// The packer packs the next entry into the buffer of the last: raft must have copied what was proposed.
func TestRaftCopiesProposals(t *testing.T) {
	storage := raft.NewMemoryStorage()
	if err := storage.ApplySnapshot(&pb.Snapshot{Metadata: &pb.SnapshotMetadata{
		Index: new(uint64(1)), Term: new(uint64(1)), ConfState: &pb.ConfState{Voters: []uint64{1}},
	}}); err != nil {
		t.Fatal(err)
	}
	n, err := raft.NewRawNode(&raft.Config{
		ID: 1, ElectionTick: 10, HeartbeatTick: 1, Storage: storage, MaxSizePerMsg: 1 << 20, MaxInflightMsgs: 8,
		Logger: &raft.DefaultLogger{Logger: log.New(io.Discard, "", 0)},
	})
	if err != nil {
		t.Fatal(err)
	}
	step := func() (data [][]byte) {
		for n.HasReady() {
			rd := n.Ready()
			for _, e := range rd.Entries {
				data = append(data, e.Data)
			}
			if err := storage.Append(rd.Entries); err != nil {
				t.Fatal(err)
			}
			n.Advance(rd)
		}
		return data
	}
	if err := n.Campaign(); err != nil {
		t.Fatal(err)
	}
	step()
	buffer := []byte("the first entry")
	if err := n.Propose(buffer); err != nil {
		t.Fatal(err)
	}
	copy(buffer, "xxxxxxxxxxxxxxx")
	if data := step(); len(data) != 1 || string(data[0]) != "the first entry" {
		t.Fatalf("%q: raft keeps what is proposed; packer.spare must go", data)
	}
}

// [3.8] A lease that is renewed in time counts at once. Behind a gap, as after a process has stood still, it counts when what was
// committed meanwhile is applied: the node's epoch may have ended, and what it had handed out be with others.
func TestLeaseBehindAGap(t *testing.T) {
	c := &core{}
	b := &c.barriers
	answered := func(at time.Duration, index uint64) {
		b.seq++
		b.sent = append(b.sent, sentBarrier{seq: b.seq, at: at})
		c.now = at + time.Millisecond
		c.barrierAnswered(b.seq, index)
	}
	for _, s := range []struct {
		at             time.Duration
		index, applied uint64
		granted        bool
	}{
		{time.Second, 10, 9, false}, // the first one
		{1300 * time.Millisecond, 20, 10, true},
		{1600 * time.Millisecond, 30, 10, true},
		{2700 * time.Millisecond, 40, 39, false}, // 1.1 s later
		{3 * time.Second, 50, 39, false},
		{3300 * time.Millisecond, 60, 40, true},
	} {
		answered(s.at, s.index)
		want := time.Duration(0)
		if s.granted {
			want = s.at + leaseLength
		}
		if got := b.granted(s.applied); got != want {
			t.Errorf("barrier of %v up to entry %d, applied %d: lease until %v, want %v", s.at, s.index, s.applied, got, want)
		}
	}
}
