package amqp

// listReader is one list of fields that is being read.
type listReader struct {
	name  string
	left  uint32
	outer int
}

// openList begins a list of at most max fields. What follows is read with the field methods, in order; then closeList.
func (r *reader) openList(name string, max uint32) listReader {
	l := listReader{name: name, outer: r.end}
	c := r.byte()
	if r.err != nil {
		return l
	}
	if c != 0x45 && c != 0xc0 && c != 0xd0 {
		r.fail(name + " is not a list")
		return l
	}
	r.enter()
	count, end := r.compound(c, 1)
	if count > max {
		r.fail(name + " has more fields than it can have")
	}
	r.charge(1+count, 0)
	if r.err == nil {
		l.left, r.end = count, end
	}
	return l
}

func (r *reader) closeList(l *listReader) {
	if r.err == nil && r.off != r.end {
		r.fail(l.name + " has bytes behind its last field")
	}
	r.end = l.outer
	r.leave()
}

// next reads the constructor of the next field; false if the field is absent or null.
func (r *reader) next(l *listReader) (byte, bool) {
	if l.left == 0 || r.err != nil {
		return 0, false
	}
	l.left--
	c := r.byte()
	return c, c != 0x40 && r.err == nil
}

func (r *reader) mistyped(l *listReader, field string) {
	r.fail(l.name + "." + field + " has the wrong type")
}

func (r *reader) missing(l *listReader, field string) {
	r.fail(l.name + "." + field + " is mandatory")
}

func (r *reader) outOfRange(l *listReader, field string) {
	r.fail(l.name + "." + field + " has a value that is not defined")
}

func (r *reader) optUint(l *listReader, field string) Opt[uint32] {
	c, ok := r.next(l)
	if !ok {
		return Opt[uint32]{}
	}
	switch c {
	case 0x70:
		return Some(r.u32())
	case 0x52:
		return Some(uint32(r.byte()))
	case 0x43:
		return Some(uint32(0))
	}
	r.mistyped(l, field)
	return Opt[uint32]{}
}

func (r *reader) needUint(l *listReader, field string) uint32 {
	o := r.optUint(l, field)
	if !o.Set {
		r.missing(l, field)
	}
	return o.V
}

func (r *reader) uintOr(l *listReader, field string, def uint32) uint32 {
	return r.optUint(l, field).Or(def)
}

// uintMax is a uint of a choice that begins with the default 0 and ends with max.
func (r *reader) uintMax(l *listReader, field string, max uint32) uint32 {
	v := r.uintOr(l, field, 0)
	if v > max {
		r.outOfRange(l, field)
	}
	return v
}

func (r *reader) optUlong(l *listReader, field string) Opt[uint64] {
	c, ok := r.next(l)
	if !ok {
		return Opt[uint64]{}
	}
	switch c {
	case 0x80:
		return Some(r.u64())
	case 0x53:
		return Some(uint64(r.byte()))
	case 0x44:
		return Some(uint64(0))
	}
	r.mistyped(l, field)
	return Opt[uint64]{}
}

func (r *reader) needUlong(l *listReader, field string) uint64 {
	o := r.optUlong(l, field)
	if !o.Set {
		r.missing(l, field)
	}
	return o.V
}

func (r *reader) ulongOr(l *listReader, field string, def uint64) uint64 {
	return r.optUlong(l, field).Or(def)
}

func (r *reader) optUshort(l *listReader, field string) Opt[uint16] {
	c, ok := r.next(l)
	if !ok {
		return Opt[uint16]{}
	}
	if c != 0x60 {
		r.mistyped(l, field)
		return Opt[uint16]{}
	}
	return Some(r.u16())
}

func (r *reader) ushortOr(l *listReader, field string, def uint16) uint16 {
	return r.optUshort(l, field).Or(def)
}

// optUbyte is a ubyte of at most max.
func (r *reader) optUbyte(l *listReader, field string, max uint8) Opt[uint8] {
	c, ok := r.next(l)
	if !ok {
		return Opt[uint8]{}
	}
	if c != 0x50 {
		r.mistyped(l, field)
		return Opt[uint8]{}
	}
	v := r.byte()
	if v > max {
		r.outOfRange(l, field)
	}
	return Some(v)
}

func (r *reader) needUbyte(l *listReader, field string, max uint8) uint8 {
	o := r.optUbyte(l, field, max)
	if !o.Set {
		r.missing(l, field)
	}
	return o.V
}

func (r *reader) ubyteOr(l *listReader, field string, def, max uint8) uint8 {
	return r.optUbyte(l, field, max).Or(def)
}

func (r *reader) optBool(l *listReader, field string) Opt[bool] {
	c, ok := r.next(l)
	if !ok {
		return Opt[bool]{}
	}
	if c != 0x41 && c != 0x42 && c != 0x56 {
		r.mistyped(l, field)
		return Opt[bool]{}
	}
	return Some(r.boolean(c))
}

func (r *reader) needBool(l *listReader, field string) bool {
	o := r.optBool(l, field)
	if !o.Set {
		r.missing(l, field)
	}
	return o.V
}

func (r *reader) boolOr(l *listReader, field string, def bool) bool {
	return r.optBool(l, field).Or(def)
}

func (r *reader) optTimestamp(l *listReader, field string) Opt[Timestamp] {
	c, ok := r.next(l)
	if !ok {
		return Opt[Timestamp]{}
	}
	if c != 0x83 {
		r.mistyped(l, field)
		return Opt[Timestamp]{}
	}
	return Some(Timestamp(r.u64()))
}

func (r *reader) optStr(l *listReader, field string) Opt[string] {
	c, ok := r.next(l)
	if !ok {
		return Opt[string]{}
	}
	if c != 0xa1 && c != 0xb1 {
		r.mistyped(l, field)
		return Opt[string]{}
	}
	return Some(r.string(c))
}

func (r *reader) needStr(l *listReader, field string) string {
	o := r.optStr(l, field)
	if !o.Set {
		r.missing(l, field)
	}
	return o.V
}

func (r *reader) str(l *listReader, field string) string { return r.optStr(l, field).V }

func (r *reader) optSym(l *listReader, field string) Opt[Symbol] {
	c, ok := r.next(l)
	if !ok {
		return Opt[Symbol]{}
	}
	if c != 0xa3 && c != 0xb3 {
		r.mistyped(l, field)
		return Opt[Symbol]{}
	}
	return Some(r.symbol(c))
}

func (r *reader) needSym(l *listReader, field string) Symbol {
	o := r.optSym(l, field)
	if !o.Set {
		r.missing(l, field)
	}
	return o.V
}

func (r *reader) sym(l *listReader, field string) Symbol { return r.optSym(l, field).V }

// bin is a binary that aliases the buffer: nil if absent, not nil if empty.
func (r *reader) bin(l *listReader, field string) []byte {
	c, ok := r.next(l)
	if !ok {
		return nil
	}
	if c != 0xa0 && c != 0xb0 {
		r.mistyped(l, field)
		return nil
	}
	return r.take(r.length(c))
}

func (r *reader) needBin(l *listReader, field string) []byte {
	b := r.bin(l, field)
	if b == nil {
		r.missing(l, field)
	}
	return b
}
