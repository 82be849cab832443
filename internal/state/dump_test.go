package state

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/oncemq/oncemq/internal/command"
)

// dump writes everything that decides what a machine does next, in one order, so that
// two machines can be compared.
func (m *Machine) dump() string {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p("clock %+v %d turn %d %+v digest %x", m.civil, m.running, m.handTurn, m.counters, m.digest)
	p("cluster %x %d %v last node %d", m.cluster, m.history, m.founded, m.lastNode)
	p("configuration %+v", m.configuration)
	for _, id := range sortedKeys(m.members) {
		x := m.members[id]
		p("member %d %q leaving %v added %d %+v key %x token %x", id, x.name, x.leaving, x.added, x.addresses, x.key, x.token)
	}
	for _, hash := range sortedKeys(m.tokens) {
		t := m.tokens[hash]
		p("token %x expires %d replace %d used %v", hash, t.expires, t.replace, t.used)
	}
	p("level %+v skips %v next %+v", m.level, m.skips, m.next)
	for _, id := range sortedKeys(m.nodes) {
		n := m.nodes[id]
		p("node %d epoch %d last %d nonce %x level %d reports %v disk %s memory %d parts %d %x", id, n.epoch, n.last, n.nonce, n.level,
			n.reports, n.disk, n.memory, n.parts.command, n.parts.data)
	}
	p("room %+v kept %d parts %d", m.RoomInfo(), m.kept, m.partBytes)
	p("seed %x %v", m.userSeed, m.guarded)
	for _, name := range sortedKeys(m.users) {
		u := m.users[name]
		p("user %q %x changed %d", u.name, command.AppendScramKeys(nil, &u.keys), u.changed)
	}
	for _, id := range sortedKeys(m.conns) {
		c := m.conns[id]
		p("conn %x node %d %d local %d %v nonce %x attempt %d sole %v", id, c.node, c.epoch, c.local, c.client.key, c.nonce, c.attempt, c.sole)
		for _, n := range sortedKeys(c.links) {
			p("  link %d %x", n, c.links[n].id)
		}
		for _, n := range sortedKeys(c.senders) {
			var stream uint64
			var to command.Incarnation
			if x := c.senders[n]; x.stream != nil {
				stream = x.stream.id
			}
			if x := c.senders[n]; x.address != nil {
				to = x.address.inc
			}
			p("  sender %d stream %x to %x", n, stream, to)
		}
		for _, s := range c.sessions {
			p("  session %s", s.id)
		}
		for _, n := range sortedKeys(c.attached) {
			p("  attached %d %x to %x", n, c.attached[n].id, c.attached[n].window.id)
		}
		for _, a := range c.temporary {
			p("  temporary %x", a.inc)
		}
	}
	m.dumpWindows(p)
	m.dumpSessions(p)
	m.dumpQueues(p)
	p("grace %d retain %d", m.grace.next(), m.retain.next())
	for _, l := range m.ending {
		p("ending %x", l.id)
	}
	for _, s := range m.working {
		p("working %x", s.id)
	}
	touched := slices.Clone(m.touched)
	slices.SortFunc(touched, func(a, b *subscription) int { return compare(a.id, b.id) })
	for _, s := range touched {
		p("touched %x", s.id)
	}
	return b.String()
}

func (m *Machine) dumpWindows(p func(string, ...any)) {
	for _, id := range sortedKeys(m.windows) {
		w := m.windows[id]
		p("window %x %v %+v until %d next %d ids %x named %v", id, w.client.key, w.key, w.until, w.next, w.ids, w.client.windows[w.key] == w)
		for _, a := range w.attached {
			p("  attached %x to %x number %d", a.id, a.conn.id, a.number)
		}
	}
	for _, user := range sortedKeys(m.lostOf) {
		of := m.lostOf[user]
		p("lost of %s %d, first %x", user, len(of.heap), of.heap[0].id)
	}
	p("lost %d next %d", len(m.lost.heap), m.lost.next())
}

