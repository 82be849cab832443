package sim

import (
	"errors"
	"slices"
	"time"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/replica"
	"github.com/oncemq/oncemq/internal/state"
)

// Times of an operator.
const (
	orderTimeout = 2 * time.Second // of a request to one node
	awaitBound   = 6 * time.Second // of a look at what came of one
)

// operator changes who the members of the cluster are, and moves leadership and clients about, while everything else goes on: one thing
// after the other, through any node, and what isn't answered is asked again.
type operator struct {
	w     *world
	steps []func() // to come
	going bool     // one of them is
	most  int      // nodes that there may be
	joins int      // tokens made so far
	// joined and left are who was told to have become a member, or to be going.
	joined, left []command.NodeID
	turn         int // of the requests: an answer to another is late
}

// startOperator draws what the operator will do. The world's nodes are the founders.
func (w *world) startOperator() {
	o := &operator{w: w, most: len(w.nodes)}
	w.operator = o
	if len(w.nodes) == 1 {
		o.grow()
		if w.chance(50) {
			o.replace(w.chance(50))
		}
		o.extras()
		o.begin()
		return
	}
	switch w.rng.IntN(5) {
	case 0:
		for range 1 + w.rng.IntN(3) {
			o.replace(true)
		}
	case 1:
		o.lose()
		o.replace(true)
	case 2:
		o.join(nil)
		o.steps = append(o.steps, func() { o.remove(o.pick(w.chance(50))) })
	case 3:
		o.join(nil)
		o.join(nil)
		o.steps = append(o.steps, func() { o.remove(o.pick(w.chance(50))) })
		o.replace(w.chance(50))
	case 4:
		o.shrink()
		o.grow()
	}
	o.extras()
	o.begin()
}

// begin begins after a while.
func (o *operator) begin() {
	o.going = true
	o.w.after(o.w.between(0, time.Second), o.next)
}

// next goes on to the next step, mostly with something else in between.
func (o *operator) next() {
	w := o.w
	o.going = false
	if w.winding || len(o.steps) == 0 {
		o.steps = nil
		return
	}
	o.going = true
	if w.chance(40) {
		o.move()
	}
	step := o.steps[0]
	o.steps = o.steps[1:]
	w.after(w.between(0, 500*time.Millisecond), step)
}

// done ends a step, and waits before the next, mostly until what was asked for has come about.
func (o *operator) done() {
	w := o.w
	if w.chance(40) {
		w.after(w.between(0, time.Second), o.next)
		return
	}
	until := w.now + awaitBound
	var look func()
	look = func() {
		if w.now >= until || w.winding || w.unsettled() == "" {
			o.next()
			return
		}
		w.after(50*time.Millisecond, look)
	}
	look()
}

// over says that nothing is under way.
func (o *operator) over() bool { return !o.going }

// ask has any node carry out a command, again until there is an answer.
func (o *operator) ask(cmd func() command.Command, then func(e command.Effect)) {
	w := o.w
	o.turn++
	turn := o.turn
	again := func() {
		if o.turn == turn {
			w.after(w.between(50*time.Millisecond, 300*time.Millisecond), func() {
				if o.turn == turn {
					o.ask(cmd, then)
				}
			})
		}
	}
	n := w.nodes[w.rng.IntN(len(w.nodes))]
	if !n.up || n.paused || n.epoch == 0 || w.cutOff[n.id] {
		again()
		return
	}
	answered := false
	err := n.step.Request(cmd(), func(e command.Effect, err error) {
		w.after(w.between(w.knobs.clientDelay[0], w.knobs.clientDelay[1]), func() {
			switch {
			case o.turn != turn || answered:
			case err != nil:
				again()
			default:
				answered = true
				o.turn++
				then(e)
			}
		})
	})
	n.kick()
	if err != nil {
		if !errors.Is(err, replica.ErrNoEpoch) {
			w.fail("K14", "n%d refuses an operator's request: %v", n.id, err)
		}
		again()
		return
	}
	w.after(orderTimeout, func() {
		if o.turn == turn {
			w.count("operator without an answer")
			again()
		}
	})
}

// join plans that a new node comes, in the place of the one that old gives, 0 or nil for nobody's.
func (o *operator) join(old func() command.NodeID) {
	o.most++
	o.steps = append(o.steps, func() {
		var replace command.NodeID
		if old != nil {
			replace = old()
		}
		o.letIn(replace)
	})
}

// letIn makes a token and lets a node join by it.
func (o *operator) letIn(replace command.NodeID) {
	w := o.w
	o.joins++
	token := [32]byte{1, byte(o.joins)}
	if replace == 0 {
		w.say("the operator lets a node join")
	} else {
		w.say("the operator lets a node join in the place of n%d", replace)
	}
	put := func() command.Command { return &command.TokenPut{Hash: token, Expires: 1 << 50, Replace: replace} }
	o.ask(put, func(e command.Effect) {
		switch {
		case e.Refusal == nil || e.Refusal.Condition == "amqp:precondition-failed": // it is there from a request that wasn't answered
			o.admit(token, replace)
			return
		case e.Refusal.Condition == "amqp:not-found" && w.nodes[replace-1].removed: // the operator looked at a node that was behind
			w.count("token for who was removed")
		default:
			w.fail("K10", "a token is refused: %s", e.Refusal.Description)
		}
		o.done()
	})
}

