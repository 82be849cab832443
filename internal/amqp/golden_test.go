package amqp

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"reflect"
	"strings"
	"testing"
)

// wire reads bytes as they are written by hand in the golden tables: hexadecimal bytes, and words of text behind a quote.
func wire(t testing.TB, s string) []byte {
	t.Helper()
	var b []byte
	for _, f := range strings.Fields(s) {
		if text, ok := strings.CutPrefix(f, "'"); ok {
			b = append(b, text...)
			continue
		}
		h, err := hex.DecodeString(f)
		if err != nil {
			t.Fatalf("golden bytes %q: %v", f, err)
		}
		b = append(b, h...)
	}
	return b
}

type golden struct {
	name string
	wire string
	want any
}

var notFound = &Error{Condition: ErrCondNotFound}

const (
	wireNotFound = " 00 53 1d c0 11 01 a3 0e 'amqp:not-found "
	wireTx       = " 00 53 34 c0 04 01 a0 01 't "
	wireTxAccept = " 00 53 34 c0 08 02 a0 01 't 00 53 24 45 "
)

// goldenComposites are written by hand from the specification: each is what we write and what we read.
var goldenComposites = []golden{
	{"open, least", "00 53 10 c0 03 01 a1 00", NewOpen("")},
	{
		"open, all", `00 53 10 c0 37 0a  a1 02 'c1  a1 01 'h  70 00 10 00 00  60 00 ff  70 00 00 75 30
		e0 08 01 a3 05 'en-US  40  e0 06 02 a3 01 'a 01 'b  e0 04 01 a3 01 'd  c1 07 02 a3 01 'p a1 01 'q`,
		&Open{
			ContainerID: "c1", Hostname: "h", MaxFrameSize: 1 << 20, ChannelMax: 255, IdleTimeout: Some(uint32(30000)),
			OutgoingLocales: []Symbol{"en-US"}, OfferedCapabilities: []Symbol{"a", "b"}, DesiredCapabilities: []Symbol{"d"},
			Properties: Map{{Symbol("p"), "q"}},
		},
	},
	{
		"begin, least", "00 53 11 c0 0a 04  40 43 52 64 70 7f ff ff ff",
		&Begin{IncomingWindow: 100, OutgoingWindow: 1<<31 - 1, HandleMax: DefaultHandleMax},
	},
	{
		"begin, all", `00 53 11 c0 36 08  60 00 05  52 01  52 02  52 03  52 ff  e0 13 01 a3 10 'oncemq:session-1  40
		c1 12 02 a3 0e 'oncemq:resumed 41`,
		&Begin{
			RemoteChannel: Some(uint16(5)), NextOutgoingID: 1, IncomingWindow: 2, OutgoingWindow: 3, HandleMax: 255,
			OfferedCapabilities: []Symbol{CapOncemqSession}, Properties: Map{{PropResumed, true}},
		},
	},
	{"attach, least", "00 53 12 c0 06 03  a1 01 'l 43 42", NewAttach("l", RoleSender)},
	{
		"attach, all", `00 53 12 c0 3c 0e  a1 01 'l  52 01  41  50 00  50 01  00 53 28 45  00 53 29 c0 04 01 a1 01 't
		c1 0c 04 a0 01 01 40 a0 01 02 00 53 24 45  41  52 07  80 00 00 00 00 00 10 00 00  40  e0 04 01 a3 01 'd  c1 01 00`,
		&Attach{
			Name: "l", Handle: 1, Role: RoleReceiver, SenderSettleMode: SenderSettleUnsettled,
			ReceiverSettleMode: ReceiverSettleSecond, Source: &Source{ExpiryPolicy: ExpirySessionEnd},
			Target:    &Target{Address: Some("t"), ExpiryPolicy: ExpirySessionEnd},
			Unsettled: []Unsettled{{Tag: []byte{1}}, {Tag: []byte{2}, State: &Accepted{}}}, IncompleteUnsettled: true,
			InitialDeliveryCount: Some(uint32(7)), MaxMessageSize: 1 << 20, DesiredCapabilities: []Symbol{"d"}, Properties: Map{},
		},
	},
	{
		"attach, coordinator", "00 53 12 c0 0d 07  a1 01 'l 43 42 40 40 40 00 53 30 45",
		&Attach{Name: "l", SenderSettleMode: SenderSettleMixed, Coordinator: &Coordinator{}},
	},
	{
		"flow, session", "00 53 13 c0 08 04  52 05 52 0a 43 52 14",
		&Flow{NextIncomingID: Some(uint32(5)), IncomingWindow: 10, OutgoingWindow: 20},
	},
	{
		"flow, all", `00 53 13 c0 2a 0b  40  70 00 00 07 ff  52 01  70 7f ff ff ff  43  70 ff ff ff fe  70 00 00 03 e8  43  41  41
		c1 0c 02 a3 06 'txn-id a0 01 aa`,
		&Flow{
			IncomingWindow: 2047, NextOutgoingID: 1, OutgoingWindow: 1<<31 - 1, Handle: Some(uint32(0)),
			DeliveryCount: Some(uint32(0xfffffffe)), LinkCredit: Some(uint32(1000)), Available: Some(uint32(0)), Drain: true,
			Echo: true, Properties: Map{{Symbol("txn-id"), []byte{0xaa}}},
		},
	},
	{"transfer, least", "00 53 14 c0 02 01 43", &Transfer{}},
	{
		"transfer, usual", "00 53 14 c0 09 05  43 52 01 a0 01 00 43 42",
		&Transfer{DeliveryID: Some(uint32(1)), DeliveryTag: []byte{0}, MessageFormat: Some(uint32(0)), Settled: Some(false)},
	},
	{
		"transfer, settled, tag without bytes", "00 53 14 c0 07 05  43 43 a0 00 43 41",
		&Transfer{DeliveryID: Some(uint32(0)), DeliveryTag: []byte{}, MessageFormat: Some(uint32(0)), Settled: Some(true)},
	},
	{
		"transfer, all", "00 53 14 c0 1d 0b  52 02  70 ff ff ff ff  a0 02 01 02  43  41  41  50 01 " + wireTx + " 41 41 41",
		&Transfer{
			Handle: 2, DeliveryID: Some(uint32(0xffffffff)), DeliveryTag: []byte{1, 2}, MessageFormat: Some(uint32(0)),
			Settled: Some(true), More: true, ReceiverSettleMode: Some(ReceiverSettleSecond),
			State: &TransactionalState{TxnID: []byte("t")}, Resume: true, Aborted: true, Batchable: true,
		},
	},
	{"disposition, least", "00 53 15 c0 03 02 41 43", &Disposition{Role: RoleReceiver}},
	{
		"disposition, range", "00 53 15 c0 0b 05  41 52 03 52 05 41 00 53 24 45",
		&Disposition{Role: RoleReceiver, First: 3, Last: Some(uint32(5)), Settled: true, State: &Accepted{}},
	},
	{
		"disposition, transactional", "00 53 15 c0 13 06  42 43 40 40 " + wireTxAccept + " 41",
		&Disposition{State: &TransactionalState{TxnID: []byte("t"), Outcome: &Accepted{}}, Batchable: true},
	},
	{"detach, least", "00 53 16 c0 02 01 43", &Detach{}},
	{"detach, error", "00 53 16 c0 1a 03  52 01 41" + wireNotFound, &Detach{Handle: 1, Closed: true, Error: notFound}},
	{"end, least", "00 53 17 45", &End{}},
	{
		"end, error", "00 53 17 c0 24 01  00 53 1d c0 1e 03 a3 0e 'amqp:not-found a1 02 'no c1 07 02 a3 01 'k a1 01 'v",
		&End{Error: &Error{Condition: ErrCondNotFound, Description: "no", Info: Map{{Symbol("k"), "v"}}}},
	},
	{"close, least", "00 53 18 45", &Close{}},
	{"close, error", "00 53 18 c0 17 01" + wireNotFound, &Close{Error: notFound}},

	{
		"sasl-mechanisms", "00 53 40 c0 15 01 e0 12 02 a3 05 'PLAIN 09 'ANONYMOUS",
		&SASLMechanisms{Mechanisms: []Symbol{"PLAIN", "ANONYMOUS"}},
	},
	{"sasl-init, least", "00 53 41 c0 0c 01 a3 09 'ANONYMOUS", &SASLInit{Mechanism: "ANONYMOUS"}},
	{
		"sasl-init, all", "00 53 41 c0 11 03 a3 09 'ANONYMOUS a0 00 a1 01 'h",
		&SASLInit{Mechanism: "ANONYMOUS", InitialResponse: []byte{}, Hostname: "h"},
	},
	{"sasl-challenge", "00 53 42 c0 04 01 a0 01 'c", &SASLChallenge{Challenge: []byte("c")}},
	{"sasl-response", "00 53 43 c0 03 01 a0 00", &SASLResponse{Response: []byte{}}},
	{"sasl-outcome, least", "00 53 44 c0 03 01 50 00", &SASLOutcome{}},
	{"sasl-outcome, all", "00 53 44 c0 07 02 50 01 a0 02 'ab", &SASLOutcome{Code: SASLCodeAuth, AdditionalData: []byte("ab")}},

	{"received", "00 53 23 c0 05 02 52 01 53 02", &Received{SectionNumber: 1, SectionOffset: 2}},
	{"accepted", "00 53 24 45", &Accepted{}},
	{"rejected, least", "00 53 25 45", &Rejected{}},
	{"rejected, error", "00 53 25 c0 17 01" + wireNotFound, &Rejected{Error: notFound}},
	{"released", "00 53 26 45", &Released{}},
	{"modified, least", "00 53 27 45", &Modified{}},
	{"modified, gap", "00 53 27 c0 03 02 40 41", &Modified{UndeliverableHere: true}},
	{
		"modified, all", "00 53 27 c0 0b 03 41 41 c1 06 02 a3 01 'k 52 01",
		&Modified{DeliveryFailed: true, UndeliverableHere: true, MessageAnnotations: Map{{Symbol("k"), uint32(1)}}},
	},
	{"declared", "00 53 33 c0 04 01 a0 01 't", &Declared{TxnID: []byte("t")}},
	{"transactional-state", wireTx, &TransactionalState{TxnID: []byte("t")}},
	{"transactional-state, outcome", wireTxAccept, &TransactionalState{TxnID: []byte("t"), Outcome: &Accepted{}}},

	{"source, least", "00 53 28 45", &Source{ExpiryPolicy: ExpirySessionEnd}},
	{
		"source, consumer", `00 53 28 c0 5c 0b  a1 01 'q 40 a3 0b 'link-detach 40 40 40 40
		c1 1c 02 a3 0c 'jms-selector 00 80 00 00 46 8c 00 00 00 04 a1 01 'x
		00 53 27 c0 02 01 41  e0 15 01 a3 12 'amqp:accepted:list  e0 08 01 a3 05 'queue`,
		&Source{
			Address: Some("q"), ExpiryPolicy: ExpiryLinkDetach,
			Filter:         Map{{FilterKeyJMS, &Described{Descriptor: FilterSelectorCode, Value: "x"}}},
			DefaultOutcome: &Modified{DeliveryFailed: true}, Outcomes: []Symbol{OutcomeAccepted}, Capabilities: []Symbol{CapQueue},
		},
	},
	{
		"source, browser", "00 53 28 c0 0f 07  a1 01 'q 40 40 40 40 40 a3 04 'copy",
		&Source{Address: Some("q"), ExpiryPolicy: ExpirySessionEnd, DistributionMode: DistributionCopy},
	},
	{"target, least", "00 53 29 45", &Target{ExpiryPolicy: ExpirySessionEnd}},
	{
		"target, dynamic", `00 53 29 c0 26 06  40 52 01 a3 05 'never 52 0a 41
		c1 16 02 a3 0f 'lifetime-policy 00 53 2b 45`,
		&Target{
			Durable: DurabilityConfiguration, ExpiryPolicy: ExpiryNever, Timeout: 10, Dynamic: true,
			DynamicNodeProperties: Map{{PropLifetimePolicy, &Described{Descriptor: uint64(0x2b), Value: List{}}}},
		},
	},
	{"coordinator, least", "00 53 30 45", &Coordinator{}},
	{
		"coordinator, all", "00 53 30 c0 1d 01 e0 1a 01 a3 17 'amqp:local-transactions",
		&Coordinator{Capabilities: []Symbol{CapLocalTransactions}},
	},
	{"declare", "00 53 31 45", &Declare{}},
	{"declare, global", "00 53 31 c0 04 01 a0 01 'g", &Declare{GlobalID: []byte("g")}},
	{"discharge", "00 53 32 c0 05 02 a0 01 't 42", &Discharge{TxnID: []byte("t")}},
	{"discharge, fail", "00 53 32 c0 05 02 a0 01 't 41", &Discharge{TxnID: []byte("t"), Fail: true}},
	{"prepare", "00 a3 13 'oncemq:prepare:list c0 07 02 a0 01 't a0 01 'x", &Prepare{TxnID: []byte("t"), XID: []byte("x")}},
	{"error, least", wireNotFound, notFound},
}

