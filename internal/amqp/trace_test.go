package amqp

import (
	"bytes"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The traces in testdata are text that other people's clients printed. Each line is built as a struct from its text, goes
// through our encoder and decoder, and is printed again as that client would.

func traceLines(t testing.TB, file string) []string {
	t.Helper()
	b, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, l := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		if !strings.HasPrefix(l, "#") {
			lines = append(lines, l)
		}
	}
	if len(lines) == 0 {
		t.Fatalf("%s is empty", file)
	}
	return lines
}

var escape = regexp.MustCompile(`\\x[0-9a-f]{2}`)

// unescape turns \x00 into its byte.
func unescape(s string) []byte {
	return []byte(escape.ReplaceAllStringFunc(s, func(e string) string {
		n, _ := strconv.ParseUint(e[2:], 16, 8)
		return string([]byte{byte(n)})
	}))
}

// jmsFields splits "a=1, b=X{c=d, e=f}" at the commas outside of braces.
func jmsFields(s string) map[string]string {
	fields := map[string]string{}
	depth, start := 0, 0
	add := func(f string) {
		k, v, _ := strings.Cut(strings.TrimSpace(f), "=")
		fields[k] = v
	}
	for i, c := range s {
		switch {
		case c == '{':
			depth++
		case c == '}':
			depth--
		case c == ',' && depth == 0:
			add(s[start:i])
			start = i + 1
		}
	}
	add(s[start:])
	return fields
}

type jmsTrace struct {
	t      *testing.T
	fields map[string]string
}

func (j jmsTrace) optUint(name string) Opt[uint32] {
	s, ok := j.fields[name]
	if !ok {
		j.t.Errorf("no field %s", name)
	}
	if s == "null" {
		return Opt[uint32]{}
	}
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		j.t.Error(err)
	}
	return Some(uint32(n))
}

func (j jmsTrace) uint(name string) uint32 { return j.optUint(name).V }
func (j jmsTrace) bool(name string) bool   { return j.fields[name] == "true" }

func (j jmsTrace) state(s string) DeliveryState {
	name, rest, _ := strings.Cut(s, "{")
	f := jmsFields(strings.TrimSuffix(rest, "}"))
	switch name {
	case "null":
		return nil
	case "Accepted":
		return &Accepted{}
	case "Released":
		return &Released{}
	case "Modified":
		return &Modified{DeliveryFailed: f["deliveryFailed"] == "true", UndeliverableHere: f["undeliverableHere"] == "true"}
	case "Declared":
		return &Declared{TxnID: []byte(f["txnId"])}
	case "TransactionalState":
		return &TransactionalState{TxnID: []byte(f["txnId"]), Outcome: j.state(f["outcome"])}
	}
	j.t.Errorf("state %q", s)
	return nil
}

func (j jmsTrace) performative(name string) Performative {
	switch name {
	case "Begin":
		x := &Begin{
			NextOutgoingID: j.uint("nextOutgoingId"), IncomingWindow: j.uint("incomingWindow"),
			OutgoingWindow: j.uint("outgoingWindow"), HandleMax: j.uint("handleMax"),
		}
		if c := j.optUint("remoteChannel"); c.Set {
			x.RemoteChannel = Some(uint16(c.V))
		}
		return x
	case "Flow":
		return &Flow{
			NextIncomingID: j.optUint("nextIncomingId"), IncomingWindow: j.uint("incomingWindow"),
			NextOutgoingID: j.uint("nextOutgoingId"), OutgoingWindow: j.uint("outgoingWindow"), Handle: j.optUint("handle"),
			DeliveryCount: j.optUint("deliveryCount"), LinkCredit: j.optUint("linkCredit"), Available: j.optUint("available"),
			Drain: j.bool("drain"), Echo: j.bool("echo"),
		}
	case "Transfer":
		x := &Transfer{
			Handle: j.uint("handle"), DeliveryID: j.optUint("deliveryId"), DeliveryTag: unescape(j.fields["deliveryTag"]),
			MessageFormat: j.optUint("messageFormat"), More: j.bool("more"), State: j.state(j.fields["state"]),
			Resume: j.bool("resume"), Aborted: j.bool("aborted"), Batchable: j.bool("batchable"),
		}
		if s := j.fields["settled"]; s != "null" {
			x.Settled = Some(s == "true")
		}
		return x
	case "Disposition":
		return &Disposition{
			Role: Role(j.fields["role"] == "RECEIVER"), First: j.uint("first"), Last: j.optUint("last"),
			Settled: j.bool("settled"), State: j.state(j.fields["state"]), Batchable: j.bool("batchable"),
		}
	case "Detach":
		return &Detach{Handle: j.uint("handle"), Closed: j.bool("closed")}
	case "End":
		return &End{}
	case "Close":
		return &Close{}
	}
	j.t.Errorf("performative %q", name)
	return nil
}

func jmsOpt(o Opt[uint32]) string {
	if !o.Set {
		return "null"
	}
	return fmt.Sprint(o.V)
}

