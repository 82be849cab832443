package replica

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/peer"
	"github.com/oncemq/oncemq/internal/state"
)

// StepOptions configures a Stepper. Node, Voters, Cluster, Log, State, Mailbox, Send and Rand
// are required.
type StepOptions struct {
	// Node is this node's raft id.
	Node command.NodeID
	// Voters are the ids of the nodes that the cluster was founded with, ascending: one or three. Who joins later is not among them.
	Voters []command.NodeID
	// Cluster is the cluster's id, the same on all nodes: a Stepper's cluster is founded.
	Cluster [16]byte
	// Log and State are the node's disk. The caller opens and closes them; after a crash it
	// opens them anew for the next Stepper.
	Log   Log
	State State
	// Mailbox receives the effects, within Apply.
	Mailbox Mailbox
	// Send takes a whole frame for node to, which it owns, on one of the two streams to it; in
	// each of them order holds, and what is not lost with the stream arrives as Receive. false:
	// the streams are down or the queue is full; nothing was taken. It is called within Raft
	// and Append and must not call the Stepper.
	Send func(to uint64, urgent bool, frame []byte) bool
	// Rand decides what a node draws: nonces, pauses before a campaign. The Stepper's alone.
	Rand *rand.Rand
	// Stream is where the ids of record streams begin; it must rise over restarts of the node.
	Stream uint64
	// Began is the moment at which the now of Raft is 0; LeaseUntil counts from it.
	Began time.Time
	// Checkpoint makes a checkpoint of State, within Keep; Drop forgets the one that it made. Nil: there are none, and a node
	// that needs one waits.
	Checkpoint func() (Offer, error)
	Drop       func(Offer)
	// Logger takes what the node has to say; nil drops it.
	Logger *slog.Logger
	// Limits are as for a Replica; a Tick is the time of Raft's now.
	Limits Limits
	// SafetyOff is as for a Replica.
	SafetyOff bool
}

// Stepper is a replica that its caller drives, step by step, in one goroutine: for a
// simulator. It has the code of a [Replica] and none of its goroutines, connections, files
// and clocks, and does the same for the same calls. One source of chance is beyond it: raft
// draws election timeouts from crypto/rand.Reader, which the caller has to replace.
//
// A crash is to forget the Stepper; there is nothing to close. Not safe for concurrent use.
type Stepper struct {
	steps
	handler peerHandler
	now     time.Duration
}

// Pending says which steps have something queued.
type Pending struct{ Raft, Append, Apply bool }

// NewStepper checks log and state against each other and loads the machine. Errors: those of
// store.Begin and state.Load, and of missing options.
func NewStepper(o StepOptions) (*Stepper, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	opts := Options{Node: o.Node, Mailbox: o.Mailbox, SafetyOff: o.SafetyOff, Logger: o.Logger, Limits: o.Limits.withDefaults()}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	stamp := peer.Stamp{Cluster: o.Cluster, Node: uint64(o.Node)}
	for _, v := range o.Voters {
		stamp.Voters = append(stamp.Voters, uint64(v))
	}
	s := &Stepper{steps: newSteps(opts, o.Began, drawFrom(o.Rand))}
	s.log, s.state, s.network = o.Log, o.State, frames(o.Send)
	s.handler = peerHandler{s.events, func(e event, _ int) { s.events.put(e) }}
	s.offers.make, s.offers.drop = o.Checkpoint, o.Drop
	if err := s.load(); err != nil {
		return nil, err
	}
	s.starting()
	return s, s.build(stamp, o.Rand, o.Stream)
}

func (o *StepOptions) validate() error {
	switch {
	case o.Log == nil || o.State == nil || o.Mailbox == nil || o.Send == nil || o.Rand == nil || o.Cluster == [16]byte{}:
		return errors.New("oncemq: a stepper needs Cluster, Log, State, Mailbox, Send and Rand")
	case o.Node == 0 || len(o.Voters)%2 == 0 || !slices.IsSorted(o.Voters):
		return fmt.Errorf("oncemq: a stepper of node %d with the founding voters %v; one or three are possible, ascending", o.Node, o.Voters)
	}
	return nil
}

// drawFrom fills bytes from a source that can be repeated.
func drawFrom(rng *rand.Rand) func([]byte) {
	return func(b []byte) {
		var word [8]byte
		for len(b) > 0 {
			binary.LittleEndian.PutUint64(word[:], rng.Uint64())
			b = b[copy(b, word[:]):]
		}
	}
}

// frames is a Network of whole frames.
type frames func(to uint64, urgent bool, frame []byte) bool

// SendRaft implements Network.
func (f frames) SendRaft(to uint64, urgent bool, p peer.Payload) bool {
	return f(to, urgent, peer.AppendRaft(make([]byte, 0, p.Size()), p))
}

// SendRecords implements Network.
func (f frames) SendRecords(to uint64, r peer.Records) bool {
	return f(to, false, peer.AppendRecords(make([]byte, 0, len(r.Data)+32), r))
}

// SendNote implements Network.
func (f frames) SendNote(to uint64, n peer.Note) bool {
	return f(to, true, peer.AppendNote(make([]byte, 0, 64), n))
}

