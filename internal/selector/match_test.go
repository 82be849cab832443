package selector

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// evaluation is a selector and what it comes to: T, F or U.
type evaluation struct{ text, want string }

func check(t *testing.T, m *Message, rows []evaluation) {
	t.Helper()
	for _, row := range rows {
		if got := result(t, row.text, m); got != condNamed(row.want) {
			t.Errorf("%.80s: %s, want %s", row.text, got, condNamed(row.want))
		}
	}
}

// rich is the message of most rows.
func rich() *Message {
	return &Message{
		Header:             header(true, uint8(7), uint32(60_000), false, uint32(9)),
		MessageAnnotations: annotations(symbol("x-opt-ORIG-ADDRESS"), "orders", symbol("x-opt-delivery-time"), int64(5000)),
		Properties: properties("ID:c-1", []byte("guest"), "queue://orders", "invoice", "replies", "corr-1", symbol("text/plain"), symbol("gzip"),
			timestamp(9000), timestamp(1000), "g1", uint32(3), "rg"),
		ApplicationProperties: applications(
			"region", "EU", "price", 12.5, "quantity", int32(4), "weight", float32(1.5), "paid", true, "shipped", false,
			"nothing", nil, "empty", "", "quoted", "it's", "and", "reserved", "with space", "sp", "größe", "XL", "$cost_2", int64(2),
			"a.b", "dotted", symbol("sym"), symbol("bol"), "bytes", []byte("raw"), "tiny", int8(-5), "small", int16(-300), "ub", uint8(200), "us", uint16(60_000),
			"ui", uint32(4_000_000_000), "ul", uint64(5), "huge", uint64(math.MaxUint64), "at", timestamp(-1), "nan", math.NaN(), "inf", math.Inf(1),
			"uuid", uuid{0x1b, 0x4e, 0x28, 0xba, 0x2f, 0xa1, 0x11, 0xd2, 0x88, 0x3f, 0x00, 0x16, 0xd3, 0xcc, 0xa4, 0x27}, "char", char('x'),
			"max", int64(math.MaxInt64), "min", int64(math.MinInt64), "double", 1.1, "float", float32(1.1), "list", raw{codeList0}, "big", int64(1<<53+1),
			"i0", raw{codeUint0}, "i1", raw{codeUint8, 9}, "i2", raw{codeUlong8, 250}, "i3", raw{codeInt8, 0xfe}, "i4", raw{codeLong8, 0x80}, "b1", raw{codeBoolean, 1}, "b2", raw{codeBoolean, 2},
			"described", raw{0, codeUlong8, 9, codeInt8, 1}, "u0", raw{codeUlong0}, "negative", int32(-7)),
		DeliveryCount: 2,
	}
}

