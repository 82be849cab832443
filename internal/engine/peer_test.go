package engine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
)

// t0 is when every test begins.
var t0 = time.Unix(1_000_000, 0)

// rawPeer is a peer that says what the test wants it to say, right or wrong, to the Conn under test.
type rawPeer struct {
	t    *testing.T
	c    *Conn
	now  time.Time
	err  error
	head int // bytes of the Conn's protocol header that are still to come
}

// newRawPeer is a peer of a fresh Conn; protocol headers are exchanged.
func newRawPeer(t *testing.T, cfg Config) *rawPeer {
	t.Helper()
	p := &rawPeer{t: t, c: New(cfg), now: t0, head: amqp.ProtoHeaderSize}
	p.input(amqp.AppendProtoHeader(nil, amqp.ProtoAMQP))
	return p
}

// opened is newRawPeer with Open exchanged and its events and frames consumed.
func opened(t *testing.T, cfg Config) *rawPeer {
	t.Helper()
	p := newRawPeer(t, cfg)
	p.send(0, amqp.NewOpen("peer"))
	p.wantEvents("Opened peer")
	if err := p.c.Open(amqp.Open{ContainerID: "us"}); err != nil {
		t.Fatal(err)
	}
	p.frames()
	return p
}

// begun is opened with a session of the peer's on its channel 0.
func begun(t *testing.T, cfg Config) (*rawPeer, *Session) {
	t.Helper()
	p := opened(t, cfg)
	p.send(0, &amqp.Begin{IncomingWindow: 100, OutgoingWindow: 100, HandleMax: 1000})
	ev := p.event(SessionBegun)
	if err := ev.Session.Begin(amqp.Begin{}); err != nil {
		t.Fatal(err)
	}
	p.frames()
	return p, ev.Session
}

// attached is begun with a link of the peer's on its handle 0, whose role is the peer's.
func attached(t *testing.T, cfg Config, role amqp.Role) (*rawPeer, *Link) {
	t.Helper()
	p, _ := begun(t, cfg)
	return p, p.attach("link", 0, role)
}

// attach attaches a link of the peer's and accepts it.
func (p *rawPeer) attach(name string, handle uint32, role amqp.Role) *Link {
	p.t.Helper()
	a := amqp.NewAttach(name, role)
	a.Handle = handle
	a.Source, a.Target = &amqp.Source{}, &amqp.Target{}
	p.send(0, a)
	l := p.event(LinkAttached).Link
	answer := amqp.NewAttach("", false)
	answer.Source, answer.Target = &amqp.Source{}, &amqp.Target{}
	if err := l.Accept(*answer); err != nil {
		p.t.Fatal(err)
	}
	p.frames()
	return l
}

func (p *rawPeer) input(b []byte) (consumed int) {
	consumed, p.err = p.c.Input(b, p.now)
	return consumed
}

// send gives the Conn one frame; a transfer's payload is in xfer.
func (p *rawPeer) send(channel uint16, body amqp.Performative) {
	p.t.Helper()
	b := amqp.AppendFrame(nil, channel, body, nil)
	if n := p.input(b); n != len(b) && !p.c.Held() {
		p.t.Fatalf("%s: %d of %d bytes consumed", amqp.NameOf(body), n, len(b))
	}
}

// xfer gives the Conn a transfer with a payload.
func (p *rawPeer) xfer(x amqp.Transfer, payload string) {
	p.t.Helper()
	p.input(amqp.AppendTransfer(nil, 0, &x, []byte(payload)))
}

// event is the next event, which must be of that kind.
func (p *rawPeer) event(kind EventKind) Event {
	p.t.Helper()
	ev, ok := p.c.Next()
	for ok && ev.Kind == WindowOpened && kind != WindowOpened { // many flows of a test open a window by the way
		ev, ok = p.c.Next()
	}
	if !ok || ev.Kind != kind {
		p.t.Fatalf("event %q, want kind %d", show(ev), kind)
	}
	return ev
}

// frames are the frames that the Conn has to write, in words.
func (p *rawPeer) frames() (out []string) {
	p.t.Helper()
	for {
		b := p.c.TakeOutput(nil, p.now)
		if len(b) == 0 {
			return out
		}
		if p.head > 0 {
			b = b[p.head:]
			p.head = 0
		}
		for len(b) > 0 {
			f, n, err := amqp.DecodeFrame(b, amqp.Limits{})
			if err != nil {
				p.t.Fatalf("output: %v", err)
			}
			out = append(out, showFrame(f))
			b = b[n:]
		}
	}
}

func (p *rawPeer) wantFrames(want ...string) {
	p.t.Helper()
	wantLines(p.t, "frames", p.frames(), want)
}

func (p *rawPeer) wantEvents(want ...string) {
	p.t.Helper()
	wantLines(p.t, "events", eventsOf(p.c), want)
}

func eventsOf(c *Conn) (got []string) {
	for ev, ok := c.Next(); ok; ev, ok = c.Next() {
		if ev.Kind == WindowOpened {
			continue
		}
		got = append(got, show(ev))
	}
	return got
}