// readComposite reads any composite of this package, as a value of its own.
func readComposite(b []byte, lim Limits) (any, error) {
	r := newReader(b, lim)
	if r.byte() != 0x00 {
		r.fail("no descriptor")
	}
	code := r.descriptor()
	var v interface{ decode(*reader) }
	switch code {
	case codeError:
		v = new(Error)
	case codeSource:
		v = new(Source)
	case codeTarget:
		v = new(Target)
	case codeCoordinator:
		v = new(Coordinator)
	case codeDeclare:
		v = new(Declare)
	case codeDischarge:
		v = new(Discharge)
	case codePrepare:
		v = new(Prepare)
	}
	var res any = v
	if v != nil {
		v.decode(&r)
	} else if s := r.stateOf(code); s != nil {
		res = s
	} else {
		var d Decoder
		d.r = r
		res = d.performative(code)
		r = d.r
	}
	return res, r.whole()
}

func TestGoldenComposites(t *testing.T) {
	for _, g := range goldenComposites {
		t.Run(g.name, func(t *testing.T) {
			b := wire(t, g.wire)
			if got := g.want.(composite).appendTo(nil); !bytes.Equal(got, b) {
				t.Errorf("written %x\n   want %x", got, b)
			}
			got, err := readComposite(b, Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, g.want) {
				t.Errorf("read %+v\nwant %+v", got, g.want)
			}
		})
	}
}

