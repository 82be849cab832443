package amqp

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
)

// mandatory names, by descriptor, the positions of the fields that must not be absent or null.
var mandatory = map[byte][]int{
	codeOpen: {0}, codeBegin: {1, 2, 3}, codeAttach: {0, 1, 2}, codeFlow: {1, 2, 3}, codeTransfer: {0}, codeDisposition: {0, 1},
	codeDetach: {0}, codeError: {0}, codeReceived: {0, 1}, codeDischarge: {0}, codeDeclared: {0}, codeTransactionalState: {0},
	codeSASLMechanisms: {0}, codeSASLInit: {0}, codeSASLChallenge: {0}, codeSASLResponse: {0}, codeSASLOutcome: {0},
}

// fieldCount is how many fields each list has in the specification.
var fieldCount = map[byte]int{
	codeOpen: 10, codeBegin: 8, codeAttach: 14, codeFlow: 11, codeTransfer: 11, codeDisposition: 6, codeDetach: 3, codeEnd: 1,
	codeClose: 1, codeError: 3, codeReceived: 2, codeAccepted: 0, codeRejected: 1, codeReleased: 0, codeModified: 3, codeSource: 11,
	codeTarget: 7, codeCoordinator: 1, codeDeclare: 1, codeDischarge: 2, codeDeclared: 1, codeTransactionalState: 2,
	codeSASLMechanisms: 1, codeSASLInit: 3, codeSASLChallenge: 1, codeSASLResponse: 1, codeSASLOutcome: 2,
}

// fieldsOf splits the list of a golden composite into its fields.
func fieldsOf(t *testing.T, b []byte) [][]byte {
	if b[3] == 0x45 {
		return nil
	}
	var fields [][]byte
	for rest := b[6:]; len(rest) > 0; {
		n, err := SkipValue(rest, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		fields = append(fields, rest[:n])
		rest = rest[n:]
	}
	return fields
}

func listOf(code byte, fields [][]byte) []byte {
	b := append(openCompound([]byte{0x00, 0x53, code}), bytes.Join(fields, nil)...)
	return closeCompound(b, 3, len(fields), 0xc0, 0xd0)
}

// Every field of every composite: null where it is mandatory, of a wrong type, truncated before it, and one field too many.
func TestFieldsOfAllComposites(t *testing.T) {
	seen := map[byte]bool{}
	for _, g := range goldenComposites {
		b := wire(t, g.wire)
		if b[1] != 0x53 {
			continue
		}
		code := b[2]
		seen[code] = true
		must := func(name string, fields [][]byte, what string) {
			t.Helper()
			var de *DecodeError
			if v, err := readComposite(listOf(code, fields), Limits{}); !errors.As(err, &de) || !strings.Contains(de.What, what) {
				t.Errorf("%s, %s: %+v, %v", g.name, name, v, err)
			}
		}
		fields := fieldsOf(t, b)
		padded := append([][]byte{}, fields...)
		for len(padded) < fieldCount[code] {
			padded = append(padded, []byte{0x40})
		}
		if v, err := readComposite(listOf(code, padded), Limits{}); err != nil || !reflect.DeepEqual(v, g.want) {
			t.Errorf("%s with all its nulls: %+v, %v", g.name, v, err)
		}
		must("one field more", append(padded, []byte{0x40}), "has more fields")
		for i := range padded {
			other := append([][]byte{}, padded...)
			other[i] = append([]byte{0x98}, make([]byte, 16)...)
			if code != codeDeclare {
				must("a uuid as a field", other, "wrong type")
			}
			other[i] = []byte{0x3f}
			must("an undefined constructor as a field", other, "")
		}
		for _, i := range mandatory[code] {
			other := append([][]byte{}, padded...)
			other[i] = []byte{0x40}
			must("a mandatory null", other, "is mandatory")
			must("a mandatory field left out", fields[:i], "is mandatory")
		}
	}
	for code := range fieldCount {
		if !seen[code] {
			t.Errorf("no golden for 0x%x", code)
		}
	}
}

func TestPropertiesFieldsAreChecked(t *testing.T) {
	full := AppendProperties(nil, &allProperties)
	fields := fieldsOf(t, full)
	if len(fields) != propertiesFields {
		t.Fatalf("%d fields", len(fields))
	}
	for i := range fields {
		other := append([][]byte{}, fields...)
		other[i] = []byte{0x41}
		b := listOf(codeProperties, other)
		if _, err := ParseSections(b, Limits{}); err == nil {
			t.Errorf("field %d may be a boolean in ParseSections", i)
		}
		if _, err := DecodeProperties(b, Limits{}); err == nil {
			t.Errorf("field %d may be a boolean in DecodeProperties", i)
		}
	}
}

func TestStates(t *testing.T) {
	info := Map{{Symbol("k"), []byte("v")}}
	for _, c := range []struct {
		state   DeliveryState
		outcome bool
	}{
		{nil, false},
		{&Accepted{}, true},
		{&Released{}, true},
		{&Rejected{}, true},
		{&Rejected{Error: &Error{Condition: "c", Description: "d", Info: info}}, true},
		{&Modified{DeliveryFailed: true, MessageAnnotations: info}, true},
		{&Declared{TxnID: []byte("t")}, true},
		{&Received{SectionNumber: 1, SectionOffset: 2}, false},
		{&TransactionalState{TxnID: []byte("t"), Outcome: &Modified{MessageAnnotations: info}}, false},
	} {
		if IsOutcome(c.state) != c.outcome {
			t.Errorf("%T is an outcome: %v", c.state, !c.outcome)
		}
		if clone := CloneState(c.state); !reflect.DeepEqual(clone, c.state) {
			t.Errorf("the clone of %+v is %+v", c.state, clone)
		}
	}
	// A clone shares no byte.
	items := List{[]byte("v"), Array{Type: TypeBinary, Items: []any{[]byte("w")}}}
	x := &Rejected{Error: &Error{Condition: "c", Info: Map{{Symbol("k"), items}}}}
	clone := CloneState(x).(*Rejected)
	l := x.Error.Info[0].Value.(List)
	l[0].([]byte)[0], l[1].(Array).Items[0].([]byte)[0] = 'X', 'Y'
	if got := clone.Error.Info[0].Value.(List); string(got[0].([]byte)) != "v" || string(got[1].(Array).Items[0].([]byte)) != "w" {
		t.Errorf("the clone shares bytes: %+v", got)
	}
}

func TestErrorText(t *testing.T) {
	if s := (&Error{Condition: ErrCondNotFound}).Error(); s != "amqp:not-found" {
		t.Error(s)
	}
	if s := (&Error{Condition: ErrCondNotFound, Description: "no queue"}).Error(); s != "amqp:not-found: no queue" {
		t.Error(s)
	}
	if RoleSender.String() != "sender" || RoleReceiver.String() != "receiver" {
		t.Error("a role is named wrongly")
	}
	if !reflect.DeepEqual(NewBegin(), &Begin{HandleMax: DefaultHandleMax}) {
		t.Error("NewBegin has other defaults")
	}
}