// admit makes a node a member by its token, and starts it.
func (o *operator) admit(token [32]byte, replace command.NodeID) {
	w := o.w
	add := func() command.Command {
		return &command.MemberAdd{Token: token, Key: token, Addresses: command.Addresses{Peer: "peer"}}
	}
	o.ask(add, func(e command.Effect) {
		switch {
		case e.Refusal != nil && w.timeSet && e.Refusal.Condition == "amqp:unauthorized-access":
			w.count("token ended by the time that was set") // it came late, from a node that stood still
			o.letIn(replace)
			return
		case e.Refusal != nil:
			w.fail("K10", "a node with a token isn't let in: %s", e.Refusal.Description)
		case e.Number != uint64(len(w.nodes))+1:
			w.fail("K8", "a new node gets the id %d, and there were %d", e.Number, len(w.nodes))
		default:
			w.count("node joined")
			n := w.newNode(false)
			w.say("n%d joins", n.id)
			o.joined = append(o.joined, command.NodeID(n.id))
			if replace != 0 {
				w.count("node replaced")
				o.left = append(o.left, replace)
			}
			if w.chance(80) {
				n.start()
			} else { // the others have a member that isn't there yet
				w.after(w.between(0, 2*time.Second), n.start)
			}
		}
		o.done()
	})
}

// grow plans that three nodes become of one.
func (o *operator) grow() {
	o.w.lonely = true
	o.join(nil)
	o.join(nil)
}

// shrink plans that one node stays of three.
func (o *operator) shrink() {
	o.w.lonely = true
	o.steps = append(o.steps, func() {
		stays := o.pick(o.w.chance(30))
		var going []command.NodeID
		for _, x := range o.members() {
			if x != stays {
				going = append(going, x)
			}
		}
		o.remove(going...)
	})
}

// replace plans that a new node takes the place of the leader, or of any.
func (o *operator) replace(any bool) {
	o.join(func() command.NodeID { return o.pick(!any || o.w.chance(40)) })
}

// lose plans that a node's machine dies for good.
func (o *operator) lose() {
	o.steps = append(o.steps, func() {
		w := o.w
		n := w.nodeAt(int(o.pick(w.chance(50))))
		if n == nil || w.doomed != nil || !w.spare(n) || w.lonely {
			o.done()
			return
		}
		w.count("node lost for good")
		w.say("n%d's machine burns down", n.id)
		w.lost = n
		n.crash(true)
		n.gone, n.held = true, false
		o.next()
	})
}

// remove asks for members to go.
func (o *operator) remove(ids ...command.NodeID) {
	w := o.w
	if len(ids) == 0 || ids[0] == 0 { // nobody is up who could be asked
		o.done()
		return
	}
	w.say("the operator removes %v", ids)
	o.ask(func() command.Command { return &command.MemberRemove{Nodes: ids} }, func(e command.Effect) {
		if e.Refusal != nil { // it depends on who votes at that moment
			w.count("removal refused")
			w.say("the removal is refused: %s", e.Refusal.Description)
		} else {
			w.count("members told to go")
			o.left = append(o.left, ids...)
		}
		o.done()
	})
}

// members are those that stay, as the node that knows most has it.
func (o *operator) members() (ids []command.NodeID) {
	if m := o.w.machine(); m != nil {
		for _, x := range m.Members() {
			if !x.Leaving {
				ids = append(ids, x.ID)
			}
		}
	}
	return ids
}

// pick is a member that stays: who was lost for good first, then the leader if it is wanted, or any.
func (o *operator) pick(leader bool) command.NodeID {
	w, ids := o.w, o.members()
	switch {
	case w.lost != nil:
		return command.NodeID(w.lost.id)
	case leader && slices.Contains(ids, command.NodeID(w.leader().id)):
		return command.NodeID(w.leader().id)
	case len(ids) == 0:
		return 0
	}
	return ids[w.rng.IntN(len(ids))]
}

// move moves leadership, or the clients of a node.
func (o *operator) move() {
	w := o.w
	to := o.pick(false)
	switch kind := w.rng.IntN(3); {
	case kind == 0 && to != 0:
		if n := w.nodes[w.rng.IntN(len(w.nodes))]; n.up {
			w.count("transfer of leadership asked for")
			w.say("the operator asks n%d for leadership of n%d", n.id, to)
			n.run(n.life, func() { n.step.Transfer(to); n.kick() })
		}
	case kind == 1:
		if n := w.leader(); n.up {
			w.count("step-down")
			w.say("the operator has n%d step down", n.id)
			n.run(n.life, func() { n.step.Transfer(0); n.kick() })
		}
	case to != 0:
		w.nodes[to-1].drain(w.between(500*time.Millisecond, 4*time.Second))
	}
}

// unkept is what an operator was told and isn't so, "" for nothing.
func (o *operator) unkept(m *state.Machine) string {
	for _, id := range o.left {
		if !m.Removed(id) {
			return "a node that was told to go is still a member"
		}
	}
	for _, id := range o.joined {
		if _, is := m.Member(id); !is && !slices.Contains(o.left, id) {
			return "a node that was let in is no member"
		}
	}
	return ""
}

// drain ends a node's connections over a second, and lets none in for a while; leadership goes too.
func (n *node) drain(lasts time.Duration) {
	if !n.up || n.drained {
		return
	}
	w := n.w
	w.count("node drained")
	w.say("n%d is drained for %v", n.id, lasts)
	n.drained = true
	n.run(n.life, n.handOver)
	for _, c := range slices.Clone(n.order) {
		n.after(w.between(0, time.Second), func() {
			if !c.over {
				c.fe.Stop("this node is drained: connect to another node", n.clock())
				c.turn()
			}
		})
	}
	w.after(lasts, n.revive)
}

// handOver lets a drained node lead no longer than for a second.
func (n *node) handOver() {
	if !n.drained {
		return
	}
	if n.leads {
		n.step.Transfer(0)
		n.kick()
	}
	n.after(time.Second, n.handOver)
}

// revive lets clients in again.
func (n *node) revive() {
	if n.drained {
		n.drained = false
		n.w.say("n%d is open to clients", n.id)
	}
}