func jmsState(s DeliveryState) string {
	switch x := s.(type) {
	case *Accepted:
		return "Accepted{}"
	case *Released:
		return "Released{}"
	case *Modified:
		return fmt.Sprintf("Modified{deliveryFailed=%v, undeliverableHere=null, messageAnnotations=null}", x.DeliveryFailed)
	case *Declared:
		return fmt.Sprintf("Declared{txnId=%s}", x.TxnID)
	case *TransactionalState:
		return fmt.Sprintf("TransactionalState{txnId=%s, outcome=%s}", x.TxnID, jmsState(x.Outcome))
	}
	return "null"
}

func jmsBytes(b []byte) string {
	var s strings.Builder
	for _, c := range b {
		if c < ' ' || c >= 0x7f {
			fmt.Fprintf(&s, `\x%02x`, c)
		} else {
			s.WriteByte(c)
		}
	}
	return s.String()
}

// jmsText prints a frame as Qpid JMS does.
func jmsText(f Frame) string {
	role := map[Role]string{RoleSender: "SENDER", RoleReceiver: "RECEIVER"}
	switch x := f.Body.(type) {
	case *Begin:
		channel := "null"
		if x.RemoteChannel.Set {
			channel = fmt.Sprint(x.RemoteChannel.V)
		}
		return fmt.Sprintf("Begin{remoteChannel=%s, nextOutgoingId=%d, incomingWindow=%d, outgoingWindow=%d, handleMax=%d, "+
			"offeredCapabilities=null, desiredCapabilities=null, properties=null}",
			channel, x.NextOutgoingID, x.IncomingWindow, x.OutgoingWindow, x.HandleMax)
	case *Flow:
		return fmt.Sprintf("Flow{nextIncomingId=%s, incomingWindow=%d, nextOutgoingId=%d, outgoingWindow=%d, handle=%s, "+
			"deliveryCount=%s, linkCredit=%s, available=%s, drain=%v, echo=%v, properties=null}",
			jmsOpt(x.NextIncomingID), x.IncomingWindow, x.NextOutgoingID, x.OutgoingWindow, jmsOpt(x.Handle),
			jmsOpt(x.DeliveryCount), jmsOpt(x.LinkCredit), jmsOpt(x.Available), x.Drain, x.Echo)
	case *Transfer:
		settled := "null"
		if x.Settled.Set {
			settled = fmt.Sprint(x.Settled.V)
		}
		return fmt.Sprintf("Transfer{handle=%d, deliveryId=%s, deliveryTag=%s, messageFormat=%s, settled=%s, more=%v, "+
			`rcvSettleMode=null, state=%s, resume=%v, aborted=%v, batchable=%v} (%d) "%s"`,
			x.Handle, jmsOpt(x.DeliveryID), jmsBytes(x.DeliveryTag), jmsOpt(x.MessageFormat), settled, x.More,
			jmsState(x.State), x.Resume, x.Aborted, x.Batchable, len(f.Payload), jmsBytes(f.Payload))
	case *Disposition:
		return fmt.Sprintf("Disposition{role=%s, first=%d, last=%s, settled=%v, state=%s, batchable=%v}",
			role[x.Role], x.First, jmsOpt(x.Last), x.Settled, jmsState(x.State), x.Batchable)
	case *Detach:
		return fmt.Sprintf("Detach{handle=%d, closed=%v, error=null}", x.Handle, x.Closed)
	case *End:
		return "End{error=null}"
	case *Close:
		return "Close{error=null}"
	}
	return ""
}

var jmsLine = regexp.MustCompile(`^(\w+)\{(.*)\}(?: \((\d+)\) "(.*)")?$`)

func TestTraceOfQpidJMS(t *testing.T) {
	declares, discharges, messages := 0, 0, 0
	for _, line := range traceLines(t, "qpid-jms-2.10.txt") {
		m := jmsLine.FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("line %q", line)
		}
		p := jmsTrace{t, jmsFields(m[2])}.performative(m[1])
		payload := unescape(m[4])
		f, _, err := DecodeFrame(AppendFrame(nil, 1, p, payload), Limits{})
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if got := jmsText(f); got != line {
			t.Errorf("came as  %s\nprinted %s", line, got)
		}
		if len(payload) == 0 {
			continue
		}
		switch traceMessage(t, payload).(type) {
		case *Declare:
			declares++
		case *Discharge:
			discharges++
		default:
			messages++
		}
	}
	if declares == 0 || discharges == 0 || messages < 20 {
		t.Errorf("%d declares, %d discharges, %d messages", declares, discharges, messages)
	}
}