func TestComparison(t *testing.T) {
	check(t, rich(), []evaluation{
		{"region = 'EU'", "T"},
		{"region = 'US'", "F"},
		{"region = 'eu'", "F"},
		{"region <> 'US'", "T"},
		{"region <> 'EU'", "F"},
		{"'EU' = region", "T"},
		{"price > 12", "T"},
		{"price >= 12.5", "T"},
		{"price > 12.5", "F"},
		{"price < 12.5", "F"},
		{"price <= 12.5", "T"},
		{"price = 12.5", "T"},
		{"price <> 12.5", "F"},
		{"10 < price", "T"},
		{"quantity = 4", "T"},
		{"quantity = 4.0", "T"},
		{"quantity = 4.0000001", "F"},
		{"quantity <> 5", "T"},
		{"quantity > weight", "T"},
		{"paid = TRUE", "T"},
		{"paid = true", "T"},
		{"paid <> FALSE", "T"},
		{"paid = shipped", "F"},
		{"paid <> shipped", "T"},
		{"shipped = FALSE", "T"},
		// Types that aren't like: false, whatever the operator (JMS 3.8.1.2).
		{"region = 4", "F"},
		{"region <> 4", "F"},
		{"quantity = '4'", "F"},
		{"quantity <> '4'", "F"},
		{"paid = 'true'", "F"},
		{"paid = 1", "F"},
		{"paid <> 1", "F"},
		{"NOT (quantity = '4')", "T"},
		{"'a' = 1", "F"},
		{"'a' = 'a'", "T"},
		{"TRUE = TRUE", "T"},
		{"1 = 1.0", "T"},
		// Strings and booleans have no order.
		{"region > quantity", "F"},
		{"region >= region", "F"},
		{"paid <= paid", "F"},
		{"region >= sym", "F"},
		{"region < sym", "F"},
		{"paid > shipped", "F"},
		// NULL: unknown, before any type is looked at.
		{"nothing = 1", "U"},
		{"absent = 1", "U"},
		{"absent <> 1", "U"},
		{"absent = absent", "U"},
		{"region > absent", "U"},
		{"absent > region", "U"},
		{"paid = absent", "U"},
		{"NOT (absent = 1)", "U"},
		{"region = absent", "U"},
		{"absent = 'EU'", "U"},
		// Conditions as operands.
		{"(price > 10) = TRUE", "T"},
		{"(price > 10) = paid", "T"},
		{"(absent > 10) = TRUE", "U"},
		{"(price > 10) <> (price < 10)", "T"},
		{"TRUE = (region = 'EU')", "T"},
		{"TRUE = (region = 'US')", "F"},
		// A name alone stands for name = TRUE.
		{"paid", "T"},
		{"shipped", "F"},
		{"NOT shipped", "T"},
		{"absent", "U"},
		{"NOT absent", "U"},
		{"region", "F"},
		{"(paid)", "T"},
		{"TRUE", "T"},
		{"false", "F"},
		{"", "T"},
		{" \t\r\n\f", "T"},
	})
}

// The truth tables of JMS 3.8.1.2, whole.
func TestThreeValuedLogic(t *testing.T) {
	m := withProperties("t", true, "f", false)
	const sides, and, or, not = "tfu", "TFUFFFUFU", "TTTTFUTUU", "FTU"
	for i, a := range sides {
		if got := result(t, "NOT "+string(a), m); got != condNamed(not[i:i+1]) {
			t.Errorf("NOT %c: %s", a, got)
		}
		for k, b := range sides {
			check(t, m, []evaluation{
				{string(a) + " AND " + string(b), and[3*i+k : 3*i+k+1]},
				{string(a) + " OR " + string(b), or[3*i+k : 3*i+k+1]},
			})
		}
	}
}

func TestLogic(t *testing.T) {
	m := withProperties("t", true, "f", false, "n", 3)
	check(t, m, []evaluation{
		{"t OR t AND f", "T"},
		{"(t OR t) AND f", "F"},
		{"NOT f AND t", "T"},
		{"NOT (f AND t)", "T"},
		{"NOT t OR t", "T"},
		{"NOT (t OR t)", "F"},
		{"NOT n = 4", "T"},
		{"NOT n = 3", "F"},
		{"NOT NOT t", "T"},
		{"NOT NOT NOT t", "F"},
		{"not Not t and T", "U"},
		{"f OR f OR f OR t", "T"},
		{"t AND t AND t AND f", "F"},
		{"u OR f OR u OR t", "T"},
		{"u AND t AND u AND f", "F"},
		{"u AND t AND u", "U"},
		{"f OR u OR f", "U"},
		{"t AND (f OR t) AND (t OR u)", "T"},
		{"f AND (f OR t) OR (t AND NOT u)", "U"},
		{"(f OR (t AND (f OR (t AND t))))", "T"},
		{"f OR t AND f OR t", "T"},
		{"t AND f OR f AND t", "F"},
		{"n > 1 AND n < 5 AND NOT n = 4 OR f", "T"},
		{"(n = 1 OR n = 2 OR n = 3) AND t", "T"},
		{"(n = 1 OR n = 2) AND t", "F"},
		{"n=1OR(n=3)AND(t)", "T"},
	})
}

