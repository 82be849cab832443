package state

import (
	"encoding/binary"

	"github.com/oncemq/oncemq/internal/command"
)

// Kinds of keys: the third byte, behind the group. Load meets them in this order, so
// what others refer to comes first. Stored: never renumber (docs/format/state.md).
const (
	keyLevel         = 0x00
	keyClock         = 0x01
	keyCluster       = 0x02
	keyNode          = 0x03 // node(8)
	keyPart          = 0x04 // node(8) command(8) offset(8)
	keyMember        = 0x05 // node(8)
	keyToken         = 0x06 // hash(32)
	keyConfiguration = 0x07
	keySeed          = 0x08
	keyUser          = 0x09 // name
	keyTimeSet       = 0x0a
	keySkip          = 0x0b // index(8)
	keyConn          = 0x10 // conn(8)
	keySession       = 0x11 // session(16)
	keyProgress      = 0x12 // session(16)
	keyOutcome       = 0x13 // session(16) number(8)
	keyStream        = 0x14 // stream(8)
	keyRefusal       = 0x15 // stream(8) number(8)
	keySender        = 0x16 // conn(8) link(4)
	keyResults       = 0x17 // results(8)
	keyResult        = 0x18 // results(8) incarnation(8) message(8) attempt(4)
	keyWindow        = 0x19 // window(8)
	keyStoredID      = 0x1a // window(8) place(1)
	keyQueue         = 0x20 // incarnation(8)
	keyPlace         = 0x21 // incarnation(8)
	keySubscription  = 0x22 // subscription(8)
	keyPosition      = 0x23 // subscription(8)
	keyLink          = 0x24 // link(8)
	keyAllowance     = 0x25 // link(8)
	keyMessage       = 0x30 // incarnation(8) message(8)
	keyOverlay       = 0x31 // incarnation(8) message(8)
	keyMoved         = 0x32 // incarnation(8) message(8)
	keyDelivery      = 0x33 // incarnation(8) subscription(8) message(8)
	keyBody          = 0x80 // incarnation(8) message(8)
	keyBodyBehind    = 0x81
)

func appendKey(dst []byte, group uint16, kind byte) []byte {
	return append(dst, byte(group>>8), byte(group), kind)
}

func appendMessageKey(dst []byte, group uint16, kind byte, inc command.Incarnation, message uint64) []byte {
	dst = appendKey(dst, group, kind)
	dst = binary.BigEndian.AppendUint64(dst, uint64(inc))
	return binary.BigEndian.AppendUint64(dst, message)
}

// MessageKey appends the key under which Apply puts the bytes of a message from its body on. Readers use ReadMessage, which knows
// where the sections before it are, and where dead letters are.
func MessageKey(dst []byte, group uint16, inc command.Incarnation, message uint64) []byte {
	return appendMessageKey(dst, group, keyBody, inc, message)
}

// ReadMessage appends the bytes of a message to dst, all sections as they came. get appends a key's value to
// dst; ok is false where there is no such key. A dead letter's body stays where the
// message was first stored, so this may take two reads more than two. ok is false when the
// message is gone. Safe for concurrent use if get is: a home calls it outside Apply.
func ReadMessage(dst []byte, group uint16, inc command.Incarnation, message uint64,
	get func(key, dst []byte) (value []byte, ok bool, err error),
) (body []byte, ok bool, err error) {
	key := appendMessageKey(make([]byte, 0, 32), group, keyMessage, inc, message)
	if dst, ok, err = readHead(key, dst, get); !ok || err != nil {
		return dst, false, err
	}
	key = MessageKey(key[:0], group, inc, message)
	if body, ok, err = get(key, dst); ok || err != nil {
		return body, ok, err
	}
	key = appendMessageKey(key[:0], group, keyMoved, inc, message)
	origin, ok, err := get(key, make([]byte, 0, 16))
	if !ok || err != nil {
		return dst, false, err
	}
	f := fields{b: origin}
	inc, message = command.Incarnation(f.be64()), f.be64()
	if f.err != nil {
		return dst, false, f.err
	}
	return get(MessageKey(key[:0], group, inc, message), dst)
}

// readHead appends the head that stands behind the size in a message's record.
func readHead(key, dst []byte, get func(key, dst []byte) (value []byte, ok bool, err error)) (head []byte, ok bool, err error) {
	before := len(dst)
	if dst, ok, err = get(key, dst); !ok || err != nil {
		return dst, ok, err
	}
	f := fields{b: dst[before:]}
	f.uint()
	f.int()
	f.int()
	if f.err != nil {
		return dst[:before], false, f.err
	}
	return append(dst[:before], f.b...), true, nil
}

// BodyRange is the range of keys that Load doesn't need: bodies.
func BodyRange(group uint16) (from, to []byte) {
	return appendKey(nil, group, keyBody), appendKey(nil, group, keyBodyBehind)
}

// ClockRange is the range of the two keys that Load needs for a machine that knows its level, its Digest and its Times, and nothing else.
func ClockRange(group uint16) (from, to []byte) {
	return appendKey(nil, group, keyLevel), appendKey(nil, group, keyClock+1)
}

// after is the smallest key behind all that begin with prefix.
func after(prefix []byte) []byte {
	to := append([]byte(nil), prefix...)
	for i := len(to) - 1; i >= 0; i-- {
		if to[i]++; to[i] != 0 {
			return to[:i+1]
		}
	}
	return to
}
