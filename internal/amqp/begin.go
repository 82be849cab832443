package amqp

// Begin starts a session on a channel (2.7.2). NewBegin gives one with the specification's defaults.
type Begin struct {
	// RemoteChannel is set in an answer: the channel of the Begin that it answers.
	RemoteChannel Opt[uint16]
	// NextOutgoingID is the transfer-id of the next transfer. The windows count transfers.
	NextOutgoingID, IncomingWindow, OutgoingWindow uint32
	// HandleMax is the highest handle; 4294967295 is the default.
	HandleMax uint32
	// OfferedCapabilities and DesiredCapabilities are extensions, such as CapOncemqSession.
	OfferedCapabilities, DesiredCapabilities []Symbol
	// Properties of the session, such as PropSession.
	Properties Map
}

// NewBegin is a Begin with the default HandleMax.
func NewBegin() *Begin { return &Begin{HandleMax: DefaultHandleMax} }

func (*Begin) frameType() uint8 { return FrameAMQP }

func (x *Begin) appendTo(dst []byte) []byte {
	w := openList(dst, codeBegin)
	w.optUshort(x.RemoteChannel)
	w.uint(x.NextOutgoingID)
	w.uint(x.IncomingWindow)
	w.uint(x.OutgoingWindow)
	w.uintOr(x.HandleMax, DefaultHandleMax)
	w.syms(x.OfferedCapabilities)
	w.syms(x.DesiredCapabilities)
	w.mapping(x.Properties)
	return w.close()
}

func (x *Begin) decode(r *reader) {
	l := r.openList("begin", 8)
	x.RemoteChannel = r.optUshort(&l, "remote-channel")
	x.NextOutgoingID = r.needUint(&l, "next-outgoing-id")
	x.IncomingWindow = r.needUint(&l, "incoming-window")
	x.OutgoingWindow = r.needUint(&l, "outgoing-window")
	x.HandleMax = r.uintOr(&l, "handle-max", DefaultHandleMax)
	x.OfferedCapabilities = r.syms(&l, "offered-capabilities")
	x.DesiredCapabilities = r.syms(&l, "desired-capabilities")
	x.Properties = r.mapping(&l, "properties")
	r.closeList(&l)
}
