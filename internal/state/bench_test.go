package state

import (
	"runtime"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/command"
)

// nowhere drops changes, so that a benchmark measures the machine alone.
type nowhere struct{}

func (nowhere) Put(_, _ []byte)         {}
func (nowhere) Insert(_, _ []byte)      {}
func (nowhere) Delete(_ []byte)         {}
func (nowhere) DeleteRange(_, _ []byte) {}

// machineWith is a machine with one connection, a queue and a consumer on link 1.
func machineWith(b testing.TB, out Changes) (*Machine, command.Epoch, command.ConnID) {
	m := New(1)
	apply := func(index uint64, r command.Record) []command.Effect {
		effects, err := m.Apply(index, command.AppendRecord(command.AppendEntry(nil, command.EntryHeader{Civil: 1, Running: 1}), r), out, nil)
		if err != nil {
			b.Fatal(err)
		}
		return effects
	}
	apply(1, command.Record{Body: command.Append(
		command.Append(nil, &command.ClusterInit{History: 1, Voters: []command.NodeID{1}, Level: command.Level}),
		&command.NodeUp{Node: 1, Nonce: [16]byte{1}, Announcement: command.Announcement{Level: command.Level}})})
	epoch, _ := m.Epoch(1)
	e := apply(2, command.Record{Node: 1, Epoch: epoch, Number: 1, Body: command.Append(nil, &command.ConnOpen{Local: 1, Principal: "p", ContainerID: "c"})})
	conn := e[0].Detail.(*command.ConnOpened).Conn
	apply(3, command.Record{Node: 1, Epoch: epoch, Number: 2, Body: command.Append(nil, &command.LinkOpen{Conn: conn, Link: 1, Address: "q", Create: true})})
	return m, epoch, conn
}

// BenchmarkMessage: send, deliver and settle, packed 64 to an entry, 1 KB bodies; a
// message costs three commands' worth of Apply.
func BenchmarkMessage(b *testing.B) {
	const batch = 64
	m, epoch, conn := machineWith(b, nowhere{})
	body := make([]byte, 1024)
	var sends, entry, record []byte
	for range batch {
		sends = command.Append(sends, &command.Send{Conn: conn, Link: 2, Request: 1, Address: "q", Message: body})
	}
	allow := command.Append(nil, &command.Allow{Conn: conn, Link: 1, Messages: batch, Bytes: 1 << 30})
	settle := &command.Settle{Conn: conn, Link: 1, Disposition: command.Disposition{Outcome: command.Accepted}}
	var effects []command.Effect
	index, number := uint64(10), uint64(2)
	apply := func(body []byte) {
		index++
		number++
		entry = command.AppendEntry(entry[:0], command.EntryHeader{Civil: 1, Running: 1})
		entry = command.AppendRecord(entry, command.Record{Node: 1, Epoch: epoch, Number: number, Body: body})
		var err error
		if effects, err = m.Apply(index, entry, nowhere{}, effects[:0]); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%batch != 0 {
			continue
		}
		apply(sends)
		apply(allow)
		settle.Refs = settle.Refs[:0]
		for j := range effects {
			if effects[j].Kind == command.EffectDeliver {
				settle.Refs = append(settle.Refs, effects[j].Ref)
			}
		}
		if len(settle.Refs) != batch {
			b.Fatal(len(settle.Refs))
		}
		record = command.Append(record[:0], settle)
		apply(record)
	}
}

