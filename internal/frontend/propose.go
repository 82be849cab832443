package frontend

import (
	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/engine"
)

// commands holds one value of each frequent command, so that gathering one allocates nothing.
type commands struct {
	send     command.Send
	settle   command.Settle
	allow    command.Allow
	withdraw command.Withdraw
	commit   command.Commit
	rollback command.Rollback
	refs     []command.DeliveryRef
}

// gather adds a command to the next record. A record that would grow above command.MaxPlain goes first, so that only a
// command that is large by itself travels in parts [5.2].
func (c *Conn) gather(cmd command.Command) {
	if c.ended {
		return
	}
	start := len(c.batch)
	if c.batch == nil {
		c.batch = c.node.buffer()
	}
	c.batch = command.Append(c.batch, cmd)
	if start == 0 || len(c.batch) <= command.MaxPlain {
		return
	}
	rest := append(c.node.buffer(), c.batch[start:]...)
	c.batch = c.batch[:start]
	c.propose()
	c.batch = rest
}

// propose hands the gathered commands to the log.
func (c *Conn) propose() {
	if len(c.batch) == 0 {
		return
	}
	body := c.batch
	c.batch = nil
	if len(body) <= command.MaxPlain {
		// The buffer has grown with many records and goes on; the log keeps no more than it must.
		buffer := body
		body = append(make([]byte, 0, len(buffer)), buffer...)
		c.node.reuse(buffer)
	}
	c.proposed++
	if !c.log.Propose(body) && !c.ended {
		c.ended = true // the epoch's end has ended the connection
		c.force("this node has lost its place in the cluster: connect to another node", 0)
	}
}

// answerKind says what an answer is for.
type answerKind uint8

const (
	answerNone answerKind = iota
	answerSession
	answerLink
	answerSender
	answerSend
	answerSettle
	answerFence
	answerQueue
	answerWithdraw
	answerCommit
	answerRollback
	answerDeclare
	answerQuestion
	answerReply
)

// answer is what a request's effect is for.
type answer struct {
	kind     answerKind
	used     bool
	turn     uint32 // tells uses of the slot apart
	size     int    // bytes of the message, for send
	drain    uint32 // the drain's turn, for fence
	session  *session
	producer *producer
	consumer *consumer
	tx       *tx
	question *question
	delivery *engine.Delivery
	outs     []*out
	tag      []byte      // of a settled send on the anonymous relay
	err      *amqp.Error // of a numbered send that this home refuses
}

// answers are the requests that are not answered yet. A request is a slot and the slot's turn, so that finding it costs no
// hashing, and a stray effect finds nothing.
type answers struct {
	slots []answer
	free  []uint32
}

// expect reserves the place of an effect [4.8] and gives its request, which is never 0.
func (c *Conn) expect(a answer) uint64 {
	s := &c.answers
	var i uint32
	if n := len(s.free); n > 0 {
		i = s.free[n-1]
		s.free = s.free[:n-1]
	} else {
		i = uint32(len(s.slots))
		s.slots = append(s.slots, answer{})
	}
	slot := &s.slots[i]
	a.turn, a.used = slot.turn+1, true
	*slot = a
	c.awaited()
	return uint64(a.turn)<<32 | uint64(i)
}

// awaited counts one more answer that the client waits for.
func (c *Conn) awaited() {
	if c.due == 0 && c.ours {
		c.pinged = c.now
		c.wakeBy(c.now.Add(pingTime))
	}
	c.due++
}

// take frees the place of a request and gives what it was for; false for a request that isn't open or of another kind.
func (c *Conn) take(request uint64, kinds ...answerKind) (answer, bool) {
	i, turn := uint32(request), uint32(request>>32)
	s := &c.answers
	if uint64(i) >= uint64(len(s.slots)) {
		return answer{}, false
	}
	slot := &s.slots[i]
	if !slot.used || slot.turn != turn {
		return answer{}, false
	}
	for _, k := range kinds {
		if slot.kind == k {
			a := *slot
			*slot = answer{turn: turn}
			s.free = append(s.free, i)
			c.due--
			return a, true
		}
	}
	return answer{}, false
}