func (m *Machine) dumpSessions(p func(string, ...any)) {
	var clients []string
	for k, c := range m.clients {
		line := fmt.Sprintf("client %v sessions %d conns", k, len(c.sessions))
		for _, x := range c.conns {
			line += fmt.Sprintf(" %x", x.id)
		}
		for _, s := range c.grace {
			line += " grace " + s.id.String()
		}
		clients = append(clients, line)
	}
	slices.Sort(clients)
	p("%s", strings.Join(clients, "\n"))
	for _, user := range sortedKeys(m.ofUser) {
		p("user %s sessions %d", user, m.ofUser[user])
	}
	all := make([]*session, 0)
	for _, s := range m.sessions {
		all = append(all, s)
	}
	for _, s := range m.former {
		if !s.gone {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, compareSessions)
	for _, s := range all {
		conn := "none"
		if s.conn != nil {
			conn = fmt.Sprintf("%x", s.conn.id)
		}
		p("session %s former %v %s conn %s rollback %v token %v ended %v grace %d retain %d through %d unknown %v last %d", s.id, s.former, s.principal,
			conn, s.rollback, s.token, s.ended, s.graceUntil, s.retainUntil, s.through, s.unknown, s.last)
		for _, r := range s.outcomes {
			p("  outcome %d %v %q %d", r.number, r.outcome, s.reasonOf(r), r.civil)
		}
		for _, name := range sortedKeys(s.links) {
			p("  link %q %x", name, s.links[name].id)
		}
		for _, name := range sortedKeys(s.streams) {
			st := s.streams[name]
			p("  stream %q %x last %d", name, st.id, st.last)
			for _, r := range st.refused {
				p("    refused %d %+v", r.number, *r.refusal)
			}
		}
		for _, name := range sortedKeys(s.results) {
			r := s.results[name]
			var lines []string
			for k, v := range r.states {
				lines = append(lines, fmt.Sprintf("    %x %08d %d: %d", k.inc, k.message, k.attempt, v))
			}
			slices.Sort(lines)
			p("  results %q %x\n%s", name, r.id, strings.Join(lines, "\n"))
		}
	}
}

// numbers are all that an address has given, lane by lane.
func numbers(a *address) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for _, next := range a.lanes {
			for seq := firstOf(next); seq < next; seq++ {
				if !yield(seq) {
					return
				}
			}
		}
	}
}

func (m *Machine) dumpQueues(p func(string, ...any)) {
	for _, inc := range sortedKeys(m.byInc) {
		q := m.byInc[inc]
		if q.topic {
			m.dumpTopic(p, q)
			continue
		}
		s := q.queue
		p("queue %x %q next %x depth %d bytes %d dying %v dead %v named %v", inc, q.name, q.lanes, q.depth, q.bytes, q.dying, q.dead, m.byName[q.name] == q)
		p("  lanes %x turn %x gen %d inflight %d delayed %d returning %d", s.lanes, s.turn, s.purgeGen, s.inFlight, s.delayed, s.returning)
		if t := q.temporary; t != nil {
			p("  temporary of %x by %d", t.owner.id, t.maker)
			for _, x := range t.senders {
				p("  from %x %d", x.conn.id, x.number)
			}
		}
		if q.dying {
			s = &subscription{}
		}
		p("  returned %v picky %v doomed %v", m.trueReturned(s), s.picky, m.doomedNumbers(s))
		for _, l := range s.links {
			p("  living %x", l.id)
		}
		for _, l := range s.ready {
			p("  ready %x", l.id)
		}
		if q.dying {
			continue
		}
		for seq := range numbers(q) {
			if mi := m.find(q, seq); mi != 0 {
				m.dumpMessage(p, mi)
			}
		}
	}
	for _, id := range sortedKeys(m.linkByID) {
		l := m.linkByID[id]
		conn, session := "none", "none"
		if l.conn != nil {
			conn = fmt.Sprintf("%x", l.conn.id)
		}
		if l.session != nil {
			session = l.session.id.String()
		}
		p("link %x sub %x conn %s number %d session %s name %q presettled %v ended %v lost %d ending %d charged %v allow %d %d handed %d told %d held %d",
			id, l.sub.id, conn, l.number, session, l.name, l.presettled, l.ended, l.lost, l.ending, l.charged, l.messages, l.bytes, l.handed, l.told, l.held)
		if f := l.filter; f != nil {
			p("  selector %x scan %d matched %v", f.encoded, f.scan, m.trueMatched(l))
		}
		for di := l.first; di != 0; di = m.deliveries.at(di).next {
			p("  holds %d", m.messages.at(m.deliveries.at(di).message).seq)
		}
	}
}