func wantLines(t *testing.T, what string, got, want []string) {
	t.Helper()
	if g, w := strings.Join(got, "\n\t"), strings.Join(want, "\n\t"); g != w {
		t.Fatalf("%s:\n\t%s\nwant:\n\t%s", what, g, w)
	}
}

// show is an event in words.
func show(ev Event) string {
	err := ""
	if ev.Err != nil {
		err = fmt.Sprintf(" %s %s remote=%t", ev.Err.Scope, ev.Err.AMQP.Condition, ev.Err.Remote)
	}
	switch ev.Kind {
	case Opened:
		return "Opened " + ev.Open.ContainerID
	case Closed:
		return "Closed" + err
	case SessionBegun:
		return "SessionBegun"
	case SessionEnded:
		return "SessionEnded" + err
	case LinkAttached:
		return fmt.Sprintf("LinkAttached %s %s%s", ev.Link.Name(), ev.Link.Role(), word(" refused", ev.Refused))
	case LinkDetached:
		return fmt.Sprintf("LinkDetached %s%s%s", ev.Link.Name(), word(" closed", ev.Closed), err)
	case Received:
		d := ev.Delivery
		return fmt.Sprintf("Received %s %d %q%s%s%s %q", ev.Link.Name(), d.ID, d.Tag(), word(" settled", d.Settled),
			word(" resume", d.Resume), showState(d.State), d.Payload)
	case Aborted:
		return "Aborted " + ev.Link.Name() + word(" resumed", ev.Delivery != nil)
	case Disposed:
		var ids []string
		for _, d := range ev.Deliveries {
			ids = append(ids, fmt.Sprint(d.ID))
		}
		return fmt.Sprintf("Disposed %s [%s]%s%s", ev.Link.Name(), strings.Join(ids, " "), word(" settled", ev.Settled), showState(ev.State))
	case Credit:
		return fmt.Sprintf("Credit %s %d%s%s", ev.Link.Name(), ev.Link.Credit(), word(" drain", ev.Drain), word(" echo", ev.Echo))
	case Drained:
		return "Drained " + ev.Link.Name()
	case SenderFlow:
		return fmt.Sprintf("SenderFlow %s %d", ev.Link.Name(), ev.Available)
	}
	return fmt.Sprintf("kind %d", ev.Kind)
}

func word(name string, set bool) string {
	if set {
		return name
	}
	return ""
}

func showState(s amqp.DeliveryState) string {
	switch x := s.(type) {
	case nil:
		return ""
	case *amqp.TransactionalState:
		return fmt.Sprintf(" tx(%s%s)", x.TxnID, showState(x.Outcome))
	}
	return " " + strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", s), "*amqp."))
}

func showError(e *amqp.Error) string {
	if e == nil {
		return ""
	}
	return " " + string(e.Condition)
}

func showOpt(name string, o amqp.Opt[uint32]) string {
	if !o.Set {
		return ""
	}
	return fmt.Sprintf(" %s=%d", name, o.V)
}

// showFrame is a frame in words; windows and session counts of a flow for a link are left out.
func showFrame(f amqp.Frame) string {
	at := fmt.Sprintf("%d ", f.Channel)
	switch p := f.Body.(type) {
	case nil:
		return "empty"
	case *amqp.Open:
		_, failed := p.Properties.Lookup(string(amqp.PropConnectionEstablishmentFail))
		return "open " + p.ContainerID + word(" failed", failed)
	case *amqp.Close:
		return "close" + showError(p.Error)
	case *amqp.Begin:
		remote := ""
		if p.RemoteChannel.Set {
			remote = fmt.Sprintf(" answers %d", p.RemoteChannel.V)
		}
		return at + "begin" + remote
	case *amqp.End:
		return at + "end" + showError(p.Error)
	case *amqp.Attach:
		return at + fmt.Sprintf("attach %s %d %s%s%s", p.Name, p.Handle, p.Role, word(" source", p.Source != nil), word(" target", p.Target != nil))
	case *amqp.Detach:
		return at + fmt.Sprintf("detach %d%s%s", p.Handle, word(" closed", p.Closed), showError(p.Error))
	case *amqp.Flow:
		if !p.Handle.Set {
			return at + fmt.Sprintf("flow in=%d window=%d out=%d", p.NextIncomingID.V, p.IncomingWindow, p.NextOutgoingID)
		}
		return at + fmt.Sprintf("flow%s%s%s%s", showOpt("handle", p.Handle), showOpt("count", p.DeliveryCount), showOpt("credit", p.LinkCredit), word(" drain", p.Drain))
	case *amqp.Transfer:
		tag := ""
		if p.DeliveryTag != nil {
			tag = fmt.Sprintf(" %q", p.DeliveryTag)
		}
		return at + fmt.Sprintf("transfer %d%s%s%s%s%s%s %q", p.Handle, showOpt("id", p.DeliveryID), tag, word(" settled", p.Settled.V), word(" more", p.More),
			word(" aborted", p.Aborted), word(" resume", p.Resume)+showState(p.State), f.Payload)
	case *amqp.Disposition:
		return at + fmt.Sprintf("disposition %s %d..%d%s%s", p.Role, p.First, p.Last.Or(p.First), word(" settled", p.Settled), showState(p.State))
	}
	return "?"
}
