package protocol

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
)

// peer is a client that says only what it is told to, one frame at a time. One goroutine uses it.
type peer struct {
	t    *testing.T
	nc   net.Conn
	buf  []byte // read and not decoded
	open *amqp.Open
	// sessions by the node's channel.
	sessions map[uint16]*session
	channel  uint16 // the next
}

// session is one of the peer's.
type session struct {
	p             *peer
	channel       uint16
	begin         *amqp.Begin
	nextOut       uint32 // transfer-id of our next transfer
	nextDelivery  uint32
	nextIn        uint32 // transfer-id of the node's next
	handle        uint32 // of our next link
	incomingLimit uint32
}

// link is one of a session's.
type link struct {
	s      *session
	handle uint32
	role   amqp.Role
	attach *amqp.Attach
	count  uint32 // delivery-count
	tag    uint32
}

// message is a delivery that came whole.
type message struct {
	t       *testing.T
	id      uint32
	tag     []byte
	settled bool
	state   amqp.DeliveryState
	frames  int
	payload []byte
}

// dial connects and sends nothing.
func dial(t *testing.T) *peer {
	t.Helper()
	nc, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(patience))
	return &peer{t: t, nc: nc, sessions: make(map[uint16]*session)}
}

// open connects and opens, without a SASL layer.
func open(t *testing.T, change ...func(*amqp.Open)) *peer {
	t.Helper()
	p := dial(t)
	p.header()
	o := amqp.NewOpen(fmt.Sprintf("%s-%d", t.Name(), names.Add(1)))
	for _, f := range change {
		f(o)
	}
	p.send(0, o)
	p.open = expect[*amqp.Open](p)
	return p
}

// header exchanges the protocol headers.
func (p *peer) header() {
	p.t.Helper()
	p.write(amqp.AppendProtoHeader(nil, amqp.ProtoAMQP))
	p.fill(amqp.ProtoHeaderSize)
	h, err := amqp.ParseProtoHeader(p.buf)
	if err != nil || h.ID != amqp.ProtoAMQP {
		p.t.Fatalf("the node's header: %+v, %v", h, err)
	}
	p.buf = p.buf[amqp.ProtoHeaderSize:]
}

func (p *peer) write(b []byte) {
	p.t.Helper()
	if _, err := p.nc.Write(b); err != nil {
		p.t.Fatal(err)
	}
}

// fill reads until n bytes are there.
func (p *peer) fill(n int) {
	p.t.Helper()
	for len(p.buf) < n {
		b := make([]byte, 64<<10)
		k, err := p.nc.Read(b)
		p.buf = append(p.buf, b[:k]...)
		if err != nil && len(p.buf) < n {
			p.t.Fatalf("reading: %v", err)
		}
	}
}

func (p *peer) send(channel uint16, body amqp.Performative, payload ...byte) {
	p.t.Helper()
	p.write(amqp.AppendFrame(nil, channel, body, payload))
}

// next is the node's next frame that isn't empty.
func (p *peer) next() (channel uint16, body amqp.Performative, payload []byte) {
	p.t.Helper()
	for {
		f, n, err := amqp.DecodeFrame(p.buf, amqp.Limits{})
		if errors.Is(err, amqp.ErrShort) {
			p.fill(len(p.buf) + 1)
			continue
		}
		if err != nil {
			p.t.Fatalf("the node's frame: %v", err)
		}
		p.buf = bytes.Clone(p.buf[n:]) // the frame keeps the former bytes
		if f.Body == nil {
			continue
		}
		if s := p.sessions[f.Channel]; s != nil {
			if _, ok := f.Body.(*amqp.Transfer); ok {
				s.nextIn++
			}
		}
		return f.Channel, f.Body, f.Payload
	}
}

// expect is the node's next frame, which is a T; flows before it are passed over where T is none.
func expect[T amqp.Performative](p *peer) T {
	p.t.Helper()
	for {
		_, body, _ := p.next()
		if x, ok := body.(T); ok {
			return x
		}
		if _, ok := body.(*amqp.Flow); !ok {
			var want T
			p.t.Fatalf("got %s %+v, want %T", amqp.NameOf(body), body, want)
		}
	}
}