func (m *Machine) dumpMessage(p func(string, ...any), mi uint32) {
	c := m.messages.at(mi)
	p("  message %d expires %d due %d size %d flags %x overlay %x moved %v", c.seq, m.expiresAt(mi), m.due(mi), c.size&sizeMask, c.size&^sizeMask, m.overlays[mi], m.moved[mi])
	if c.delivery != 0 && !m.addresses[c.address].topic {
		m.dumpDelivery(p, c.delivery)
	}
}

func (m *Machine) dumpDelivery(p func(string, ...any), di uint32) {
	d := m.deliveries.at(di)
	var link uint64
	if d.link != 0 {
		link = m.links[d.link].id
	}
	p("    delivery link %x order %d told %d attempt %d count %d failures %d gen %d flags %d excluded %v", link, d.order, d.told, d.attempt, d.count,
		d.failures, d.gen, d.flags&(deliverySeen|deliverySkipped|deliveryDelayed), m.excluded[di])
}

func sorted(h seqHeap) []uint64 {
	all := slices.Clone([]uint64(h))
	slices.Sort(all)
	return all
}

// trueReturned are those of returned that are no old entries, ascending.
func (m *Machine) trueReturned(s *subscription) []uint64 {
	return slices.Compact(slices.DeleteFunc(sorted(s.returned), func(seq uint64) bool { return !m.returns(s, seq) }))
}

func (m *Machine) trueMatched(l *link) []uint64 {
	return slices.Compact(slices.DeleteFunc(sorted(l.filter.matched), func(seq uint64) bool {
		mi := m.find(l.sub.address, seq)
		return mi == 0 || m.deliveryOf(l.sub, mi) == 0 || !m.waits(l.sub, seq, mi) || !m.fits(l.sub, l, mi)
	}))
}

func (m *Machine) doomedNumbers(s *subscription) (all [][]uint64) {
	for _, x := range s.doomed {
		numbers := slices.Compact(slices.DeleteFunc(sorted(x.numbers), func(seq uint64) bool {
			mi := m.find(s.address, seq)
			if mi == 0 || m.deliveryOf(s, mi) == 0 {
				return true
			}
			d := m.deliveries.at(m.deliveryOf(s, mi))
			return d.link != 0 || d.gen != x.gen || d.flags&deliveryDelayed != 0
		}))
		all = append(all, append([]uint64{uint64(x.gen)}, numbers...))
	}
	return all
}