// BenchmarkTransfer: receive one, send one, commit, 16 commits to an entry.
func BenchmarkTransfer(b *testing.B) {
	const batch = 16
	m, epoch, conn := machineWith(b, nowhere{})
	body := make([]byte, 1024)
	var entry, record []byte
	var effects []command.Effect
	index, number := uint64(10), uint64(2)
	apply := func(body []byte) {
		index++
		number++
		entry = command.AppendEntry(entry[:0], command.EntryHeader{Civil: 1, Running: 1})
		entry = command.AppendRecord(entry, command.Record{Node: 1, Epoch: epoch, Number: number, Body: body})
		var err error
		if effects, err = m.Apply(index, entry, nowhere{}, effects[:0]); err != nil {
			b.Fatal(err)
		}
	}
	for range batch {
		record = command.Append(record, &command.Send{Conn: conn, Link: 2, Address: "q", Message: body})
	}
	apply(command.Append(record, &command.Allow{Conn: conn, Link: 1, Messages: 1 << 20, Bytes: 1 << 32}))
	var refs []command.DeliveryRef
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%batch != 0 {
			continue
		}
		refs = refs[:0]
		for j := range effects {
			if effects[j].Kind == command.EffectDeliver {
				refs = append(refs, effects[j].Ref)
			}
		}
		record = record[:0]
		for _, ref := range refs {
			record = command.Append(record, &command.Commit{
				Conn: conn, Request: 1, Operations: 2, Counted: 2,
				Sends:   []command.TxSend{{Address: "q", Message: body}},
				Settles: []command.TxSettle{{Link: 1, Ref: ref, Settled: true, Disposition: command.Disposition{Outcome: command.Accepted}}},
			})
		}
		apply(command.Append(record, &command.Allow{Conn: conn, Link: 1, Messages: batch, Bytes: 1 << 20}))
	}
}

// BenchmarkBacklog: memory and load time of a million waiting messages, a tenth of them
// in flight.
func BenchmarkBacklog(b *testing.B) {
	const n = 1_000_000
	for b.Loop() {
		before := heap()
		m, epoch, conn := machineWith(b, nowhere{})
		index, number := uint64(10), uint64(2)
		var sends []byte
		for range 1000 {
			sends = command.Append(sends, &command.Send{Conn: conn, Link: 2, Address: "q", Message: make([]byte, 100)})
		}
		apply := func(body []byte) {
			index++
			number++
			entry := command.AppendRecord(command.AppendEntry(nil, command.EntryHeader{Civil: 1, Running: 1}),
				command.Record{Node: 1, Epoch: epoch, Number: number, Body: body})
			if _, err := m.Apply(index, entry, nowhere{}, nil); err != nil {
				b.Fatal(err)
			}
		}
		for range n / 1000 {
			apply(sends)
		}
		b.ReportMetric(float64(heap()-before)/n, "B/message")
		for range n / 10 / 5000 {
			apply(command.Append(nil, &command.Allow{Conn: conn, Link: 1, Messages: 5000, Bytes: 1 << 32}))
		}
		b.ReportMetric(float64(heap()-before)/n, "B/message+10%held")
		start := time.Now()
		runtime.GC()
		b.ReportMetric(float64(time.Since(start).Milliseconds()), "gc-ms")
		runtime.KeepAlive(m)
	}
}

func heap() uint64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

// sliceDisk keeps keys in the order written: ascending where the messages of one queue
// are all that was written.
type sliceDisk struct {
	nowhere
	keys, values [][]byte
}

func (d *sliceDisk) Insert(key, value []byte) { d.Put(key, value) }

func (d *sliceDisk) Put(key, value []byte) {
	if key[2] == keyMessage {
		d.keys = append(d.keys, append([]byte(nil), key...))
		d.values = append(d.values, append([]byte(nil), value...))
	}
}

func BenchmarkLoad(b *testing.B) {
	const n = 200_000
	d := &sliceDisk{}
	rest := newDisk()
	m, epoch, conn := machineWith(b, rest)
	var sends []byte
	for range 1000 {
		sends = command.Append(sends, &command.Send{Conn: conn, Link: 2, Address: "q", Message: make([]byte, 100)})
	}
	for i := range uint64(n / 1000) {
		entry := command.AppendRecord(command.AppendEntry(nil, command.EntryHeader{Civil: 1, Running: 1}),
			command.Record{Node: 1, Epoch: epoch, Number: 3 + i, Body: sends})
		if _, err := m.Apply(10+i, entry, d, nil); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		first := rest.next(1)
		i := 0
		loaded, err := Load(1, func() (k, v []byte, ok bool) {
			if k, v, ok = first(); ok {
				return k, v, ok
			}
			if i == len(d.keys) {
				return nil, nil, false
			}
			i++
			return d.keys[i-1], d.values[i-1], true
		})
		if err != nil || loaded.messages.live() != n {
			b.Fatal(err, loaded.messages.live())
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/message")
}