func TestPredicates(t *testing.T) {
	check(t, rich(), []evaluation{
		{"quantity BETWEEN 4 AND 6", "T"},
		{"quantity BETWEEN 1 AND 4", "T"},
		{"quantity BETWEEN 5 AND 6", "F"},
		{"quantity BETWEEN 6 AND 1", "F"},
		{"quantity NOT BETWEEN 5 AND 6", "T"},
		{"quantity NOT BETWEEN 4 AND 6", "F"},
		{"price BETWEEN 12 AND 13", "T"},
		{"price BETWEEN quantity AND quantity * 4", "T"},
		{"price + 1 BETWEEN 13 AND 14 AND paid", "T"},
		{"12 BETWEEN quantity AND price", "T"},
		{"absent BETWEEN 1 AND 2", "U"},
		{"absent NOT BETWEEN 1 AND 2", "U"},
		{"quantity BETWEEN absent AND 6", "U"},
		{"quantity BETWEEN absent AND 1", "F"},
		{"quantity BETWEEN 9 AND absent", "F"},
		{"quantity NOT BETWEEN 9 AND absent", "T"},
		{"region BETWEEN 1 AND 2", "F"},
		{"region NOT BETWEEN 1 AND 2", "F"},
		{"region IN ('EU')", "T"},
		{"region IN ('US', 'UK', 'EU', 'CH')", "T"},
		{"region IN ('US', 'UK', 'CH')", "F"},
		{"region NOT IN ('US', 'UK')", "T"},
		{"region NOT IN ('US', 'EU')", "F"},
		{"absent IN ('EU')", "U"},
		{"absent NOT IN ('EU')", "U"},
		{"quantity IN ('4')", "F"},
		{"quantity NOT IN ('4')", "T"},
		{"empty IN ('')", "T"},
		{"quantity IN (1, 2, 4)", "T"},
		{"quantity IN (-4, +4.0)", "T"},
		{"quantity IN (-4)", "F"},
		{"quantity NOT IN (1, 2)", "T"},
		{"region IN (1)", "F"},
		{"absent IN (1)", "U"},
		{"uuid IN ('1b4e28ba-2fa1-11d2-883f-0016d3cca427')", "T"},
		{"quoted IN ('it''s')", "T"},
		{"region IS NULL", "F"},
		{"region IS NOT NULL", "T"},
		{"absent IS NULL", "T"},
		{"absent IS NOT NULL", "F"},
		{"nothing IS NULL", "T"},
		{"nothing is not null", "F"},
		{"empty IS NULL", "F"},
		{"NOT absent IS NULL", "F"},
		{"(absent) IS NULL", "T"},
	})
}

// TestInLongLists: every member of a list is found, and nothing beside them.
func TestInLongLists(t *testing.T) {
	for n := 1; n < 20; n++ {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf("'%02d'", 2*i))
		}
		s := mustParse(t, "x IN ("+strings.Join(list, ",")+")")
		for i := -1; i < 2*n; i++ {
			if got := s.Match(withProperties("x", fmt.Sprintf("%02d", i))); got != (i >= 0 && i%2 == 0) {
				t.Errorf("%d in a list of %d: %v", i, n, got)
			}
		}
	}
}

