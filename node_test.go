package oncemq

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/auth"
	"github.com/oncemq/oncemq/internal/engine"
)

// node is a broker for these tests of the driver and the API: it accepts everything, keeps queues in memory and resumes sessions without
// remembering what they held. What the client does with a real broker's state is tested in internal/client and test/.
type node struct {
	t testing.TB

	mu     sync.Mutex
	down   bool // dials are refused
	mute   bool // discharges and sends are applied, never answered
	refuse amqp.Symbol
	nocred bool // senders get no credit
	queues map[string][][]byte
	conns  map[*nodeConn]bool
	ids    uint64
	done   map[string]bool // transactions committed
	keeps  bool            // their outcomes survive connections
	dials  int
	// impostor lets everybody in without knowing the password.
	impostor bool
	wg       sync.WaitGroup
}

type nodeConn struct {
	n       *node
	c       net.Conn
	sasl    *engine.SASLServer
	scram   *auth.ScramServer
	e       *engine.Conn
	senders []*engine.Link // ours: the clients' receivers
	txs     map[string][]func()
	lost    map[string][]func() // what a rollback undoes
}

func newNode(t testing.TB) *node {
	return &node{t: t, queues: map[string][][]byte{}, conns: map[*nodeConn]bool{}, done: map[string]bool{}}
}

// dial is Config.DialContext.
func (n *node) dial(context.Context, string, string) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dials++
	if n.down {
		return nil, errors.New("connection refused")
	}
	a, b := net.Pipe()
	n.serve(b)
	return a, nil
}

// serve runs a connection. Called with mu held.
func (n *node) serve(c net.Conn) {
	x := &nodeConn{
		n: n, c: c, sasl: engine.NewSASLServer("ANONYMOUS", auth.ScramSHA256), e: engine.New(engine.Config{Server: true}),
		txs: map[string][]func(){}, lost: map[string][]func(){},
	}
	n.conns[x] = true
	n.wg.Go(x.run)
}

// kill breaks all connections.
func (n *node) kill() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for x := range n.conns {
		_ = x.c.Close()
		delete(n.conns, x)
	}
}

func (n *node) set(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
	for x := range n.conns {
		x.flush()
	}
}

func (n *node) depth(queue string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.queues[queue])
}

func (x *nodeConn) run() {
	defer x.c.Close()
	var in []byte
	buf := make([]byte, 64<<10)
	for {
		k, err := x.c.Read(buf)
		if err != nil {
			return
		}
		in = append(in, buf[:k]...)
		x.n.mu.Lock()
		for more := true; more; {
			var used int
			if _, _, done := x.sasl.Done(); !done {
				used, err = x.sasl.Input(in)
				if step, ok := x.sasl.Next(); ok {
					x.login(step)
				}
			} else {
				used, err = x.e.Input(in, time.Now())
				for ev, ok := x.e.Next(); ok; ev, ok = x.e.Next() {
					x.handle(ev)
				}
			}
			in = append([]byte(nil), in[used:]...)
			more = used > 0 && len(in) > 0 && err == nil
		}
		x.flush()
		x.n.mu.Unlock()
		if err != nil || x.e.Done() {
			return
		}
	}
}

// login knows guest with the password secret, and lets the anonymous in.
func (x *nodeConn) login(step engine.SASLStep) {
	if step.Mechanism == "ANONYMOUS" {
		x.sasl.Outcome(amqp.SASLCodeOK, nil)
		return
	}
	if step.Init {
		x.scram, _ = auth.NewScramServer(auth.ScramSHA256, nil, func(name string) (auth.User, error) {
			if name != "guest" {
				return auth.Unknown([32]byte{}, name), nil
			}
			keys, err := auth.NewKeys("secret", [16]byte{}, 4096)
			return auth.User{Name: name, Keys: keys, Exists: true}, err
		})
	}
	answer, done, err := x.scram.Step(step.Response)
	switch {
	case err != nil:
		x.sasl.Outcome(amqp.SASLCodeAuth, nil)
	case done && x.n.impostor:
		x.sasl.Outcome(amqp.SASLCodeOK, []byte("v=AAAA"))
	case done:
		x.sasl.Outcome(amqp.SASLCodeOK, answer)
	default:
		x.sasl.Challenge(answer)
	}
}

// flush delivers and writes. net.Pipe has no buffer, so that a goroutine writes.
func (x *nodeConn) flush() {
	for _, l := range x.senders {
		name := l.Remote().Source.Address.V
		for q := x.n.queues[name]; len(q) > 0 && l.Credit() > 0; q = x.n.queues[name] {
			x.n.ids++
			tag := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(make([]byte, 8), x.n.ids), 1)
			d, err := l.Send(engine.Transfer{Tag: tag, Payload: [][]byte{q[0]}})
			if err != nil {
				x.n.t.Errorf("node: %v", err)
				return
			}
			d.Data = q[0]
			x.n.queues[name] = q[1:]
		}
	}
	out := append(x.sasl.TakeOutput(nil), x.e.TakeOutput(nil, time.Now())...)
	if len(out) > 0 {
		done := make(chan struct{})
		x.n.wg.Go(func() {
			defer close(done)
			_, _ = x.c.Write(out)
		})
		x.n.mu.Unlock()
		<-done
		x.n.mu.Lock()
	}
}