// wantEOF waits until the node has closed the socket; what it still says is passed over.
func (p *peer) wantEOF() {
	p.t.Helper()
	b := make([]byte, 64<<10)
	for {
		if _, err := p.nc.Read(b); err != nil {
			if e := net.Error(nil); errors.As(err, &e) && e.Timeout() {
				p.t.Fatal("the node doesn't close the socket")
			}
			return
		}
	}
}

// wantClose waits for the node's Close with a condition; the node then ends the socket.
func (p *peer) wantClose(conditions ...amqp.Symbol) {
	p.t.Helper()
	x := expect[*amqp.Close](p)
	wantCondition(p.t, x.Error, conditions...)
	p.send(0, &amqp.Close{})
	p.wantEOF()
}

// close closes the connection and waits for the answer; what comes before it is passed over.
func (p *peer) close() {
	p.t.Helper()
	p.send(0, &amqp.Close{})
	for {
		_, body, _ := p.next()
		if x, ok := body.(*amqp.Close); ok {
			if x.Error != nil {
				p.t.Fatalf("closed with %+v", x.Error)
			}
			_ = p.nc.Close()
			return
		}
	}
}

// quiet proves that nothing came but flows: the connection is closed, and the answer to that is what comes next.
func (p *peer) quiet() {
	p.t.Helper()
	p.send(0, &amqp.Close{})
	if x := expect[*amqp.Close](p); x.Error != nil {
		p.t.Fatalf("closed with %+v", x.Error)
	}
	_ = p.nc.Close()
}

func wantCondition(t *testing.T, e *amqp.Error, conditions ...amqp.Symbol) {
	t.Helper()
	if e == nil {
		t.Fatalf("no error, want %s", conditions)
	}
	if len(conditions) == 0 {
		return // any
	}
	for _, c := range conditions {
		if e.Condition == c {
			return
		}
	}
	t.Fatalf("error %s %q, want %s", e.Condition, e.Description, conditions)
}

// begin begins a session.
func (p *peer) begin(change ...func(*amqp.Begin)) *session {
	p.t.Helper()
	s := &session{p: p, channel: p.channel, incomingLimit: 5000}
	p.channel++
	b := amqp.NewBegin()
	b.IncomingWindow, b.OutgoingWindow = s.incomingLimit, 5000
	for _, f := range change {
		f(b)
	}
	s.nextOut, s.nextDelivery, s.incomingLimit = b.NextOutgoingID, b.NextOutgoingID, b.IncomingWindow
	p.send(s.channel, b)
	channel, body, _ := p.next()
	answer, ok := body.(*amqp.Begin)
	if !ok || answer.RemoteChannel != amqp.Some(s.channel) {
		p.t.Fatalf("the answer to begin is %s %+v", amqp.NameOf(body), body)
	}
	s.begin, s.nextIn = answer, answer.NextOutgoingID
	p.sessions[channel] = s
	return s
}

func (s *session) send(body amqp.Performative, payload ...byte) {
	s.p.t.Helper()
	s.p.send(s.channel, body, payload...)
}

// end ends the session; what comes before the answer is passed over.
func (s *session) end() {
	s.p.t.Helper()
	s.send(&amqp.End{})
	for {
		if _, body, _ := s.p.next(); amqp.NameOf(body) == "end" {
			return
		}
	}
}

// wantEnd waits for the node's End with a condition and answers it.
func (s *session) wantEnd(conditions ...amqp.Symbol) {
	s.p.t.Helper()
	x := expect[*amqp.End](s.p)
	wantCondition(s.p.t, x.Error, conditions...)
	s.send(&amqp.End{})
}

// attached sends an attach and gives the link with its answer.
func (s *session) attached(a *amqp.Attach) *link {
	s.p.t.Helper()
	a.Handle = s.handle
	s.handle++
	s.send(a)
	l := &link{s: s, handle: a.Handle, role: a.Role, attach: expect[*amqp.Attach](s.p)}
	l.count = l.attach.InitialDeliveryCount.V
	return l
}

