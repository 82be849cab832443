package amqp

import (
	"bytes"
	"testing"
)

// hotFrames are what a busy connection sends and gets, in transactions too.
func hotFrames() map[string]Performative {
	txn := bytes.Repeat([]byte{7}, 24)
	return map[string]Performative{
		"transfer": &Transfer{
			Handle: 1, DeliveryID: Some(uint32(1000)), DeliveryTag: make([]byte, 20), MessageFormat: Some(uint32(0)),
			Settled: Some(false),
		},
		"transfer-tx": &Transfer{
			Handle: 1, DeliveryID: Some(uint32(1000)), DeliveryTag: make([]byte, 8), MessageFormat: Some(uint32(0)),
			State: &TransactionalState{TxnID: txn},
		},
		"disposition": &Disposition{Role: RoleReceiver, First: 1000, Last: Some(uint32(1010)), Settled: true, State: &Accepted{}},
		"disposition-tx": &Disposition{
			Role: RoleReceiver, First: 1000, Settled: true,
			State: &TransactionalState{TxnID: txn, Outcome: &Accepted{}},
		},
		"flow": &Flow{
			NextIncomingID: Some(uint32(1)), IncomingWindow: 2048, NextOutgoingID: 5, OutgoingWindow: 1 << 30,
			Handle: Some(uint32(3)), DeliveryCount: Some(uint32(70000)), LinkCredit: Some(uint32(1000)),
		},
	}
}

// The hot path doesn't allocate: neither Decoder nor the Append functions into a buffer with room.
func TestHotPathDoesNotAllocate(t *testing.T) {
	payload := make([]byte, 1024)
	for name, p := range hotFrames() {
		b := AppendFrame(nil, 1, p, payloadOf(p, payload))
		var d Decoder
		if n := testing.AllocsPerRun(100, func() {
			if _, _, err := d.Decode(b); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("decoding a %s allocates %v times", name, n)
		}
		buf := make([]byte, 0, 4096)
		if n := testing.AllocsPerRun(100, func() {
			switch x := p.(type) {
			case *Transfer:
				buf = AppendTransfer(buf[:0], 1, x, payload)
				buf, _ = AppendTransferPart(buf[:0], 1, x, payload, 512)
			case *Disposition:
				buf = AppendDisposition(buf[:0], 1, x)
			case *Flow:
				buf = AppendFlow(buf[:0], 1, x)
			}
			buf = AppendFrame(buf[:0], 1, p, nil)
		}); n != 0 {
			t.Errorf("encoding a %s allocates %v times", name, n)
		}
	}
	message := benchMessage()
	if n := testing.AllocsPerRun(100, func() {
		s, err := ParseSections(message, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := DecodeHeader(s.Header); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("finding the sections allocates %v times", n)
	}
}

func payloadOf(p Performative, payload []byte) []byte {
	if _, ok := p.(*Transfer); ok {
		return payload
	}
	return nil
}

func benchMessage() []byte {
	h := Header{Durable: true, Priority: DefaultPriority}
	b := AppendHeader(nil, &h)
	b = AppendMessageAnnotations(b, Map{{Symbol("x-opt-jms-msg-type"), int8(5)}, {Symbol("x-opt-jms-dest"), int8(0)}})
	b = AppendProperties(b, &Properties{
		MessageID: "ID:142c2604-b431-441f-b29d-173c7dbb299c:1:1:1-1", To: "orders",
		CreationTime: Some(Timestamp(1_700_000_000_000)),
	})
	b = AppendApplicationProperties(b, Map{{"counter", int64(17)}})
	return AppendData(b, make([]byte, 1024))
}

func BenchmarkDecode(b *testing.B) {
	payload := make([]byte, 1024)
	for name, p := range hotFrames() {
		frame := AppendFrame(nil, 1, p, payloadOf(p, payload))
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var d Decoder
			for b.Loop() {
				if _, _, err := d.Decode(frame); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	payload := make([]byte, 1024)
	buf := make([]byte, 0, 4096)
	for name, p := range hotFrames() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				switch x := p.(type) {
				case *Transfer:
					buf = AppendTransfer(buf[:0], 1, x, payload)
				case *Disposition:
					buf = AppendDisposition(buf[:0], 1, x)
				case *Flow:
					buf = AppendFlow(buf[:0], 1, x)
				}
			}
		})
	}
}

func BenchmarkParseSections(b *testing.B) {
	message := benchMessage()
	b.ReportAllocs()
	b.SetBytes(int64(len(message)))
	for b.Loop() {
		if _, err := ParseSections(message, Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}