// verify checks the machine's own invariants: each message in exactly one place, lists
// and heaps consistent, counts right.
func (m *Machine) verify() error {
	total := 0
	for _, inc := range sortedKeys(m.byInc) {
		q := m.byInc[inc]
		if m.addresses[q.slot] != q {
			return fmt.Errorf("queue %x isn't in its slot", inc)
		}
		verify := m.verifyQueue
		if q.topic {
			verify = m.verifyTopic
		}
		n, err := verify(q)
		if err != nil {
			return fmt.Errorf("queue %x %q: %w", inc, q.name, err)
		}
		total += n
	}
	if live := m.messages.live(); live != total {
		return fmt.Errorf("%d messages in the slab, %d in queues", live, total)
	}
	if err := m.verifyKept(); err != nil {
		return err
	}
	used := 0
	for i := range m.overlays {
		if m.messages.at(i).size&flagOverlay == 0 {
			return fmt.Errorf("overlay of message %d without its flag", i)
		}
	}
	for _, b := range m.chunks.blocks {
		for i := 0; b != nil && i < slabSize; i++ {
			used += int(b.values[i].used)
		}
	}
	apart := make(map[bodyChunk]uint32)
	for _, from := range m.moved {
		apart[bodyChunk{from.inc, from.seq >> chunkBits}]++
	}
	if !maps.Equal(apart, m.apart) {
		return fmt.Errorf("bodies of dead letters elsewhere by chunk: %v, counted %v", apart, m.apart)
	}
	holders := make(map[origin]uint32)
	for _, from := range m.moved {
		holders[from]++
	}
	if !maps.Equal(holders, m.holders) {
		return fmt.Errorf("dead letters by their bodies: %v, counted %v", holders, m.holders)
	}
	if used != total {
		return fmt.Errorf("%d messages in chunks, %d in queues", used, total)
	}
	if err := m.verifyExpiries(); err != nil {
		return err
	}
	for _, id := range sortedKeys(m.linkByID) {
		l := m.linkByID[id]
		if m.links[l.slot] != l || l.gone {
			return fmt.Errorf("link %x isn't in its slot", id)
		}
		if l.conn != nil && l.conn.links[l.number] != l {
			return fmt.Errorf("link %x isn't its connection's number %d", id, l.number)
		}
		if l.ready() != slices.Contains(l.sub.ready, l) {
			return fmt.Errorf("link %x: ready is %v", id, l.ready())
		}
		if living := !l.ended && l.ending == 0; living != slices.Contains(l.sub.links, l) {
			return fmt.Errorf("link %x: living is %v", id, living)
		}
		if l.conn == nil && l.ending == 0 && (l.session == nil || l.session.links[l.name] != l) {
			return fmt.Errorf("link %x: nobody can reach it", id)
		}
	}
	for _, w := range m.windows {
		if err := m.verifyWindow(w); err != nil {
			return fmt.Errorf("window %x: %w", w.id, err)
		}
	}
	for _, s := range m.sessions {
		if s.conn == nil != (s.retainUntil != 0) {
			return fmt.Errorf("session %s: connection %v, retained until %d", s.id, s.conn != nil, s.retainUntil)
		}
		for name, l := range s.links {
			if m.linkByID[l.id] != l || l.session != s || l.name != name {
				return fmt.Errorf("session %s: link %q is somebody else's", s.id, name)
			}
		}
	}
	return nil
}

// verifyKept counts anew what Machine.kept and partBytes are kept up to date for.
func (m *Machine) verifyKept() error {
	var kept, parts uint64
	for _, overlay := range m.overlays {
		kept += overlayCost + uint64(len(overlay))
	}
	for _, r := range m.results {
		kept += resultCost * uint64(len(r.states))
	}
	for _, s := range slices.Concat(sortedSessions(m.sessions), m.former) {
		for i := range s.outcomes {
			kept += s.outcomeBytes(&s.outcomes[i])
		}
	}
	for _, w := range m.windows {
		kept += storedIDCost * uint64(len(w.ids))
	}
	for _, st := range m.streams {
		kept += refusalCost * uint64(len(st.refused))
	}
	for _, n := range m.nodes {
		parts += uint64(len(n.parts.data))
	}
	if kept != m.kept || parts != m.partBytes {
		return fmt.Errorf("%d bytes are kept, %d counted; %d of parts, %d counted", kept, m.kept, parts, m.partBytes)
	}
	return nil
}

func (m *Machine) verifyWindow(w *window) error {
	lost := len(w.attached) == 0
	if lost != (w.until != 0) || lost != (w.timer[0] != 0) || lost != (w.timer[1] != 0) || lost && len(w.ids) == 0 {
		return fmt.Errorf("%d attachments, %d ids, until %d, places %v", len(w.attached), len(w.ids), w.until, w.timer)
	}
	if m.clients[w.client.key] != w.client || w.client.windows[w.key] != w || w.gone || w.fresh != 0 || w.listed {
		return fmt.Errorf("nobody finds it: %+v", *w)
	}
	for _, a := range w.attached {
		if m.conns[a.conn.id] != a.conn || a.conn.attached[a.number] != a || a.conn.client != w.client {
			return fmt.Errorf("its attachment %x is somebody else's", a.id)
		}
	}
	if w.onDisk != 1<<len(w.ids)-1 || uint64(len(w.ids)) != min(w.next, windowSize) {
		return fmt.Errorf("%d ids of %d, on disk %b", len(w.ids), w.next, w.onDisk)
	}
	return nil
}