// Each composite is read from every legal spelling of itself: the descriptor as a ulong of 8 bytes and as a symbol of either
// size, the list in its large kind, and with its absent fields written as null.
func TestGoldenCompositesOtherEncodings(t *testing.T) {
	symbolOf := map[uint64]string{}
	for s, c := range codeOfSymbol {
		symbolOf[c] = s
	}
	for _, g := range goldenComposites {
		b := wire(t, g.wire)
		if b[1] != 0x53 {
			continue
		}
		code := uint64(b[2])
		name := symbolOf[code]
		if name == "" {
			t.Fatalf("%s: no symbolic descriptor for 0x%x", g.name, code)
		}
		fields := b[3:]
		var large []byte
		if fields[0] == 0xc0 {
			large = []byte{0xd0, 0, 0, 0, fields[1] + 3, 0, 0, 0, fields[2]}
			large = append(large, fields[3:]...)
		} else {
			large = []byte{0xd0, 0, 0, 0, 4, 0, 0, 0, 0}
		}
		for _, descriptor := range [][]byte{
			binary.BigEndian.AppendUint64([]byte{0x00, 0x80}, code),
			append([]byte{0x00, 0xa3, byte(len(name))}, name...),
			append([]byte{0x00, 0xb3, 0, 0, 0, byte(len(name))}, name...),
		} {
			for _, list := range [][]byte{fields, large} {
				in := append(append([]byte{}, descriptor...), list...)
				got, err := readComposite(in, Limits{})
				if err != nil {
					t.Errorf("%s as %x: %v", g.name, in, err)
				} else if !reflect.DeepEqual(got, g.want) {
					t.Errorf("%s as %x: read %+v", g.name, in, got)
				}
			}
		}
	}
}

