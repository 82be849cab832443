package amqp

// Attach attaches a link to a session (2.7.3). NewAttach gives one with the specification's defaults.
type Attach struct {
	// Name of the link, unique between two containers for each direction. Handle is its number in the session.
	Name   string
	Handle uint32
	// Role is the role of the peer that sends this frame.
	Role Role
	// SenderSettleMode (mixed is the default) and ReceiverSettleMode (first is the default) are what is asked or granted.
	SenderSettleMode   SenderSettleMode
	ReceiverSettleMode ReceiverSettleMode
	// Source is nil where there is none: an answer without it refuses, an attach without it asks about the link.
	Source *Source
	// Target and Coordinator are the two kinds of target; at most one is not nil (Coordinator wins).
	Target      *Target
	Coordinator *Coordinator
	// Unsettled is what the sender of this frame holds of unsettled deliveries, for link recovery (2.6.13). Nil is null,
	// which says that nothing was kept; empty says that a link's state was kept and nothing is unsettled.
	Unsettled []Unsettled
	// IncompleteUnsettled says that Unsettled doesn't hold everything.
	IncompleteUnsettled bool
	// InitialDeliveryCount is mandatory from a sender, some of whom leave it out where it is 0, and ignored from a receiver.
	InitialDeliveryCount Opt[uint32]
	// MaxMessageSize is in bytes; 0 is no limit.
	MaxMessageSize uint64
	// OfferedCapabilities and DesiredCapabilities are extensions.
	OfferedCapabilities, DesiredCapabilities []Symbol
	// Properties of the link.
	Properties Map
}

// Unsettled is one entry of an unsettled map. Tag aliases the decoded bytes; State is nil where the delivery has none.
type Unsettled struct {
	Tag   []byte
	State DeliveryState
}

// NewAttach is an Attach with the defaults of the specification.
func NewAttach(name string, role Role) *Attach {
	return &Attach{Name: name, Role: role, SenderSettleMode: SenderSettleMixed}
}

func (*Attach) frameType() uint8 { return FrameAMQP }

func (x *Attach) appendTo(dst []byte) []byte {
	w := openList(dst, codeAttach)
	w.needStr(x.Name)
	w.uint(x.Handle)
	w.bool(bool(x.Role))
	w.ubyteOr(uint8(x.SenderSettleMode), uint8(SenderSettleMixed))
	w.ubyteOr(uint8(x.ReceiverSettleMode), uint8(ReceiverSettleFirst))
	w.composite(x.Source != nil, x.Source)
	if x.Coordinator != nil {
		w.composite(true, x.Coordinator)
	} else {
		w.composite(x.Target != nil, x.Target)
	}
	w.unsettled(x.Unsettled)
	w.boolOr(x.IncompleteUnsettled, false)
	w.optUint(x.InitialDeliveryCount)
	w.ulongOr(x.MaxMessageSize, 0)
	w.syms(x.OfferedCapabilities)
	w.syms(x.DesiredCapabilities)
	w.mapping(x.Properties)
	return w.close()
}

func (x *Attach) decode(r *reader) {
	l := r.openList("attach", 14)
	x.Name = r.needStr(&l, "name")
	x.Handle = r.needUint(&l, "handle")
	x.Role = Role(r.needBool(&l, "role"))
	x.SenderSettleMode = SenderSettleMode(r.ubyteOr(&l, "snd-settle-mode", uint8(SenderSettleMixed), 2))
	x.ReceiverSettleMode = ReceiverSettleMode(r.ubyteOr(&l, "rcv-settle-mode", uint8(ReceiverSettleFirst), 1))
	x.Source = r.sourceField(&l)
	x.Target, x.Coordinator = r.targetField(&l)
	x.Unsettled = r.unsettled(&l, "unsettled")
	x.IncompleteUnsettled = r.boolOr(&l, "incomplete-unsettled", false)
	x.InitialDeliveryCount = r.optUint(&l, "initial-delivery-count")
	x.MaxMessageSize = r.ulongOr(&l, "max-message-size", 0)
	x.OfferedCapabilities = r.syms(&l, "offered-capabilities")
	x.DesiredCapabilities = r.syms(&l, "desired-capabilities")
	x.Properties = r.mapping(&l, "properties")
	r.closeList(&l)
}
