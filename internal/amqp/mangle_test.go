//go:build invariants

package amqp

import "testing"

// With the tag, what was handed out before is overwritten: a forgotten copy can't go unnoticed.
func TestMangling(t *testing.T) {
	var d Decoder
	b := AppendFrame(nil, 0, &Transfer{Handle: 1, DeliveryTag: []byte("tag")}, []byte("payload"))
	f, _, err := d.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	kept := f.Body.(*Transfer)
	if _, _, err := d.Decode(AppendFrame(nil, 0, nil, nil)); err != nil {
		t.Fatal(err)
	}
	if kept.Handle == 1 || string(kept.DeliveryTag) == "tag" {
		t.Errorf("the transfer of the frame before is whole: %+v", kept)
	}
	Mangle(b)
	if string(f.Payload) == "payload" {
		t.Error("the payload of a buffer that was given back is whole")
	}
}