func TestArithmetic(t *testing.T) {
	check(t, rich(), []evaluation{
		{"quantity + 1 = 5", "T"},
		{"quantity - 1 = 3", "T"},
		{"quantity * 2 = 8", "T"},
		{"quantity / 3 = 1", "T"},
		{"quantity / 3.0 > 1.3", "T"},
		{"2 + 3 * 4 = 14", "T"},
		{"(2 + 3) * 4 = 20", "T"},
		{"10 - 4 - 3 = 3", "T"},
		{"100 / 10 / 5 = 2", "T"},
		{"100 / (10 / 5) = 50", "T"},
		{"-quantity = -4", "T"},
		{"- -quantity = 4", "T"},
		{"--quantity = 4", "T"},
		{"+quantity = 4", "T"},
		{"-(quantity + 1) = -5", "T"},
		{"3 - -1 = 4", "T"},
		{"3--1=4", "T"},
		{"-price = -12.5", "T"},
		{"price * quantity = 50", "T"},
		{"price*quantity+1 > 50.5", "T"},
		{"-7 / 2 = -3", "T"},
		{"0.1 + 0.2 = 0.3", "F"},
		// Integers are Java's long: they wrap around.
		{"max + 1 = min", "T"},
		{"min - 1 = max", "T"},
		{"-min = min", "T"},
		{"min / -1 = min", "T"},
		{"max * 2 = -2", "T"},
		{"max + 1.0 = max", "T"},
		// The int of Java is no narrower here.
		{"2147483647 + 1 = 2147483648", "T"},
		// Division by zero: NULL for integers, infinite for floats.
		{"quantity / 0 = 1", "U"},
		{"quantity / 0 <> 1", "U"},
		{"quantity / 0.0 = inf", "T"},
		{"-quantity / 0.0 < -1e308", "T"},
		{"0.0 / 0 = 0", "F"},
		{"0.0 / 0 <> 0", "T"},
		{"nan = nan", "F"},
		{"nan <> nan", "T"},
		{"nan < 1", "F"},
		{"nan >= 1", "F"},
		{"-0.0 = 0", "T"},
		// NULL and what is no number.
		{"absent + 1 = 1", "U"},
		{"1 + absent = 1", "U"},
		{"-absent = 1", "U"},
		{"+absent = 1", "U"},
		{"region + 1 = 1", "U"},
		{"-region = 1", "U"},
		{"+region = 'EU'", "U"},
		{"paid * 1 = 1", "U"},
		// Numeric promotion.
		{"double = 1.1", "T"},
		{"float = 1.1", "F"},
		{"float = 1.1F", "T"},
		{"float > 1.1", "T"},
		{"big = 9007199254740993", "T"},
		{"big = 9007199254740992", "F"},
		{"big = 9007199254740992.0", "T"},
	})
}

func TestLiterals(t *testing.T) {
	check(t, rich(), []evaluation{
		{"255 = 0xFF", "T"},
		{"255 = 0XffL", "T"},
		{"8 = 010", "T"},
		{"0 = 00", "T"},
		{"5 = 0b101", "T"},
		{"57L = 57", "T"},
		{"57l = 57", "T"},
		{"1_000 = 1000", "T"},
		{"7. = 7", "T"},
		{".5 = 0.5", "T"},
		{"7E3 = 7000", "T"},
		{"7e+3 = 7000", "T"},
		{"-57.9E2 = -5790", "T"},
		{"1.5e-1 = 0.15", "T"},
		{"7D = 7", "T"},
		{"7.5d = 7.5", "T"},
		{"0.1f = 0.1", "F"},
		{"0.5F = 0.5", "T"},
		{"010.0 = 10", "T"},
		{"0x1p4 = 16", "T"},
		{"0x.8p1 = 1", "T"},
		{"max = 9223372036854775807", "T"},
		{"min = -9223372036854775808", "T"},
		{"min = - 9223372036854775808", "T"},
		{"min = 0x8000000000000000", "T"},
		{"-1 = 0xFFFFFFFFFFFFFFFF", "T"},
		{"4294967295 = 0xFFFFFFFF", "T"},
		{"1e-999 = 0", "T"},
		{"quoted = 'it''s'", "T"},
		{"empty = ''", "T"},
		{"'''' = ''''", "T"},
		{"'Ü' = 'Ü'", "T"},
		{"'a\nb' = 'a\nb'", "T"},
		{"quantity=4AND paid", "T"},
		{"quantity>3AND price<13", "T"},
	})
}