// verifyQueue returns how many messages q has.
func (m *Machine) verifyQueue(q *address) (total int, err error) {
	s := q.queue
	places := make(map[uint64]int)
	back := m.trueReturned(s)
	for _, seq := range back {
		places[seq]++
	}
	if len(back) != s.count && !q.dying {
		return 0, fmt.Errorf("%d came back, it says %d", len(back), s.count)
	}
	for _, x := range s.picky {
		places[x.seq]++
		if e := m.excluded[m.messages.at(m.find(q, x.seq)).delivery]; e != x.wish || e.n == 0 {
			return 0, fmt.Errorf("message %d excludes %v, its place says %v", x.seq, e, x.wish)
		}
	}
	for _, x := range m.doomedNumbers(s) {
		if len(x) == 1 {
			return 0, fmt.Errorf("nothing is left of a purge (%d), whose heap is there", x[0])
		}
		for _, seq := range x[1:] {
			places[seq]++
		}
	}
	taken := make([]uint64, len(q.lanes))
	var inFlight, bytes, held, delayed uint64
	for seq := range numbers(q) {
		at := q.laneAt(seq)
		ln := &s.lanes[at]
		mi := m.find(q, seq)
		if mi == 0 {
			if places[seq] != 0 {
				return 0, fmt.Errorf("message %d waits and isn't there", seq)
			}
			if seq >= ln.cursor {
				taken[at]++
			}
			continue
		}
		total++
		p := m.messages.at(mi)
		bytes += uint64(p.size & sizeMask)
		if p.fresh != 0 || p.seq != seq || p.address != q.slot {
			return 0, fmt.Errorf("message %d: %+v", seq, *p)
		}
		if q.dying {
			continue
		}
		if p.delivery == 0 {
			inPurge := seq >= ln.from && seq < ln.to
			if seq < ln.cursor && !inPurge {
				return 0, fmt.Errorf("message %d before the cursor is in no place", seq)
			}
			continue
		}
		d := m.deliveries.at(p.delivery)
		if d.message != mi || d.flags&(deliveryGone|deliveryDirty|deliveryMarked) != 0 {
			return 0, fmt.Errorf("message %d: delivery %+v", seq, *d)
		}
		if seq >= ln.cursor {
			taken[at]++
		}
		if d.link != 0 {
			places[seq]++
			inFlight++
		}
		if d.flags&deliveryDelayed != 0 {
			places[seq]++
			if d.gen == s.purgeGen {
				delayed++
			}
		}
		if places[seq] != 1 {
			return 0, fmt.Errorf("message %d is in %d places", seq, places[seq])
		}
	}
	if uint64(total) != q.depth || bytes != q.bytes {
		return 0, fmt.Errorf("%d messages of %d bytes, depth says %d of %d", total, bytes, q.depth, q.bytes)
	}
	if q.dying {
		return total, nil
	}
	for at, n := range taken {
		if n != s.lanes[at].taken {
			return 0, fmt.Errorf("lane %d: %d numbers behind the cursor don't wait there, it says %d", at, n, s.lanes[at].taken)
		}
	}
	for _, l := range m.links {
		if l == nil || l.sub != s {
			continue
		}
		n := uint32(0)
		for di, before := l.first, uint32(0); di != 0; di, before = m.deliveries.at(di).next, di {
			d := m.deliveries.at(di)
			if d.prev != before || d.link != l.slot {
				return 0, fmt.Errorf("link %x: its list is broken", l.id)
			}
			n++
		}
		if n != l.held {
			return 0, fmt.Errorf("link %x holds %d, says %d", l.id, n, l.held)
		}
		held += uint64(n)
	}
	if delayed != s.delayed {
		return 0, fmt.Errorf("%d are delayed, it says %d", delayed, s.delayed)
	}
	if inFlight != s.inFlight || held != inFlight {
		return 0, fmt.Errorf("%d in flight, %d held, it says %d", inFlight, held, s.inFlight)
	}
	return total, nil
}