func (x *nodeConn) handle(ev engine.Event) {
	switch ev.Kind {
	case engine.Opened:
		if x.n.refuse != "" {
			_ = x.e.Close(&amqp.Error{Condition: x.n.refuse})
			return
		}
		_ = x.e.Open(amqp.Open{ContainerID: "node", OfferedCapabilities: []amqp.Symbol{amqp.CapOncemqClient}})
	case engine.Closed:
		_ = x.e.Close(nil)
	case engine.SessionBegun:
		v, _ := ev.Begin.Properties.Lookup("oncemq:session")
		id, resumed := v.([]byte)
		if !resumed {
			x.n.ids++
			id = binary.BigEndian.AppendUint64(make([]byte, 8), x.n.ids)
		}
		_ = ev.Session.Begin(amqp.Begin{Properties: amqp.Map{{Key: amqp.PropSession, Value: append([]byte(nil), id...)}, {Key: amqp.PropResumed, Value: resumed}}})
	case engine.SessionEnded:
		_ = ev.Session.End(nil)
	case engine.LinkAttached:
		x.attached(ev)
	case engine.LinkDetached:
		_ = ev.Link.Detach(true, nil)
	case engine.Received:
		x.received(ev.Delivery)
	case engine.Disposed:
		for _, d := range ev.Deliveries {
			x.disposed(d, ev.State)
		}
	}
}

func (x *nodeConn) attached(ev engine.Event) {
	a := *ev.Attach
	a.Unsettled = []amqp.Unsettled{}
	if a.Target != nil && a.Target.Address.V == "forbidden" {
		_ = ev.Link.Refuse(amqp.Error{Condition: amqp.ErrCondUnauthorizedAccess, Description: "not you"})
		return
	}
	_ = ev.Link.Accept(a)
	if a.Role == amqp.RoleReceiver {
		x.senders = append(x.senders, ev.Link)
	} else if !x.n.nocred || a.Coordinator != nil {
		_ = ev.Link.SetCredit(1000, false)
	}
}

func (x *nodeConn) received(d *engine.Delivery) {
	remote := d.Link.Remote()
	if remote.Coordinator != nil {
		x.control(d)
		return
	}
	if remote.Target.Address.V == "discard" {
		d.Dispose(&amqp.Accepted{}, false)
		if d.Link.Credit() < 500 {
			_ = d.Link.SetCredit(1000, false)
		}
		return
	}
	payload := append([]byte(nil), d.Payload...)
	store := func() { x.n.queues[remote.Target.Address.V] = append(x.n.queues[remote.Target.Address.V], payload) }
	if st, ok := d.State.(*amqp.TransactionalState); ok {
		x.txs[string(st.TxnID)] = append(x.txs[string(st.TxnID)], store)
		return
	}
	if remote.Target.Address.V == "full" {
		d.Dispose(&amqp.Rejected{Error: &amqp.Error{Condition: amqp.ErrCondResourceLimitExceeded, Description: "the queue is full"}}, false)
		return
	}
	store()
	if !x.n.mute {
		d.Dispose(&amqp.Accepted{}, false)
	}
}

func (x *nodeConn) control(d *engine.Delivery) {
	s, _ := amqp.ParseSections(d.Payload, amqp.Limits{})
	v, _ := s.Value(amqp.Limits{})
	switch c := v.(type) {
	case *amqp.Declare:
		ann, _ := amqp.DecodeMessageAnnotations(s.MessageAnnotations, amqp.Limits{})
		n, _ := ann.Lookup("x-opt-oncemq-number")
		id := binary.BigEndian.AppendUint64(nil, n.(uint64))
		for done := range x.n.done {
			if x.n.keeps && x.n.done[done] && strings.HasSuffix(done, string(id)) {
				d.Dispose(&amqp.Rejected{Error: &amqp.Error{
					Condition: amqp.ErrCondTransactionDecided, Info: amqp.Map{{Key: amqp.InfoOutcome, Value: amqp.Symbol("committed")}},
				}}, true)
				return
			}
		}
		d.Dispose(&amqp.Declared{TxnID: id}, true)
	case *amqp.Discharge:
		id := string(c.TxnID)
		work := x.txs[id]
		if c.Fail {
			work = x.lost[id]
		}
		for _, f := range work {
			f()
		}
		x.n.done[id] = x.n.done[id] || !c.Fail
		delete(x.txs, id)
		delete(x.lost, id)
		if !x.n.mute {
			d.Dispose(&amqp.Accepted{}, true)
		}
	}
}

func (x *nodeConn) disposed(d *engine.Delivery, said amqp.DeliveryState) {
	payload, ok := d.Data.([]byte)
	if !ok {
		return
	}
	name := d.Link.Remote().Source.Address.V
	back := func() { x.n.queues[name] = append([][]byte{payload}, x.n.queues[name]...) }
	switch st := said.(type) {
	case *amqp.TransactionalState:
		x.lost[string(st.TxnID)] = append(x.lost[string(st.TxnID)], back)
	case *amqp.Released, *amqp.Modified:
		back()
		d.Dispose(said, true)
	case *amqp.Accepted, *amqp.Rejected:
		d.Dispose(amqp.CloneState(said), false)
	}
}