func TestNames(t *testing.T) {
	check(t, rich(), []evaluation{
		{"JMSDeliveryMode = 'PERSISTENT'", "T"},
		{"JMSDeliveryMode = 'NON_PERSISTENT'", "F"},
		{"JMSPriority = 7", "T"},
		{"JMSMessageID = 'ID:c-1'", "T"},
		{"JMSTimestamp = 1000", "T"},
		{"JMSCorrelationID = 'corr-1'", "T"},
		{"JMSType = 'invoice'", "T"},
		{"JMSDestination = 'queue://orders'", "T"},
		{"JMSReplyTo = 'replies'", "T"},
		{"JMSExpiration = 9000", "T"},
		{"JMSDeliveryTime = 5000", "T"},
		{"JMSRedelivered = TRUE", "T"},
		{"JMSXGroupID = 'g1'", "T"},
		{"JMSXGroupSeq = 3", "T"},
		{"JMSXUserID = 'guest'", "T"},
		{"JMSXDeliveryCount = 3", "T"},
		{"header.durable", "T"},
		{"header.priority = 7", "T"},
		{"header.ttl = 60000", "T"},
		{"header.first_acquirer = FALSE", "T"},
		{"header.delivery_count = 2", "T"},
		{"properties.message_id = 'ID:c-1'", "T"},
		{"properties.user_id = 'guest'", "T"},
		{"properties.to LIKE 'queue://%'", "T"},
		{"properties.subject = 'invoice'", "T"},
		{"properties.reply_to = 'replies'", "T"},
		{"properties.correlation_id = 'corr-1'", "T"},
		{"properties.content_type = 'text/plain'", "T"},
		{"properties.content_encoding = 'gzip'", "T"},
		{"properties.absolute_expiry_time = 9000", "T"},
		{"properties.creation_time = 1000", "T"},
		{"properties.group_id = 'g1'", "T"},
		{"properties.group_sequence = 3", "T"},
		{"properties.reply_to_group_id = 'rg'", "T"},
		{`"properties.group-id" = 'g1'`, "T"},
		{`"header.delivery-count" = 2`, "T"},
		{`"m.x-opt-ORIG-ADDRESS" = 'orders'`, "T"},
		{`"message-annotations.x-opt-ORIG-ADDRESS" = 'orders'`, "T"},
		{"application_properties.region = 'EU'", "T"},
		{`"application-properties.with space" = 'sp'`, "T"},
		{`"with space" = 'sp'`, "T"},
		{`"and" = 'reserved'`, "T"},
		{`"region" = 'EU'`, "T"},
		{"größe = 'XL'", "T"},
		{"$cost_2 = 2", "T"},
		{"a.b = 'dotted'", "T"},
		{"sym = 'bol'", "T"},
		{"bytes = 'raw'", "T"},
		{"Region = 'EU'", "U"},
		{"jmspriority = 7", "U"},
		// Names with one meaning, more than once, in any order of the fields.
		{"JMSXGroupSeq = properties.group_sequence AND JMSXGroupID = properties.group_id AND JMSMessageID = properties.message_id", "T"},
		{"JMSDeliveryMode = 'PERSISTENT' AND header.durable AND JMSPriority = header.priority AND header.ttl > 1", "T"},
		{"JMSCorrelationID = properties.correlation_id AND JMSType = 'invoice' AND JMSMessageID LIKE 'ID:%'", "T"},
	})
}

func TestTypes(t *testing.T) {
	check(t, rich(), []evaluation{
		{"tiny = -5", "T"},
		{"small = -300", "T"},
		{"ub = 200", "T"},
		{"us = 60000", "T"},
		{"negative = -7", "T"},
		{"ui = 4000000000", "T"},
		{"ul = 5", "T"},
		{"huge = 18446744073709551615.0", "T"},
		{"huge > max", "T"},
		{"at = -1", "T"},
		{"weight = 1.5", "T"},
		{"uuid = '1b4e28ba-2fa1-11d2-883f-0016d3cca427'", "T"},
		{"uuid = '1B4E28BA-2FA1-11D2-883F-0016D3CCA427'", "F"},
		{"uuid LIKE '1b4e%427'", "T"},
		{"uuid = uuid", "T"},
		{"uuid <> uuid", "F"},
		{"i0 = 0", "T"},
		{"u0 = 0", "T"},
		{"i1 = 9", "T"},
		{"i2 = 250", "T"},
		{"i3 = -2", "T"},
		{"i4 = -128", "T"},
		{"b1", "T"},
		{"b2 IS NULL", "T"},
		{"char IS NULL", "T"},
		{"list IS NULL", "T"},
		{"described IS NULL", "T"},
	})
}

