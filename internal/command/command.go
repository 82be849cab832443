package command

import "fmt"

// Kind is the first byte of a command's encoding. Values are stored and
// replicated: never renumber, only append.
type Kind uint8

// The commands.
const (
	KindConnOpen Kind = 1 + iota
	KindConnEnd
	KindSessionOpen
	KindSessionEnd
	KindLinkOpen
	KindLinkEnd
	KindSenderOpen
	KindSenderEnd
	KindAllow
	KindWithdraw
	KindSend
	KindSendForget
	KindSettle
	KindForget
	KindCommit
	KindRollback
	KindOutcome
	KindTokenOpen
	KindQueueCreate
	KindQueueDelete
	KindQueuePurge
	KindPart
	KindNodeUp
	KindNodeDown
	KindTick
	KindClusterInit
	KindDigest
	KindUserPut
	KindUserDelete
	KindNodeRoom
	KindTokenPut
	KindMemberAdd
	KindMemberRemove
	KindFinalize
	KindSetTime
	// KindMemberGone is MemberGone.
	KindMemberGone
	kindEnd // one past the last
)

// Command is one thing asked of the replicated state. The concrete types of this
// package are the only ones.
type Command interface {
	// Kind is the command's first encoded byte.
	Kind() Kind
	append(dst []byte) []byte
	decode(r *reader)
}

// Append adds c's encoding to dst: kind (1 byte), body length (uvarint), body. A
// record's body is a run of these, all of one connection or of the node itself.
func Append(dst []byte, c Command) []byte {
	dst = append(dst, byte(c.Kind()))
	// The length is written in 4 fixed bytes of a padded uvarint, so that the body
	// is encoded once, in place. 28 bits hold any command below 256 MiB.
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = c.append(dst)
	n := len(dst) - at - 4
	if n >= 1<<28 {
		panic(fmt.Sprintf("command: kind %d of %d bytes; the limit is 256 MiB", c.Kind(), n))
	}
	dst[at] = byte(n) | 0x80
	dst[at+1] = byte(n>>7) | 0x80
	dst[at+2] = byte(n>>14) | 0x80
	dst[at+3] = byte(n >> 21)
	return dst
}

// Decoder walks over the commands of one record's body. It reuses one value of
// each kind: what Next returns is valid until the next call of Next that yields
// the same kind, and byte slices in it alias the body. The zero Decoder is ready;
// it isn't safe for concurrent use.
type Decoder struct {
	r      reader
	one    reader // of the command at hand; a field, so that it isn't allocated each time
	values [kinds]Command
}

// Reset points the decoder at a body.
func (d *Decoder) Reset(body []byte) { d.r = reader{buf: body} }

// Next returns the next command, or nil at the end of the body or at a fault,
// which Err then holds.
func (d *Decoder) Next() Command {
	if d.r.err != nil || len(d.r.buf) == 0 {
		return nil
	}
	kind := Kind(d.r.byte())
	body := d.r.bytes()
	if d.r.err != nil {
		return nil
	}
	c := d.value(kind)
	if c == nil {
		d.r.err, d.r.buf = fmt.Errorf("%w: %w: there is no command of kind %d in this one, which knows feature levels %d to %d", ErrEncoding, ErrNewer, kind, LeastLevel, Level), nil
		return nil
	}
	d.one = reader{buf: body}
	br := &d.one
	c.decode(br)
	if br.err == nil && len(br.buf) != 0 {
		br.fail("bytes behind the command")
	}
	if br.err != nil {
		d.r.err, d.r.buf = fmt.Errorf("command kind %d: %w", kind, br.err), nil
		return nil
	}
	return c
}

// Err is the fault that ended the walk, or nil. It wraps ErrEncoding.
func (d *Decoder) Err() error { return d.r.err }

func (d *Decoder) value(kind Kind) Command {
	if kind == 0 || kind >= kinds {
		return nil
	}
	if d.values[kind] == nil {
		d.values[kind] = newCommand(kind)
	}
	return d.values[kind]
}

// newCommands makes a zero value of each kind.
var newCommands = [kindEnd]func() Command{
	KindConnOpen:     func() Command { return new(ConnOpen) },
	KindConnEnd:      func() Command { return new(ConnEnd) },
	KindSessionOpen:  func() Command { return new(SessionOpen) },
	KindSessionEnd:   func() Command { return new(SessionEnd) },
	KindLinkOpen:     func() Command { return new(LinkOpen) },
	KindLinkEnd:      func() Command { return new(LinkEnd) },
	KindSenderOpen:   func() Command { return new(SenderOpen) },
	KindSenderEnd:    func() Command { return new(SenderEnd) },
	KindAllow:        func() Command { return new(Allow) },
	KindWithdraw:     func() Command { return new(Withdraw) },
	KindSend:         func() Command { return new(Send) },
	KindSendForget:   func() Command { return new(SendForget) },
	KindSettle:       func() Command { return new(Settle) },
	KindForget:       func() Command { return new(Forget) },
	KindCommit:       func() Command { return new(Commit) },
	KindRollback:     func() Command { return new(Rollback) },
	KindOutcome:      func() Command { return new(Outcome) },
	KindTokenOpen:    func() Command { return new(TokenOpen) },
	KindQueueCreate:  func() Command { return new(QueueCreate) },
	KindQueueDelete:  func() Command { return new(QueueDelete) },
	KindQueuePurge:   func() Command { return new(QueuePurge) },
	KindPart:         func() Command { return new(Part) },
	KindNodeUp:       func() Command { return new(NodeUp) },
	KindNodeDown:     func() Command { return new(NodeDown) },
	KindTick:         func() Command { return new(Tick) },
	KindClusterInit:  func() Command { return new(ClusterInit) },
	KindDigest:       func() Command { return new(Digest) },
	KindUserPut:      func() Command { return new(UserPut) },
	KindUserDelete:   func() Command { return new(UserDelete) },
	KindTokenPut:     func() Command { return new(TokenPut) },
	KindMemberAdd:    func() Command { return new(MemberAdd) },
	KindMemberRemove: func() Command { return new(MemberRemove) },
	KindNodeRoom:     func() Command { return new(NodeRoom) },
	KindFinalize:     func() Command { return new(Finalize) },
	KindSetTime:      func() Command { return new(SetTime) },
	KindMemberGone:   func() Command { return new(MemberGone) },
}

func newCommand(kind Kind) Command {
	if kind >= kindEnd {
		return newNext(kind)
	}
	return newCommands[kind]()
}
