package command

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// placeBits is the width of the place in an entry within ids made of an entry
// index and a place: 2 bytes, so an entry holds at most 65,536 commands.
const placeBits = 16

// MaxPlace is the highest place that a command can have in its entry.
const MaxPlace = 1<<placeBits - 1

// NodeID names a node for ever: it is the raft id, 1 and up, never used twice
// [8.2]. Zero names no node.
type NodeID uint64

// Epoch is the index of the entry that applied a node's NodeUp: the number of one
// life of that node [1.2]. Zero is no epoch.
type Epoch uint64

// ConnID names one connection for ever: index of the entry that opened it (48
// bits) and its place in it (16 bits) [1.4]. Zero names none; commands of the
// node itself (admin requests, timers) carry zero.
type ConnID uint64

// Incarnation names one life of an address: index of the entry that created it
// (48 bits) and place (16 bits). A deleted and re-created queue has another
// incarnation, so that late frames can't touch it. Zero names none.
type Incarnation uint64

// IndexPlace packs an entry index and a place (at most MaxPlace) into the 8 bytes
// that ConnID and Incarnation are made of.
func IndexPlace(index uint64, place int) uint64 {
	return index<<placeBits | uint64(place)&MaxPlace
}

// SplitIndexPlace is the inverse of IndexPlace.
func SplitIndexPlace(v uint64) (index uint64, place int) {
	return v >> placeBits, int(v & MaxPlace)
}

// SessionID is the identity that the log gives a resumable session or a token
// (C1): history (2 bytes) ‖ group (2) ‖ index of the opening entry (6) ‖ place in
// it (2) ‖ the first 4 bytes of the client's nonce, all big-endian. The zero value
// names none.
type SessionID [16]byte

// NewSessionID builds the identity of the session opened by the command at place
// of entry index.
func NewSessionID(history, group uint16, index uint64, place int, nonce [4]byte) SessionID {
	var s SessionID
	binary.BigEndian.PutUint16(s[0:], history)
	binary.BigEndian.PutUint16(s[2:], group)
	binary.BigEndian.PutUint64(s[4:], IndexPlace(index, place))
	copy(s[12:], nonce[:])
	return s
}

// IsZero reports whether s names no session.
func (s SessionID) IsZero() bool { return s == SessionID{} }

// History is the history in which the session was opened (C1, C5).
func (s SessionID) History() uint16 { return binary.BigEndian.Uint16(s[0:]) }

// Group is the group that keeps the session's outcomes.
func (s SessionID) Group() uint16 { return binary.BigEndian.Uint16(s[2:]) }

// String is the 32 hex digits that a token is written as (wire.md).
func (s SessionID) String() string { return hex.EncodeToString(s[:]) }

// TxID is a transaction's identity: session ‖ number (8 bytes, big-endian); 24
// bytes in all, never used again (C1). It is also the AMQP txn-id. The zero value
// names an untagged transaction, whose outcome nobody can ask for.
type TxID [24]byte

// NewTxID is transaction number n of session s.
func NewTxID(s SessionID, n uint64) TxID {
	var t TxID
	copy(t[:], s[:])
	binary.BigEndian.PutUint64(t[16:], n)
	return t
}

// IsZero reports whether t is the untagged transaction.
func (t TxID) IsZero() bool { return t == TxID{} }

// Session is the session that t belongs to.
func (t TxID) Session() (s SessionID) { copy(s[:], t[:16]); return s }

// Number is t's number within its session, 1 and up.
func (t TxID) Number() uint64 { return binary.BigEndian.Uint64(t[16:]) }

// String is the session's 32 hex digits, a slash and the decimal number: the
// spelling "token/n" of wire.md.
func (t TxID) String() string {
	return t.Session().String() + "/" + strconv.FormatUint(t.Number(), 10)
}

// ErrBadToken is wrapped by ParseTokenTx's errors.
var ErrBadToken = errors.New("oncemq: not a token/number")

// ParseTokenTx reads "token/n" or "token/n/operations" (wire.md). operations is -1
// where the string names none.
func ParseTokenTx(text string) (tx TxID, operations int64, err error) {
	parts := strings.Split(text, "/")
	if len(parts) < 2 || len(parts) > 3 || len(parts[0]) != 32 {
		return TxID{}, -1, fmt.Errorf("%w: %.80q (want 32 hex digits, /, n and perhaps /operations)", ErrBadToken, text)
	}
	var s SessionID
	if _, err := hex.Decode(s[:], []byte(parts[0])); err != nil {
		return TxID{}, -1, fmt.Errorf("%w: token %.80q isn't hex", ErrBadToken, parts[0])
	}
	n, err := strconv.ParseUint(parts[1], 10, 64)
	if err != nil || n == 0 {
		return TxID{}, -1, fmt.Errorf("%w: number %.80q (want 1 and up)", ErrBadToken, parts[1])
	}
	operations = -1
	if len(parts) == 3 {
		ops, err := strconv.ParseUint(parts[2], 10, 31)
		if err != nil {
			return TxID{}, -1, fmt.Errorf("%w: operations %.80q", ErrBadToken, parts[2])
		}
		operations = int64(ops)
	}
	return NewTxID(s, n), operations, nil
}

// DeliveryRef names one delivery of a link: the message's number in its address's
// sequence and the attempt (1 and up), which rises with every hand-out and is the
// fencing number that users see. A reference with an old attempt changes nothing.
type DeliveryRef struct {
	Message uint64
	Attempt uint32
}
