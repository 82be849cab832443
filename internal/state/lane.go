package state

import (
	"cmp"
	"slices"
)

// A lane holds an address's messages of one priority (AMQP 1.0 3.2.1; JMS: 0 to 9, 4 where none is said). The upper bits of a message's
// number are its lane's code, so that numbers of one lane rise, and what a number says never changes. Lanes are handed out
// strictly by priority; the usual one has the code 0, and so the numbers that one has where nobody sets priorities.
const (
	laneBits      = 60
	laneMask      = 1<<laneBits - 1
	usualPriority = 4
	topPriority   = 9
)

// laneCode is the code of a priority's lane: 4 has 0, 3 has 1, 0 has 4; 9 has 11, 5 has 15.
func laneCode(priority uint8) uint64 {
	return uint64(usualPriority-int(min(priority, topPriority))) & 15
}

// priorityOf is the priority of the lane that a number belongs to.
func priorityOf(seq uint64) uint8 { return uint8(usualPriority-seq>>laneBits) & 15 }

// firstOf is the first number of the lane that a number belongs to.
func firstOf(seq uint64) uint64 { return seq>>laneBits<<laneBits | 1 }

// order is a message's place among all those of its address: what is handed out first has the lowest.
func order(seq uint64) uint64 { return seq + (topPriority-usualPriority)<<laneBits }

// byOrder compares numbers by their order.
func byOrder(a, b uint64) int { return cmp.Compare(order(a), order(b)) }

// compareLanes compares numbers by the order of their lanes alone.
func compareLanes(a, b uint64) int { return cmp.Compare(order(a)>>laneBits, order(b)>>laneBits) }

// lane is what a subscription knows of a lane.
type lane struct {
	cursor uint64 // number of the first message never handed out
	taken  uint64 // how many numbers from the cursor on have no message that waits there
	// from and to are the range that a purge has still to look through: messages in it without a delivery go.
	from, to uint64
}

// laneAt is the index of a number's lane in a's list.
func (a *address) laneAt(seq uint64) int {
	for i, next := range a.lanes {
		if next>>laneBits == seq>>laneBits {
			return i
		}
	}
	panic("state: a message of a lane that isn't there")
}

// lane is s's lane of a number.
func (s *subscription) lane(seq uint64) *lane { return &s.lanes[s.address.laneAt(seq)] }

// laneOf is the index of the lane of a priority, made if it isn't there.
func (m *Machine) laneOf(a *address, priority uint8) int {
	if priority == usualPriority && len(a.lanes) == 1 {
		return 0
	}
	first := firstOf(laneCode(priority) << laneBits)
	at, found := slices.BinarySearchFunc(a.lanes, first, compareLanes)
	if !found {
		a.lanes = slices.Insert(a.lanes, at, first)
		m.enterLane(a.queue, at, first)
		for _, s := range a.subs {
			m.enterLane(s, at, first)
			m.markPosition(s)
		}
	}
	return at
}

// enterLane makes a subscription know of a new lane.
func (m *Machine) enterLane(s *subscription, at int, first uint64) {
	s.lanes = slices.Insert(s.lanes, at, lane{cursor: first})
	m.steps++
	for _, l := range s.filtered {
		l.filter.scan = slices.Insert(l.filter.scan, at, first)
		m.markAllowance(l)
	}
}

// fresh counts the messages that wait from the cursors on.
func (s *subscription) fresh() (n uint64) {
	for i := range s.lanes {
		n += s.freshIn(i)
	}
	return n
}

// freshIn is fresh for one lane.
func (s *subscription) freshIn(i int) uint64 {
	return s.address.lanes[i] - s.lanes[i].cursor - s.lanes[i].taken
}

// purging says that a range of numbers is still to be looked through.
func (s *subscription) purging() bool {
	return s.slot == 0 && slices.ContainsFunc(s.lanes, func(ln lane) bool { return ln.from < ln.to })
}
