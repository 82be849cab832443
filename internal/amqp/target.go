package amqp

// Target is the end of a link that messages go to (3.5.4).
type Target struct {
	// Address of the node; unset for a dynamic one and for the anonymous relay.
	Address Opt[string]
	// Durable, ExpiryPolicy and Timeout as in Source.
	Durable      TerminusDurability
	ExpiryPolicy Symbol
	Timeout      uint32
	// Dynamic asks for a node to be made, DynamicNodeProperties says how (see LifetimePolicyOf).
	Dynamic               bool
	DynamicNodeProperties Map
	// Capabilities are extensions, such as CapQueue.
	Capabilities []Symbol
}

func (x *Target) appendTo(dst []byte) []byte {
	w := openList(dst, codeTarget)
	w.optStr(x.Address)
	w.uintOr(uint32(x.Durable), 0)
	w.symOr(x.ExpiryPolicy, ExpirySessionEnd)
	w.uintOr(x.Timeout, 0)
	w.boolOr(x.Dynamic, false)
	w.mapping(x.DynamicNodeProperties)
	w.syms(x.Capabilities)
	return w.close()
}

func (x *Target) decode(r *reader) {
	l := r.openList("target", 7)
	x.Address = r.optStr(&l, "address")
	x.Durable = TerminusDurability(r.uintMax(&l, "durable", 2))
	x.ExpiryPolicy = r.expiry(&l)
	x.Timeout = r.uintOr(&l, "timeout", 0)
	x.Dynamic = r.boolOr(&l, "dynamic", false)
	x.DynamicNodeProperties = r.mapping(&l, "dynamic-node-properties")
	x.Capabilities = r.syms(&l, "capabilities")
	r.closeList(&l)
}
