package amqp

// Open negotiates the connection (2.7.1). NewOpen gives one with the specification's defaults.
type Open struct {
	// ContainerID names the peer; mandatory, may be empty. Hostname is the name that the client dialled; empty is absent.
	ContainerID, Hostname string
	// MaxFrameSize is the largest frame in bytes that the sender takes; 4294967295 is the default.
	MaxFrameSize uint32
	// ChannelMax is the highest channel number; 65535 is the default.
	ChannelMax uint16
	// IdleTimeout is in milliseconds: the sender closes if it hears nothing for so long.
	IdleTimeout Opt[uint32]
	// OutgoingLocales and IncomingLocales are in order of preference.
	OutgoingLocales, IncomingLocales []Symbol
	// OfferedCapabilities and DesiredCapabilities are extensions.
	OfferedCapabilities, DesiredCapabilities []Symbol
	// Properties tells about the peer, such as PropProduct.
	Properties Map
}

// Defaults of Open and Begin.
const (
	DefaultOpenMaxFrameSize uint32 = 4294967295
	DefaultChannelMax       uint16 = 65535
	DefaultHandleMax        uint32 = 4294967295
)

// NewOpen is an Open with the defaults of the specification.
func NewOpen(containerID string) *Open {
	return &Open{ContainerID: containerID, MaxFrameSize: DefaultOpenMaxFrameSize, ChannelMax: DefaultChannelMax}
}

func (*Open) frameType() uint8 { return FrameAMQP }

func (x *Open) appendTo(dst []byte) []byte {
	w := openList(dst, codeOpen)
	w.needStr(x.ContainerID)
	w.str(x.Hostname)
	w.uintOr(x.MaxFrameSize, DefaultOpenMaxFrameSize)
	w.ushortOr(x.ChannelMax, DefaultChannelMax)
	w.optUint(x.IdleTimeout)
	w.syms(x.OutgoingLocales)
	w.syms(x.IncomingLocales)
	w.syms(x.OfferedCapabilities)
	w.syms(x.DesiredCapabilities)
	w.mapping(x.Properties)
	return w.close()
}

func (x *Open) decode(r *reader) {
	l := r.openList("open", 10)
	x.ContainerID = r.needStr(&l, "container-id")
	x.Hostname = r.str(&l, "hostname")
	x.MaxFrameSize = r.uintOr(&l, "max-frame-size", DefaultOpenMaxFrameSize)
	x.ChannelMax = r.ushortOr(&l, "channel-max", DefaultChannelMax)
	x.IdleTimeout = r.optUint(&l, "idle-time-out")
	x.OutgoingLocales = r.syms(&l, "outgoing-locales")
	x.IncomingLocales = r.syms(&l, "incoming-locales")
	x.OfferedCapabilities = r.syms(&l, "offered-capabilities")
	x.DesiredCapabilities = r.syms(&l, "desired-capabilities")
	x.Properties = r.mapping(&l, "properties")
	r.closeList(&l)
}
