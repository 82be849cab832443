package command

// EffectKind tells effects apart. Effects are not stored; values may change.
type EffectKind uint8

// The effects. All go to the connection Local of node Node, but for those that say
// otherwise.
const (
	// EffectConnOpened answers ConnOpen: Detail is *ConnOpened, or Refusal is set.
	EffectConnOpened EffectKind = 1 + iota
	// EffectConnEnded: the connection was ended by somebody else (take-over, NodeDown).
	// Refusal says why; the home closes the socket with it and sends no ConnEnd.
	EffectConnEnded
	// EffectProbe: another client wants this sole connection's container-id; the home
	// probes the socket and ends the connection if it is dead [1.5].
	EffectProbe
	// EffectSessionOpened answers SessionOpen: Detail is *SessionOpened.
	EffectSessionOpened
	// EffectLinkOpened answers LinkOpen: Detail is *LinkOpened.
	EffectLinkOpened
	// EffectSenderOpened answers SenderOpen: Detail is *SenderOpened.
	EffectSenderOpened
	// EffectLinkEnded: the link Link ended by itself (queue deleted); Refusal says why.
	EffectLinkEnded
	// EffectDeliver hands message Ref to Link: Count, FirstAcquirer, Incarnation,
	// Size, Overlay and, where at hand, Payload.
	EffectDeliver
	// EffectWithdrawn answers Withdraw.
	EffectWithdrawn
	// EffectSent answers Send on Link, with Request and Number; Refusal where refused.
	EffectSent
	// EffectSettled answers Settle; Refs are the lost ones.
	EffectSettled
	// EffectDecided answers Commit and Rollback: Tx, Outcome, Reason.
	EffectDecided
	// EffectOutcome answers Outcome: Tx, Outcome, Reason, Civil (decided at).
	EffectOutcome
	// EffectTokenOpened answers TokenOpen: the token is Tx.Session().
	EffectTokenOpened
	// EffectQueue answers queue commands: Number, Existed; Refusal where refused. For
	// commands with a zero Conn it goes to Local 0, the node itself.
	EffectQueue
	// EffectUser answers user commands, to the node itself (Local 0); Refusal where refused.
	EffectUser
	// EffectMember answers TokenPut, MemberAdd and MemberRemove, to the node itself (Local
	// 0): Number is the id that MemberAdd gave, Existed that it was given before; Refusal
	// where refused.
	EffectMember
	// EffectCluster answers Finalize and SetTime, to the node itself (Local 0): Existed
	// where there was nothing to do; Civil is civil time before a SetTime; Refusal where
	// refused.
	EffectCluster
	// EffectTimeSet tells every node (Local 0) of a SetTime: Civil is the new time, Number
	// how many there were, Reason who asked.
	EffectTimeSet
	// EffectNodeUp tells node Node that its epoch is Number (Local 0); Nonce in Detail
	// as [16]byte.
	EffectNodeUp
	// EffectNodeDown tells node Node that epoch Number has ended (Local 0).
	EffectNodeDown
	// EffectExpected tells node Node (Local 0) that epoch Epoch's next record must be
	// Number: what it sent had a higher one and changed nothing [1.1].
	EffectExpected
	// EffectApplied tells node Node (Local 0) that its records up to Number were
	// applied; state gives it once per entry and node.
	EffectApplied
	// EffectDigestDiffers (Local 0, Node): this node's digest at the index Number differs
	// [7.2]. Count is how many others agree on another one; 0: no two nodes do, and
	// nobody can say who is right.
	EffectDigestDiffers
)

// Refusal is a "no" and its AMQP condition. Shared and never changed.
type Refusal struct {
	Condition   string // an AMQP error condition, such as amqp:not-found
	Description string // what happened, to what, what to do next
}

// Effect is one consequence of an applied entry, for one connection or for a node
// itself. It is one flat struct, so that a slice of them needs no allocation each;
// which fields are set stands at the kind. Byte slices and Detail are the
// receiver's to keep but never to change.
type Effect struct {
	Kind          EffectKind
	FirstAcquirer bool
	Existed       bool
	Outcome       TxOutcome
	Link          uint32
	Count         uint32 // AMQP delivery-count: failed attempts
	Size          uint32 // bytes of the message as stored
	Node          NodeID
	Epoch         Epoch
	Local         uint64
	Request       uint64
	Number        uint64
	Civil         int64
	Incarnation   Incarnation
	Ref           DeliveryRef
	Refs          []DeliveryRef
	Tx            TxID
	Reason        string
	Refusal       *Refusal
	// Payload is the message where it came in the same entry, else nil: the home reads
	// it from the store under MessageKey.
	Payload []byte
	// Overlay is an encoded AMQP map of message annotations to be merged over the
	// stored ones: modified's annotations, a dead letter's story; nil for none.
	Overlay []byte
	Detail  any
}

// ConnOpened is the detail of EffectConnOpened.
type ConnOpened struct{ Conn ConnID }

// SessionOpened is the detail of EffectSessionOpened.
type SessionOpened struct {
	Session SessionID
	Resumed bool
	// LastNumber is the session's highest decided transaction number.
	LastNumber uint64
}

// UnsettledState is what became of a delivery that a client re-attached with.
type UnsettledState uint8

// The states.
const (
	// StillHeld: it is still the link's, to be settled as ever.
	StillHeld UnsettledState = 1 + iota
	// WasAccepted: its acceptance was applied before.
	WasAccepted
	// WasReturned: another outcome of the client's (released, modified, rejected) was
	// applied before.
	WasReturned
	// WasLost: the grace period ended and the message went elsewhere (ErrDeliveryLost).
	WasLost
)

// Resumed is the answer for one Unsettled.
type Resumed struct {
	Unsettled
	State UnsettledState
}

// LinkOpened is the detail of EffectLinkOpened.
type LinkOpened struct {
	Incarnation Incarnation
	Address     string // the name of its queue or topic
	// Resumed is the answer for each entry of the unsettled map, in its order; further
	// held deliveries come as EffectDeliver behind this effect.
	Resumed []Resumed
	Routing Routing
	// Of a topic's: the subscription as it is, and the selector's parsed form.
	Subscription Subscription
	Filter       []byte
}

// SendOutcome is the outcome of one held number.
type SendOutcome struct {
	Number uint64
	// Stored: accepted. Otherwise Refusal is its first outcome; both zero means that
	// state never saw the number: the client sends it again.
	Stored  bool
	Refusal *Refusal
}

// SenderOpened is the detail of EffectSenderOpened.
type SenderOpened struct {
	Incarnation Incarnation // zero for an anonymous link
	Address     string      // the name of its queue, empty for an anonymous link
	LastNumber  uint64
	Held        []SendOutcome
	// Resent: messages were stored over earlier attachments of the link, and what repeats one of them isn't stored again.
	Resent bool
}