// traceMessage checks that a message of a client means the same when its parts have gone through our types, and returns what
// its amqp-value holds.
func traceMessage(t *testing.T, payload []byte) any {
	t.Helper()
	s, err := ParseSections(payload, Limits{})
	if err != nil {
		t.Fatalf("%q: %v", payload, err)
	}
	h, err1 := DecodeHeader(s.Header)
	p, err2 := DecodeProperties(s.Properties, Limits{})
	ma, err3 := DecodeMessageAnnotations(s.MessageAnnotations, Limits{})
	ap, err4 := DecodeApplicationProperties(s.ApplicationProperties, Limits{})
	for _, err := range []error{err1, err2, err3, err4} {
		if err != nil {
			t.Errorf("%q: %v", payload, err)
		}
	}
	again := AppendHeader(nil, &h)
	again = AppendMessageAnnotations(again, ma)
	again = AppendProperties(again, &p)
	again = AppendApplicationProperties(again, ap)
	again = append(again, s.Body...)
	z, err := ParseSections(again, Limits{})
	if err != nil {
		t.Fatalf("%q: %v", again, err)
	}
	if h2, _ := DecodeHeader(z.Header); h2 != h {
		t.Errorf("header %+v became %+v", h, h2)
	}
	if p2, _ := DecodeProperties(z.Properties, Limits{}); !reflect.DeepEqual(p2, p) {
		t.Errorf("properties %+v became %+v", p, p2)
	}
	if m2, _ := DecodeMessageAnnotations(z.MessageAnnotations, Limits{}); len(ma) > 0 && !reflect.DeepEqual(m2, ma) {
		t.Errorf("annotations %+v became %+v", ma, m2)
	}
	if a2, _ := DecodeApplicationProperties(z.ApplicationProperties, Limits{}); len(ap) > 0 && !reflect.DeepEqual(a2, ap) {
		t.Errorf("application properties %+v became %+v", ap, a2)
	}
	if s.BodyKind != BodyValue {
		return nil
	}
	v, err := s.Value(Limits{})
	if err != nil {
		t.Errorf("%q: %v", payload, err)
	}
	return v
}

// One message of Qpid JMS in all its parts.
func TestTraceMessageOfQpidJMS(t *testing.T) {
	for _, line := range traceLines(t, "qpid-jms-2.10.txt") {
		m := jmsLine.FindStringSubmatch(line)
		if !strings.Contains(m[4], "corr") {
			continue
		}
		s, err := ParseSections(unescape(m[4]), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		h, _ := DecodeHeader(s.Header)
		if h != (Header{Durable: true, Priority: 7, TTL: Some(uint32(60000))}) {
			t.Errorf("header %+v", h)
		}
		ma, _ := DecodeMessageAnnotations(s.MessageAnnotations, Limits{})
		if v, _ := ma.Lookup("x-opt-jms-msg-type"); v != int8(5) {
			t.Errorf("annotations %+v", ma)
		}
		p, _ := DecodeProperties(s.Properties, Limits{})
		if id, _ := p.MessageID.(string); !strings.HasPrefix(id, "ID:") || p.To != "q" || p.Subject != "ty" || p.ReplyTo != "rt" ||
			p.CorrelationID != "corr" || p.CreationTime.V-p.AbsoluteExpiryTime.V > 0 || !p.CreationTime.Set {
			t.Errorf("properties %+v", p)
		}
		ap, _ := DecodeApplicationProperties(s.ApplicationProperties, Limits{})
		if !reflect.DeepEqual(ap, Map{{"k", "v"}}) {
			t.Errorf("application properties %+v", ap)
		}
		if v, err := s.Value(Limits{}); err != nil || v != "hi" {
			t.Errorf("body %v, %v", v, err)
		}
		return
	}
	t.Error("the trace has no such message")
}

var protonLine = regexp.MustCompile(`^transfer\(20\) \[handle=0x(\w+), delivery-id=0x(\w+), delivery-tag=b"(.*?)", message-format=0x0` +
	`(, state=@transactional-state\(52\) \[txn-id=b"(.*)"\])?\] \((\d+)\) (.*)$`)

func TestTraceOfPythonProton(t *testing.T) {
	var got []string
	for _, line := range traceLines(t, "python-proton-0.37.txt") {
		m := protonLine.FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("line %q", line)
		}
		handle, _ := strconv.ParseUint(m[1], 16, 32)
		id, _ := strconv.ParseUint(m[2], 16, 32)
		x := &Transfer{Handle: uint32(handle), DeliveryID: Some(uint32(id)), DeliveryTag: []byte(m[3]), MessageFormat: Some(uint32(0))}
		if m[4] != "" {
			x.State = &TransactionalState{TxnID: []byte(m[5])}
		}
		payload := unescape(m[7])
		if strconv.Itoa(len(payload)) != m[6] {
			t.Errorf("%s: %d bytes", line, len(payload))
		}
		f, _, err := DecodeFrame(AppendFrame(nil, 0, x, payload), Limits{})
		if err != nil || !reflect.DeepEqual(f.Body, Performative(x)) || !bytes.Equal(f.Payload, payload) {
			t.Errorf("%s: %+v, %v", line, f, err)
		}
		switch v := traceMessage(t, payload).(type) {
		case *Declare:
			got = append(got, "declare")
		case *Discharge:
			got = append(got, fmt.Sprintf("discharge %s %v", v.TxnID, v.Fail))
		default:
			got = append(got, fmt.Sprint(v))
		}
	}
	want := []string{"m0", "m1", "m2", "declare", "hello", "discharge tx1 false", "discharge tx1 true"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the transfers say %q, not %q", got, want)
	}
}
