package selector

import (
	"runtime"
	"strings"
	"testing"
)

// order is a message as a JMS program sends it: Qpid JMS sets these properties, the program five of its own.
func order() *Message {
	return &Message{
		Header:             header(true),
		MessageAnnotations: annotations(symbol("x-opt-jms-dest"), int8(0), symbol("x-opt-jms-msg-type"), int8(5)),
		Properties: properties("ID:5f2b8a3e-94a1-4d0c-9c7b-0c1d2e3f4a5b:1:1:1-42", nil, "orders", nil, nil, nil, symbol("text/plain"), nil, nil,
			timestamp(1_790_000_000_000)),
		ApplicationProperties: applications("orderId", "A-1000042", "customer", int64(12345), "region", "EU", "price", 12.5, "express", false),
	}
}

// TestMatchAllocatesNothing: of every kind of operation and value.
func TestMatchAllocatesNothing(t *testing.T) {
	m := rich()
	m.Properties = properties(uint64(42), []byte("guest"), "to", "type", nil, uuid{1})
	m.ApplicationProperties = append(m.ApplicationProperties[:0:0], m.ApplicationProperties...)
	d128 := withProperties("d", raw{codeDecimal, 0x30, 0x41, 0xed, 0x09, 0xbe, 0xad, 0x87, 0xc0, 0x37, 0x8d, 0x8e, 0x63, 0xff, 0xff, 0xff, 0xff}, "e", raw{codeDecimal64, 0x31, 0xa0, 0, 0, 0, 0, 0, 1})
	for _, row := range []struct {
		m    *Message
		text string
	}{
		{order(), "price > 10 AND region = 'EU'"},
		{m, "JMSMessageID = '42' AND JMSCorrelationID LIKE '01%' AND JMSCorrelationID IN ('a', 'b', 'c') OR JMSMessageID LIKE '%_2%'"},
		{m, "uuid = '1b4e' OR uuid LIKE '%_b4e%' OR uuid IN ('1b4e') OR uuid = JMSCorrelationID"},
		{m, "price * quantity / 3 - 1 + -price > 1e300 OR price NOT BETWEEN 1 AND 20 OR quantity IN (1, 2.5)"},
		{m, "JMSDeliveryMode = 'NON_PERSISTENT' OR JMSPriority < 3 OR JMSRedelivered = FALSE OR TRUE = (JMSXDeliveryCount < 1)"},
		{m, strings.Repeat("größe LIKE '%_X_%' OR ", 20) + "a IS NULL AND b IS NULL"},
		{d128, "d < 1 OR e > 1"},
	} {
		s := mustParse(t, row.text)
		if n := testing.AllocsPerRun(100, func() { s.Match(row.m) }); n != 0 {
			t.Errorf("%s: %v allocations", row.text, n)
		}
	}
}

// TestAllocationIsBounded: no form takes more memory than a multiple of its length, about the size of a value for a byte.
func TestAllocationIsBounded(t *testing.T) {
	for _, text := range []string{
		"x IN ('" + strings.Repeat("a','", 2000) + "')", "x LIKE '" + strings.Repeat("%_", 4000) + "'",
		strings.Repeat("a OR ", 1600) + "a", strings.Repeat("1=1 OR ", 1100) + "a",
	} {
		form := mustParse(t, text).AppendTo(nil)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		const rounds = 10
		for range rounds {
			if _, err := Decode(form); err != nil {
				t.Fatal(err)
			}
		}
		runtime.ReadMemStats(&after)
		if n := (after.TotalAlloc - before.TotalAlloc) / rounds; n > uint64(len(text))*200 {
			t.Errorf("%.20s: %d bytes for a text of %d and a form of %d", text, n, len(text), len(form))
		}
	}
}

func BenchmarkMatch(b *testing.B) {
	for _, row := range []struct{ name, text string }{
		{"issue", "price > 10 AND region = 'EU'"},
		{"miss", "price > 100 AND region = 'EU'"},
		{"string", "region = 'US'"},
		{"absent", "colour = 'red'"},
		{"header", "JMSPriority > 4"},
		{"properties", "JMSTimestamp > 1000"},
		{"like", "orderId LIKE 'A-%42'"},
		{"in", "region IN ('AF', 'AS', 'AU', 'EU', 'NA', 'SA')"},
		{"long", strings.Repeat("customer = 1 OR ", 500) + "FALSE"},
	} {
		b.Run(row.name, func(b *testing.B) {
			s, m := mustParse(b, row.text), order()
			b.ReportAllocs()
			for b.Loop() {
				s.Match(m)
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		mustParse(b, "price > 10 AND region = 'EU'")
	}
}