func TestAbsent(t *testing.T) {
	rows := []evaluation{
		{"JMSDeliveryMode = 'NON_PERSISTENT'", "T"},
		{"JMSPriority = 4", "T"},
		{"header.durable = FALSE", "T"},
		{"header.first_acquirer = FALSE", "T"},
		{"header.ttl IS NULL", "T"},
		{"header.delivery_count = 0", "T"},
		{"JMSXDeliveryCount = 1", "T"},
		{"NOT JMSRedelivered", "T"},
		{"JMSMessageID IS NULL", "T"},
		{"JMSTimestamp IS NULL", "T"},
		{"JMSCorrelationID = 'a'", "U"},
		{"JMSType IS NULL", "T"},
		{"JMSXGroupSeq IS NULL", "T"},
		{"properties.reply_to_group_id IS NULL", "T"},
		{"JMSDeliveryTime IS NULL", "T"},
		{`"m.x" IS NULL`, "T"},
		{"x IS NULL", "T"},
	}
	check(t, &Message{}, rows)
	check(t, &Message{DeliveryCount: 1}, []evaluation{{"JMSRedelivered", "T"}})
	check(t, withProperties("m.", 1), []evaluation{{`"m." = 1`, "T"}})
	check(t, &Message{Header: []byte{0, 0x53, 0x70, codeList0}, Properties: []byte{0, 0x53, 0x73, codeList0}, ApplicationProperties: applications()}, rows)
	check(t, &Message{Header: header(nil, nil, nil, nil, uint32(7)), Properties: properties(nil, nil)}, rows)
}

// Ids as Qpid JMS shows them to a program, which writes them in a selector (AMQP JMS Mapping 3.2.1.1).
func TestIDsOfJMS(t *testing.T) {
	id := uuid{0x1b, 0x4e, 0x28, 0xba, 0x2f, 0xa1, 0x11, 0xd2, 0x88, 0x3f, 0x00, 0x16, 0xd3, 0xcc, 0xa4, 0x27}
	for _, row := range []struct {
		id   any
		text string
	}{
		{"ID:x-1", "ID:x-1"},
		{"plain", "ID:AMQP_NO_PREFIX:plain"},
		{"plain", "plain"},
		{"ID:AMQP_UUID:1", "ID:AMQP_STRING:ID:AMQP_UUID:1"},
		{id, "ID:AMQP_UUID:1B4E28BA-2fa1-11d2-883f-0016d3cca427"},
		{id, "1b4e28ba-2fa1-11d2-883f-0016d3cca427"},
		{uint64(42), "ID:AMQP_ULONG:42"},
		{uint64(math.MaxUint64), "ID:AMQP_ULONG:18446744073709551615"},
		{raw{codeUlong8, 7}, "ID:AMQP_ULONG:7"},
		{raw{codeUlong0}, "ID:AMQP_ULONG:0"},
		{[]byte{0, 0xff}, "ID:AMQP_BINARY:00FF"},
		{"ID:AMQP_BINARY:0", "ID:AMQP_BINARY:0"},
		{"ID:AMQP_OTHER:0", "ID:AMQP_OTHER:0"},
		{"ID:AMQP_", "ID:AMQP_"},
	} {
		m := &Message{Properties: properties(row.id, nil, nil, nil, nil, row.id)}
		check(t, m, []evaluation{
			{"JMSMessageID = '" + row.text + "'", "T"},
			{"'" + row.text + "' = JMSMessageID", "T"},
			{"JMSMessageID <> '" + row.text + "'", "F"},
			{"JMSMessageID <> 'other'", "T"},
			{"JMSMessageID IN ('a', '" + row.text + "', 'z')", "T"},
			{"JMSCorrelationID = '" + row.text + "'", "T"},
			{"JMSCorrelationID NOT IN ('" + row.text + "')", "F"},
			{"JMSCorrelationID LIKE '%'", "T"},
		})
	}
	check(t, &Message{Properties: properties(uint64(42))}, []evaluation{{"properties.message_id = 42", "T"}, {"JMSMessageID LIKE '4_'", "T"}})
	check(t, withProperties("x", "ID:AMQP_NO_PREFIX:a"), []evaluation{{"x = 'ID:AMQP_NO_PREFIX:a'", "T"}})
}