// Bytes that we don't write but must read.
func TestReadOnlyEncodings(t *testing.T) {
	for _, g := range []golden{
		{
			"a single symbol where there may be more", "00 53 30 c0 1a 01 a3 17 'amqp:local-transactions",
			&Coordinator{Capabilities: []Symbol{CapLocalTransactions}},
		},
		{
			"array32 of symbols", "00 53 30 c0 15 01 f0 00 00 00 0f 00 00 00 02 b3 00 00 00 01 'a 00 00 00 01 'b",
			&Coordinator{Capabilities: []Symbol{"a", "b"}},
		},
		{"array without elements", "00 53 30 c0 05 01 e0 02 00 a3", &Coordinator{Capabilities: []Symbol{}}},
		{
			"booleans of two bytes, uints of five", "00 53 15 c0 0f 04 56 01 70 00 00 00 00 70 00 00 00 05 56 01",
			&Disposition{Role: RoleReceiver, Last: Some(uint32(5)), Settled: true},
		},
		{"nulls at the end", "00 53 16 c0 04 03 43 40 40", &Detach{}},
		{"defaults written out", "00 53 10 c0 0c 04 a1 00 40 70 ff ff ff ff 60 ff ff", NewOpen("")},
		{"string and binary of the large kind", "00 53 10 c0 07 01 b1 00 00 00 01 'c", NewOpen("c")},
		{"declare as python-proton writes it", "00 a3 11 'amqp:declare:list d0 00 00 00 05 00 00 00 01 40", &Declare{}},
		{
			"discharge as python-proton writes it", "00 a3 13 'amqp:discharge:list d0 00 00 00 0a 00 00 00 02 a0 03 'tx1 42",
			&Discharge{TxnID: []byte("tx1")},
		},
		{"fail absent", "00 53 32 c0 04 01 a0 01 't", &Discharge{TxnID: []byte("t")}},
	} {
		got, err := readComposite(wire(t, g.wire), Limits{})
		if err != nil {
			t.Errorf("%s: %v", g.name, err)
		} else if !reflect.DeepEqual(got, g.want) {
			t.Errorf("%s: read %+v, want %+v", g.name, got, g.want)
		}
	}
}
