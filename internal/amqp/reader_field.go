package amqp

// syms is a field that may be multiple: an array of symbols or a single one (1.4). An empty
// array is an empty slice, an absent field nil.
func (r *reader) syms(l *listReader, field string) []Symbol {
	c, ok := r.next(l)
	if !ok {
		return nil
	}
	switch c {
	case 0xa3, 0xb3:
		r.charge(1, 16)
		return []Symbol{r.symbol(c)}
	case 0xe0, 0xf0:
	default:
		r.mistyped(l, field)
		return nil
	}
	r.enter()
	count, end := r.compound(c, 0)
	if r.err != nil {
		return nil
	}
	outer := r.inside(end)
	code := r.byte()
	// What an array without elements is of says nothing.
	if count > 0 && code != 0xa3 && code != 0xb3 {
		r.mistyped(l, field)
	}
	// Each takes a byte at least: a count beyond that is a lie, and nothing is allocated for it.
	if uint64(count) > uint64(r.end-r.off) {
		r.fail(l.name + "." + field + " counts more symbols than it holds")
	}
	r.charge(count, 16*int(count))
	var s []Symbol
	if r.err == nil {
		s = make([]Symbol, 0, count)
	}
	for i := uint32(0); i < count && r.err == nil; i++ {
		s = append(s, r.symbol(code))
	}
	r.outside(outer)
	return s
}

func (r *reader) needSyms(l *listReader, field string) []Symbol {
	s := r.syms(l, field)
	if s == nil {
		r.missing(l, field)
	}
	return s
}

// mapping is a map of any keys and values; nil if absent.
func (r *reader) mapping(l *listReader, field string) Map {
	c, ok := r.next(l)
	if !ok {
		return nil
	}
	if c != 0xc1 && c != 0xd1 {
		r.mistyped(l, field)
		return nil
	}
	return r.mapOf(c)
}

// any is a field of any type; nil if absent or null.
func (r *reader) any(l *listReader, _ string) any {
	c, ok := r.next(l)
	if !ok {
		return nil
	}
	return r.valueOf(c)
}

// described reads the descriptor of a field that is a composite; false if the field is absent.
func (r *reader) described(l *listReader, field string) (uint64, bool) {
	c, ok := r.next(l)
	if !ok {
		return 0, false
	}
	if c != 0x00 {
		r.mistyped(l, field)
		return 0, false
	}
	code := r.descriptor()
	return code, r.err == nil
}

// fault is a field of type error.
func (r *reader) fault(l *listReader) *Error {
	code, ok := r.described(l, "error")
	if !ok {
		return nil
	}
	if code != codeError {
		r.mistyped(l, "error")
		return nil
	}
	r.charge(0, 64)
	x := new(Error)
	x.decode(r)
	return x
}

func (r *reader) sourceField(l *listReader) *Source {
	code, ok := r.described(l, "source")
	if !ok {
		return nil
	}
	if code != codeSource {
		r.mistyped(l, "source")
		return nil
	}
	x := new(Source)
	x.decode(r)
	return x
}

func (r *reader) targetField(l *listReader) (*Target, *Coordinator) {
	code, ok := r.described(l, "target")
	if !ok {
		return nil, nil
	}
	switch code {
	case codeTarget:
		x := new(Target)
		x.decode(r)
		return x, nil
	case codeCoordinator:
		x := new(Coordinator)
		x.decode(r)
		return nil, x
	}
	r.mistyped(l, "target")
	return nil, nil
}

// expiry is the expiry policy, a choice with the default session-end.
func (r *reader) expiry(l *listReader) Symbol {
	o := r.optSym(l, "expiry-policy")
	switch o.V {
	case ExpiryLinkDetach, ExpirySessionEnd, ExpiryConnectionClose, ExpiryNever:
		return o.V
	}
	if o.Set {
		r.outOfRange(l, "expiry-policy")
	}
	return ExpirySessionEnd
}

// state is a delivery state; nil if absent.
func (r *reader) state(l *listReader, field string) DeliveryState {
	code, ok := r.described(l, field)
	if !ok {
		return nil
	}
	s := r.stateOf(code)
	if s == nil {
		r.fail(l.name + "." + field + " is not a delivery state")
	}
	return s
}

// outcome is a delivery state that is terminal; nil if absent.
func (r *reader) outcome(l *listReader, field string) DeliveryState {
	code, ok := r.described(l, field)
	if !ok {
		return nil
	}
	if code == codeReceived || code == codeTransactionalState {
		r.fail(l.name + "." + field + " is not an outcome")
		return nil
	}
	s := r.stateOf(code)
	if s == nil {
		r.fail(l.name + "." + field + " is not an outcome")
	}
	return s
}

// stateOf reads the fields of the delivery state whose descriptor was code; nil if it is none.
func (r *reader) stateOf(code uint64) DeliveryState {
	r.charge(0, 48)
	switch code {
	case codeAccepted:
		x := new(Accepted)
		x.decode(r)
		return x
	case codeReleased:
		x := new(Released)
		x.decode(r)
		return x
	case codeRejected:
		x := new(Rejected)
		x.decode(r)
		return x
	case codeModified:
		x := new(Modified)
		x.decode(r)
		return x
	case codeReceived:
		x := new(Received)
		x.decode(r)
		return x
	case codeDeclared:
		x := new(Declared)
		x.decode(r)
		return x
	case codeTransactionalState:
		x := r.tx
		if r.tx = nil; x == nil {
			x = new(TransactionalState)
		}
		x.decode(r)
		return x
	}
	return nil
}

// unsettled is the unsettled map of an attach: delivery-tags to delivery states. Nil if absent.
func (r *reader) unsettled(l *listReader, field string) []Unsettled {
	c, ok := r.next(l)
	if !ok {
		return nil
	}
	if c != 0xc1 && c != 0xd1 {
		r.mistyped(l, field)
		return nil
	}
	r.enter()
	count, end := r.compound(c, 1)
	if count%2 != 0 {
		r.fail("a map with an odd count")
	}
	r.charge(count, 20*int(count))
	if r.err != nil {
		return nil
	}
	outer := r.inside(end)
	// The entries are a list of fields in turn: tag, state, tag, state …
	entry := listReader{name: l.name, left: count}
	m := make([]Unsettled, 0, count/2)
	for entry.left > 0 && r.err == nil {
		tag := r.needBin(&entry, field)
		m = append(m, Unsettled{Tag: tag, State: r.state(&entry, field)})
	}
	r.outside(outer)
	return m
}