func TestDecimals(t *testing.T) {
	// Of each: the encoding, and the same number as a literal.
	for _, row := range []struct {
		d    raw
		want string
	}{
		{raw{codeDecimal32, 0x32, 0x80, 0, 1}, "1"},
		{raw{codeDecimal32, 0xb2, 0x80, 0, 1}, "-1"},
		{raw{codeDecimal32, 0x32, 0, 0, 15}, "1.5"},
		{raw{codeDecimal32, 0x6c, 0xb8, 0x96, 0x7f}, "9999999"},
		{raw{codeDecimal32, 0x6c, 0xb8, 0x96, 0x80}, "0"}, // ten million: more digits than the type has
		{raw{codeDecimal64, 0x31, 0xc0, 0, 0, 0, 0, 0, 1}, "1"},
		{raw{codeDecimal64, 0x31, 0xa0, 0, 0, 0, 0, 0, 1}, "0.1"},
		{raw{codeDecimal64, 0x6c, 0x73, 0x86, 0xf2, 0x6f, 0xc0, 0xff, 0xff}, "9999999999999999"},
		{raw{codeDecimal64, 0x6c, 0x73, 0x86, 0xf2, 0x6f, 0xc1, 0, 0}, "0"},
		{raw{codeDecimal, 0x30, 0x1d, 0xbc, 0x16, 0xd6, 0x74, 0xec, 0x80, 0x0d, 0xe0, 0xb6, 0xb3, 0xa7, 0x64, 0x00, 0x01}, "9007199254740994.0"}, // a bit more than the middle between two floats
		{raw{codeDecimal, 0x2d, 0xd4, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01}, "1e-310"},
		{raw{codeDecimal64, 0x5f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, "1 / 0.0"}, // 9007199254740991e369
		{raw{codeDecimal64, 0, 0, 0, 0, 0, 0, 0, 1}, "0"},
		{raw{codeDecimal, 0x30, 0x40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, "1"},
		{raw{codeDecimal, 0x30, 0x40, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1}, "18446744073709551617.0"},
		{raw{codeDecimal, 0x30, 0x41, 0xed, 0x09, 0xbe, 0xad, 0x87, 0xc0, 0x37, 0x8d, 0x8e, 0x63, 0xff, 0xff, 0xff, 0xff}, "9999999999999999999999999999999999.0"},
		{raw{codeDecimal, 0x30, 0x41, 0xed, 0x09, 0xbe, 0xad, 0x87, 0xc0, 0x37, 0x8d, 0x8e, 0x64, 0, 0, 0, 0}, "0"},
		{raw{codeDecimal, 0x70, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, "0"},
		{raw{codeDecimal32, 0x78, 0, 0, 0}, "1 / 0.0"},
		{raw{codeDecimal32, 0xf8, 0, 0, 0}, "-1 / 0.0"},
		{raw{codeDecimal, 0x32, 0xa8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, "1e308"},
		{raw{codeDecimal, 0x32, 0xaa, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, "1 / 0.0"},
	} {
		check(t, withProperties("d", row.d), []evaluation{{"d = " + row.want, "T"}})
	}
	check(t, withProperties("d", raw{codeDecimal64, 0x7c, 0, 0, 0, 0, 0, 0, 0}), []evaluation{{"d <> d", "T"}})
}
