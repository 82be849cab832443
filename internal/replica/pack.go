package replica

import "github.com/oncemq/oncemq/internal/command"

// packer is the leader's side of the nodes' streams: it holds what has come and not been
// proposed, and packs it into entries, taking from the nodes in turn, by bytes [8.6].
type packer struct {
	streams map[uint64]*stream
	order   []uint64 // nodes, in turn
	turn    int
	system  []command.Command // NodeUp, NodeDown, Tick …: they go first
	held    []byte            // an entry that raft has refused for now
	spare   []byte            // the last entry's buffer: raft makes a copy of its own

	window []proposal // proposed and not applied, by index
	fresh  int        // proposed since the last Ready: their index isn't known yet
	commit uint64
	bytes  int // of window
}

// stream is what has come from one node.
type stream struct {
	id      uint64
	records []packed
}

// packed is a record, encoded where it came from another node.
type packed struct {
	encoded []byte
	record  command.Record
}

func (p *packed) size() int {
	if p.encoded != nil {
		return len(p.encoded)
	}
	return len(p.record.Body) + 20
}

// proposal is an entry on its way.
type proposal struct {
	index uint64
	bytes int
}

func newPacker() *packer {
	p := &packer{}
	p.reset()
	return p
}

// setNodes changes whose streams there are. What has come from a node that is gone is dropped: its epoch has ended.
func (p *packer) setNodes(nodes []uint64) {
	former := p.streams
	p.order, p.streams = nodes, map[uint64]*stream{}
	for _, id := range nodes {
		if p.streams[id] = former[id]; p.streams[id] == nil {
			p.streams[id] = &stream{}
		}
	}
}

// reset forgets everything: this node isn't the leader any more, or just became it.
func (p *packer) reset() {
	*p = packer{order: p.order, streams: map[uint64]*stream{}, commit: p.commit, spare: p.spare}
	for _, id := range p.order {
		p.streams[id] = &stream{}
	}
}

// receive takes the records of another node's stream. Encoded records in data are the
// packer's from then on. A new stream id replaces what was queued of the former.
func (p *packer) receive(from, id uint64, data []byte) error {
	s := p.streams[from]
	if s == nil || id < s.id {
		return nil
	}
	if id > s.id {
		s.id, s.records = id, nil
	}
	for len(data) > 0 {
		_, rest, err := command.DecodeRecord(data)
		if err != nil {
			return err
		}
		n := len(data) - len(rest)
		s.records = append(s.records, packed{encoded: data[:n:n]})
		data = rest
	}
	return nil
}

// inFlight is how many entries are proposed and not committed.
func (p *packer) inFlight() int {
	n := p.fresh
	for i := len(p.window) - 1; i >= 0 && p.window[i].index > p.commit; i-- {
		n++
	}
	return n
}

// idle says that all that was proposed is applied here.
func (p *packer) idle() bool { return len(p.window) == 0 && p.fresh == 0 && p.held == nil }

// nextIndex is the index of the entry that is proposed next, unless raft has entries of its own in between. applied is this
// replica's applied index.
func (p *packer) nextIndex(applied uint64) uint64 {
	if n := len(p.window); n > 0 {
		applied = p.window[n-1].index
	}
	if p.held != nil {
		applied++
	}
	return applied + uint64(p.fresh) + 1
}

// waiting is about how many bytes the next entry will have, at most about limit; 0 where
// nothing waits.
func (p *packer) waiting(limit int) int {
	size := 64 * len(p.system)
	for _, id := range p.order {
		s := p.streams[id]
		for i := 0; i < len(s.records) && size < limit; i++ {
			size += s.records[i].size() + 16
		}
	}
	return size
}

// next packs an entry of at most about limit bytes from what waits.
func (p *packer) next(limit int, header command.EntryHeader) []byte {
	buffer := p.spare[:0]
	p.spare = nil
	if size := p.waiting(limit) + 32; cap(buffer) < size {
		buffer = make([]byte, 0, size)
	}
	entry := command.AppendEntry(buffer, header)
	count := 0
	for _, c := range p.system {
		entry = command.AppendRecord(entry, command.Record{Body: command.Append(nil, c)})
		count++
	}
	p.system = p.system[:0]
	// One record of each node in turn, while any is left that fits.
	for empty := 0; empty < len(p.order); {
		s := p.streams[p.order[p.turn%len(p.order)]]
		p.turn++
		if len(s.records) == 0 || count > 0 && len(entry)+s.records[0].size() > limit {
			empty++
			continue
		}
		empty = 0
		r := &s.records[0]
		if r.encoded != nil {
			entry = append(entry, r.encoded...)
		} else {
			entry = command.AppendRecord(entry, r.record)
		}
		*r = packed{}
		s.records = s.records[1:]
		count++
	}
	return entry
}

// pack proposes what waits, as far as the window allows.
func (c *core) pack() {
	p := c.packer
	for c.leads() && !c.transferring() && p.inFlight() < c.limits.EntriesInFlight && p.bytes < c.limits.ApplyBehindBytes {
		entry := p.held
		if entry == nil {
			if p.waiting(c.limits.EntryBytes) == 0 {
				return
			}
			entry = p.next(c.limits.EntryBytes, c.clock.stamp(c.now, c.civil))
		}
		if c.dropEntry != nil && c.dropEntry(entry) {
			continue
		}
		if err := c.node.Propose(entry); err != nil {
			// A proposal can be refused alone [1.1]; what it holds must not be overtaken.
			p.held = entry
			return
		}
		p.held, p.spare = nil, entry
		p.fresh++
	}
}

// appended notes entries that raft has taken into this leader's log.
func (p *packer) appended(index uint64, bytes int) {
	p.window = append(p.window, proposal{index, bytes})
	p.bytes += bytes
}

// applied removes what this replica has applied from the window.
func (p *packer) applied(index uint64) {
	n := 0
	for n < len(p.window) && p.window[n].index <= index {
		p.bytes -= p.window[n].bytes
		n++
	}
	p.window = p.window[n:]
}