// refused sends an attach that the node refuses: Attach with a null terminus, then Detach with the error.
func (s *session) refused(a *amqp.Attach, conditions ...amqp.Symbol) *amqp.Error {
	s.p.t.Helper()
	l := s.attached(a)
	if a.Role == amqp.RoleSender && (l.attach.Target != nil || l.attach.Coordinator != nil) || a.Role == amqp.RoleReceiver && l.attach.Source != nil {
		s.p.t.Fatalf("the node's terminus isn't null: %+v", l.attach)
	}
	return l.wantDetach(conditions...)
}

func senderAttach(queue string) *amqp.Attach {
	a := amqp.NewAttach(fmt.Sprintf("s-%d", names.Add(1)), amqp.RoleSender)
	a.InitialDeliveryCount = amqp.Some(uint32(0))
	a.Source, a.Target = &amqp.Source{}, &amqp.Target{}
	if queue != "" {
		a.Target.Address = amqp.Some(queue)
	}
	return a
}

func receiverAttach(queue string) *amqp.Attach {
	a := amqp.NewAttach(fmt.Sprintf("r-%d", names.Add(1)), amqp.RoleReceiver)
	a.Source, a.Target = &amqp.Source{Address: amqp.Some(queue)}, &amqp.Target{}
	return a
}

// sender attaches a sending link and waits for credit.
func (s *session) sender(queue string, change ...func(*amqp.Attach)) *link {
	s.p.t.Helper()
	a := senderAttach(queue)
	for _, f := range change {
		f(a)
	}
	l := s.attached(a)
	if f := expect[*amqp.Flow](s.p); f.LinkCredit.V == 0 {
		s.p.t.Fatalf("no credit: %+v", f)
	}
	return l
}

// receiver attaches a receiving link, which has no credit yet.
func (s *session) receiver(queue string, change ...func(*amqp.Attach)) *link {
	s.p.t.Helper()
	a := receiverAttach(queue)
	for _, f := range change {
		f(a)
	}
	l := s.attached(a)
	if l.attach.Source == nil {
		s.p.t.Fatalf("refused: %+v", expect[*amqp.Detach](s.p).Error)
	}
	return l
}

// flowFrame is a Flow of the session as it stands.
func (s *session) flowFrame() *amqp.Flow {
	return &amqp.Flow{
		NextIncomingID: amqp.Some(s.nextIn), IncomingWindow: s.incomingLimit, NextOutgoingID: s.nextOut, OutgoingWindow: 5000,
	}
}

// flow grants credit.
func (l *link) flow(credit uint32, change ...func(*amqp.Flow)) {
	l.s.p.t.Helper()
	f := l.s.flowFrame()
	f.Handle, f.DeliveryCount, f.LinkCredit = amqp.Some(l.handle), amqp.Some(l.count), amqp.Some(credit)
	for _, g := range change {
		g(f)
	}
	l.s.send(f)
}

// send sends a delivery of one frame and gives its id.
func (l *link) send(payload []byte, change ...func(*amqp.Transfer)) uint32 {
	l.s.p.t.Helper()
	x := l.transfer()
	for _, f := range change {
		f(x)
	}
	l.put(x, payload)
	return x.DeliveryID.V
}

// transfer is the first frame of a new delivery.
func (l *link) transfer() *amqp.Transfer {
	l.tag++
	x := &amqp.Transfer{
		Handle: l.handle, DeliveryID: amqp.Some(l.s.nextDelivery), DeliveryTag: fmt.Appendf(nil, "%d", l.tag),
		MessageFormat: amqp.Some(uint32(0)),
	}
	l.s.nextDelivery++
	l.count++
	return x
}

// put sends a transfer frame.
func (l *link) put(x *amqp.Transfer, payload []byte) {
	l.s.p.t.Helper()
	l.s.nextOut++
	l.s.send(x, payload...)
}

// want waits for the disposition of a delivery of ours that was settled with a state of want's type.
func (l *link) want(id uint32, want amqp.DeliveryState) amqp.DeliveryState {
	l.s.p.t.Helper()
	d := expect[*amqp.Disposition](l.s.p)
	if d.Role != amqp.RoleReceiver || d.First != id || d.Last.Or(id) != id || !d.Settled {
		l.s.p.t.Fatalf("got %+v, want the settled answer to %d", d, id)
	}
	if fmt.Sprintf("%T", d.State) != fmt.Sprintf("%T", want) {
		l.s.p.t.Fatalf("the state of %d is %T %+v, want %T", id, d.State, d.State, want)
	}
	return d.State
}