// SetMembers implements Network: who carries the frames finds everybody by himself.
func (f frames) SetMembers(peer.Members) {}

// Raft does a raft step with everything that is queued for it, at monotonic moment now (since
// Began; it never goes back) and civil time in ms since 1970. Call it again at wake, and as
// soon as Pending says so. What it wants to be written, applied and sent is queued or handed
// to Send.
func (s *Stepper) Raft(now time.Duration, civil int64) (wake time.Duration) {
	s.events.calm()
	s.now = max(s.now, now)
	return s.raft(s.now, civil)
}

// Append writes and syncs what is queued, with one sync, and passes on the answers that were
// waiting for that: to raft (another Raft step is due) and to other nodes. An error is final:
// the node has to crash.
func (s *Stepper) Append() error {
	s.appends.calm()
	before := s.room.full.Load()
	_, err := s.append()
	switch full := s.room.full.Load(); {
	case full && !before:
		s.roomFound(command.RoomFull)
	case before && !full:
		s.roomFound(command.RoomOK)
	}
	return err
}

// Full reports that an Append waits for room on the disk (store.ErrFull): call it again in a while, Pending or not.
func (s *Stepper) Full() bool { return s.room.full.Load() }

// Apply applies what is queued and delivers the effects. An error is final: the node has to
// crash.
func (s *Stepper) Apply() error {
	s.applies.calm()
	return s.apply()
}

// Keep has the log cut, by the next Append, flushes a state that keeps it from being cut, and makes the checkpoint that
// another node needs.
// Call it about every Limits.KeepEvery. An error is final: the node has to crash.
func (s *Stepper) Keep() error { return s.keep(s.now) }

// Wanted is the checkpoint of another node that this one has to fetch, and install in the place of its log and state before
// the next Stepper is made; ok is false while it can go on from the log.
func (s *Stepper) Wanted() (o Offer, ok bool) {
	wanted := s.wanted.Load()
	if wanted == nil || wanted.Index <= s.state.AppliedIndex() {
		return Offer{}, false
	}
	return *wanted, true
}

// Confirm answers a node that recovers and asks for a checkpoint that makes up for what it has lost; asking is drawn once for each life
// of the asker. The answer may come only when it asks again. Call it between two steps.
func (s *Stepper) Confirm(from uint64, asking [16]byte) Confirmation {
	c := s.confirmation(s.core.confirm(from, asking))
	s.events.kick()
	return c
}

// Prepare does a small step of the log's work ahead; more reports that another would help. Call
// it while nothing is to be appended, or never. An error is final: the node has to crash.
func (s *Stepper) Prepare() (more bool, err error) { return s.log.Prepare() }

// Pending says which steps have something to do now; time alone may call for Raft besides.
func (s *Stepper) Pending() Pending {
	return Pending{Raft: s.events.awake(), Append: s.appends.awake(), Apply: s.applies.awake()}
}

// Receive takes a frame that another node's Send was given; it is borrowed for the call.
// peer.ErrFrame: it is damaged. A real node then ends the stream that brought it, and both
// ends see PeerLost.
func (s *Stepper) Receive(from uint64, frame []byte) error {
	return peer.Deliver(s.handler, from, frame)
}

// PeerUp says that both streams to a peer are open, and empty.
func (s *Stepper) PeerUp(peer uint64) { s.handler.PeerUp(peer) }

// PeerLost says that a stream to a peer was lost, with what was sent and not received.
func (s *Stepper) PeerLost(peer uint64) { s.handler.PeerLost(peer) }

// PeerGone says that, after a loss, a fresh dial failed; refused: the peer's machine answers
// that its process is gone.
func (s *Stepper) PeerGone(peer uint64, refused bool) { s.handler.PeerGone(peer, refused) }

// Campaign makes the node ask for votes, whether or not there is a leader. Nodes that hear one
// refuse theirs; Transfer moves leadership in any case.
func (s *Stepper) Campaign() {
	_ = s.core.node.Campaign() // an error: it is the leader, or can't be
	s.events.kick()
}

// Transfer has leadership handed over to node to, 0: to any voter that fits. A node that doesn't lead asks the leader, if it knows one.
func (s *Stepper) Transfer(to command.NodeID) {
	if lead := s.Status().Leader; lead != 0 && lead != to {
		s.askTransfer(lead, to)
	}
}

// Removed says that a peer refuses this node's streams, as it knows that this node was removed from the cluster.
func (s *Stepper) Removed(peer uint64) { s.handler.Removed(peer) }

// Leave accepts nothing new and, with what is in flight, ends the node's epoch
// (Mailbox.EpochEnded): the first half of an orderly stop.
func (s *Stepper) Leave() {
	s.home.shutDown()
	s.leave()
}

// Request proposes a queue command of the node itself (zero Conn; its Request is set here).
// done is called once, within Apply, with the effect or ErrEpochEnded. ErrNoEpoch: nothing was
// proposed, and done isn't called.
func (s *Stepper) Request(cmd command.Command, done func(command.Effect, error)) error {
	_, err := s.request(cmd, done)
	return err
}

// Machine is the state machine, for reading between two steps.
func (s *Stepper) Machine() *state.Machine { return s.machine }