// wantRejected waits for a settled rejection.
func (l *link) wantRejected(id uint32, conditions ...amqp.Symbol) *amqp.Error {
	l.s.p.t.Helper()
	x := l.want(id, &amqp.Rejected{}).(*amqp.Rejected)
	wantCondition(l.s.p.t, x.Error, conditions...)
	return x.Error
}

// receive waits for a whole delivery.
func (l *link) receive() message {
	l.s.p.t.Helper()
	for {
		_, body, payload := l.s.p.next()
		switch x := body.(type) {
		case *amqp.Transfer:
			return l.collect(x, payload)
		case *amqp.Flow:
		default:
			l.s.p.t.Fatalf("got %s %+v, want a transfer", amqp.NameOf(body), body)
		}
	}
}

// collect gathers the delivery whose first frame is there.
func (l *link) collect(x *amqp.Transfer, payload []byte) message {
	l.s.p.t.Helper()
	m := message{t: l.s.p.t, id: x.DeliveryID.V, tag: x.DeliveryTag, settled: x.Settled.V, state: x.State, frames: 1, payload: payload}
	if !x.DeliveryID.Set || len(x.DeliveryTag) == 0 {
		l.s.p.t.Fatalf("a first transfer without its fields: %+v", x)
	}
	l.count++
	for x.More {
		_, body, more := l.s.p.next()
		next, ok := body.(*amqp.Transfer)
		if !ok || next.Aborted {
			l.s.p.t.Fatalf("got %s %+v amid a delivery", amqp.NameOf(body), body)
		}
		x = next
		m.payload = append(m.payload[:len(m.payload):len(m.payload)], more...)
		m.frames++
	}
	return m
}

func (m message) sections() amqp.Sections {
	m.t.Helper()
	s, err := amqp.ParseSections(m.payload, amqp.Limits{})
	if err != nil {
		m.t.Fatalf("a bad message came: %v", err)
	}
	return s
}

func (m message) text() string {
	m.t.Helper()
	s := m.sections()
	v, err := s.Value(amqp.Limits{})
	if err != nil {
		m.t.Fatal(err)
	}
	str, _ := v.(string)
	return str
}

func (m message) header() amqp.Header {
	m.t.Helper()
	h, err := amqp.DecodeHeader(m.sections().Header)
	if err != nil {
		m.t.Fatal(err)
	}
	return h
}

// wantText checks the text of a message.
func (m message) wantText(want string) message {
	m.t.Helper()
	if got := m.text(); got != want {
		m.t.Fatalf("received %q, want %q", got, want)
	}
	return m
}

// settle settles deliveries that came.
func (s *session) settle(id uint32, state amqp.DeliveryState, change ...func(*amqp.Disposition)) {
	s.p.t.Helper()
	d := &amqp.Disposition{Role: amqp.RoleReceiver, First: id, Settled: true, State: state}
	for _, f := range change {
		f(d)
	}
	s.send(d)
}

// unsettled leaves a disposition unsettled.
func unsettled(d *amqp.Disposition) { d.Settled = false }

// detach detaches a link and waits for the answer; what comes before it is passed over.
func (l *link) detach(closed bool) *amqp.Detach {
	l.s.p.t.Helper()
	l.s.send(&amqp.Detach{Handle: l.handle, Closed: closed})
	for {
		_, body, _ := l.s.p.next()
		if x, ok := body.(*amqp.Detach); ok {
			return x
		}
	}
}

// wantDetach waits for the node's Detach with a condition and answers it.
func (l *link) wantDetach(conditions ...amqp.Symbol) *amqp.Error {
	l.s.p.t.Helper()
	x := expect[*amqp.Detach](l.s.p)
	if x.Handle != l.attach.Handle || !x.Closed {
		l.s.p.t.Fatalf("got %+v, want a closing detach of handle %d", x, l.attach.Handle)
	}
	wantCondition(l.s.p.t, x.Error, conditions...)
	l.s.send(&amqp.Detach{Handle: l.handle, Closed: true})
	return x.Error
}
