package amqp

import (
	"encoding/binary"
	"strings"
	"unicode/utf8"
)

// The append functions below write one value with its constructor, in its smallest encoding.

func appendBool(dst []byte, v bool) []byte {
	if v {
		return append(dst, 0x41)
	}
	return append(dst, 0x42)
}

func appendUint(dst []byte, v uint32) []byte {
	switch {
	case v == 0:
		return append(dst, 0x43)
	case v < 256:
		return append(dst, 0x52, byte(v))
	}
	return binary.BigEndian.AppendUint32(append(dst, 0x70), v)
}

func appendUlong(dst []byte, v uint64) []byte {
	switch {
	case v == 0:
		return append(dst, 0x44)
	case v < 256:
		return append(dst, 0x53, byte(v))
	}
	return binary.BigEndian.AppendUint64(append(dst, 0x80), v)
}

func appendInt(dst []byte, v int32) []byte {
	if v == int32(int8(v)) {
		return append(dst, 0x54, byte(v))
	}
	return binary.BigEndian.AppendUint32(append(dst, 0x71), uint32(v))
}

func appendLong(dst []byte, v int64) []byte {
	if v == int64(int8(v)) {
		return append(dst, 0x55, byte(v))
	}
	return binary.BigEndian.AppendUint64(append(dst, 0x81), uint64(v))
}

// appendSized writes what has a size in front: code is that of the small kind, the large one is 0x10 above.
func appendSized[T string | Symbol | []byte](dst []byte, code byte, v T) []byte {
	if len(v) < 256 {
		dst = append(dst, code, byte(len(v)))
	} else {
		dst = binary.BigEndian.AppendUint32(append(dst, code+0x10), uint32(len(v)))
	}
	return append(dst, v...)
}

func appendBinary(dst, v []byte) []byte { return appendSized(dst, 0xa0, v) }

func appendString(dst []byte, v string) []byte { return appendSized(dst, 0xa1, validString(v)) }

func appendSymbol(dst []byte, v Symbol) []byte { return appendSized(dst, 0xa3, validSymbol(v)) }

// validString makes v UTF-8: an error text with bytes of a stranger in it must not make the peer refuse the frame.
func validString(v string) string {
	if utf8.ValidString(v) {
		return v
	}
	return strings.ToValidUTF8(v, "\uFFFD")
}

// validSymbol makes v ASCII, for the same reason.
func validSymbol(v Symbol) Symbol {
	for i := 0; i < len(v); i++ {
		if v[i] >= 0x80 {
			return Symbol(strings.Map(func(c rune) rune {
				if c >= 0x80 {
					return '?'
				}
				return c
			}, string(v)))
		}
	}
	return v
}

// compoundRoom is what openCompound writes: constructor, size, count in the small kind.
const compoundRoom = 3

// openCompound leaves room for the small header of a list, map or array.
func openCompound(dst []byte) []byte { return append(dst, 0, 0, 0) }

// closeCompound writes the header of the compound that was opened at start: small if size and count fit in a byte each,
// else the elements move up to make room for the large one. small and large are the two constructors.
func closeCompound(dst []byte, start, count int, small, large byte) []byte {
	body := len(dst) - start - compoundRoom
	if body < 255 && count < 256 {
		dst[start], dst[start+1], dst[start+2] = small, byte(body+1), byte(count)
		return dst
	}
	dst = append(dst, 0, 0, 0, 0, 0, 0)
	copy(dst[start+9:], dst[start+compoundRoom:start+compoundRoom+body])
	dst[start] = large
	binary.BigEndian.PutUint32(dst[start+1:], uint32(body+4))
	binary.BigEndian.PutUint32(dst[start+5:], uint32(count))
	return dst
}

// listWriter writes the fields of one composite, in order. Absent fields at the end are left out.
type listWriter struct {
	dst []byte
	// start is where the list's constructor stands, fields how many have been written; up to the last that is not absent
	// there are kept of them, and they end at keptEnd.
	start, fields, kept, keptEnd int
}

func openList(dst []byte, code byte) listWriter {
	dst = append(dst, 0x00, 0x53, code)
	return openFields(dst)
}

func openListSymbolic(dst []byte, name Symbol) listWriter {
	return openFields(appendSymbol(append(dst, 0x00), name))
}

func openFields(dst []byte) listWriter {
	start := len(dst)
	dst = openCompound(dst)
	return listWriter{dst: dst, start: start, keptEnd: len(dst)}
}

// close ends the list and gives the bytes.
func (w *listWriter) close() []byte {
	if w.kept == 0 {
		dst := w.dst[:w.start+1]
		dst[w.start] = 0x45
		return dst
	}
	return closeCompound(w.dst[:w.keptEnd], w.start, w.kept, 0xc0, 0xd0)
}

func (w *listWriter) null() {
	w.dst = append(w.dst, 0x40)
	w.fields++
}

// put takes dst as the list with one field more.
func (w *listWriter) put(dst []byte) {
	w.dst = dst
	w.fields++
	w.kept, w.keptEnd = w.fields, len(dst)
}

func (w *listWriter) uint(v uint32) { w.put(appendUint(w.dst, v)) }

func (w *listWriter) uintOr(v, def uint32) {
	if v == def {
		w.null()
		return
	}
	w.uint(v)
}

func (w *listWriter) optUint(o Opt[uint32]) {
	if !o.Set {
		w.null()
		return
	}
	w.uint(o.V)
}

func (w *listWriter) ulong(v uint64) { w.put(appendUlong(w.dst, v)) }

func (w *listWriter) ulongOr(v, def uint64) {
	if v == def {
		w.null()
		return
	}
	w.ulong(v)
}

func (w *listWriter) optUshort(o Opt[uint16]) {
	if !o.Set {
		w.null()
		return
	}
	w.put(append(w.dst, 0x60, byte(o.V>>8), byte(o.V)))
}

func (w *listWriter) ushortOr(v, def uint16) { w.optUshort(Opt[uint16]{V: v, Set: v != def}) }

func (w *listWriter) ubyte(v uint8) { w.put(append(w.dst, 0x50, v)) }

func (w *listWriter) optUbyte(o Opt[uint8]) {
	if !o.Set {
		w.null()
		return
	}
	w.ubyte(o.V)
}

func (w *listWriter) ubyteOr(v, def uint8) { w.optUbyte(Opt[uint8]{V: v, Set: v != def}) }

func (w *listWriter) bool(v bool) { w.put(appendBool(w.dst, v)) }

func (w *listWriter) optBool(o Opt[bool]) {
	if !o.Set {
		w.null()
		return
	}
	w.bool(o.V)
}

func (w *listWriter) boolOr(v, def bool) { w.optBool(Opt[bool]{V: v, Set: v != def}) }

func (w *listWriter) optTimestamp(o Opt[Timestamp]) {
	if !o.Set {
		w.null()
		return
	}
	w.put(binary.BigEndian.AppendUint64(append(w.dst, 0x83), uint64(o.V)))
}

func (w *listWriter) needStr(v string) { w.put(appendString(w.dst, v)) }

// str leaves an empty string out.
func (w *listWriter) str(v string) { w.optStr(Opt[string]{V: v, Set: v != ""}) }

func (w *listWriter) optStr(o Opt[string]) {
	if !o.Set {
		w.null()
		return
	}
	w.needStr(o.V)
}

func (w *listWriter) needSym(v Symbol) { w.put(appendSymbol(w.dst, v)) }

// symOr leaves an empty symbol and the default out.
func (w *listWriter) symOr(v, def Symbol) {
	if v == "" || v == def {
		w.null()
		return
	}
	w.needSym(v)
}

func (w *listWriter) needBin(v []byte) { w.put(appendBinary(w.dst, v)) }

// bin leaves nil out.
func (w *listWriter) bin(v []byte) {
	if v == nil {
		w.null()
		return
	}
	w.needBin(v)
}

// syms leaves nil out.
func (w *listWriter) syms(v []Symbol) {
	if v == nil {
		w.null()
		return
	}
	w.needSyms(v)
}

// needSyms writes an array, also for a single symbol: not every peer takes a single value.
func (w *listWriter) needSyms(v []Symbol) { w.put(appendSymbols(w.dst, v)) }

// mapping leaves nil out.
func (w *listWriter) mapping(m Map) {
	if m == nil {
		w.null()
		return
	}
	w.put(appendMap(w.dst, m))
}

// any leaves nil out.
func (w *listWriter) any(v any) {
	if v == nil {
		w.null()
		return
	}
	w.put(AppendValue(w.dst, v))
}

// composite writes x if it is there: the caller knows whether the pointer in x is nil.
func (w *listWriter) composite(present bool, x composite) {
	if !present {
		w.null()
		return
	}
	w.put(x.appendTo(w.dst))
}

func (w *listWriter) fault(e *Error) {
	if e == nil {
		w.null()
		return
	}
	w.put(e.appendTo(w.dst))
}

func (w *listWriter) state(s DeliveryState) {
	if s == nil {
		w.null()
		return
	}
	w.put(appendState(w.dst, s))
}

// appendState is s.appendTo by direct calls, so that what s points to need not move to the heap.
func appendState(dst []byte, s DeliveryState) []byte {
	switch x := s.(type) {
	case *Accepted:
		return x.appendTo(dst)
	case *Released:
		return x.appendTo(dst)
	case *TransactionalState:
		return x.appendTo(dst)
	}
	return s.appendTo(dst)
}

func (w *listWriter) unsettled(m []Unsettled) {
	if m == nil {
		w.null()
		return
	}
	start := len(w.dst)
	dst := openCompound(w.dst)
	for i := range m {
		dst = appendBinary(dst, m[i].Tag)
		if m[i].State == nil {
			dst = append(dst, 0x40)
		} else {
			dst = appendState(dst, m[i].State)
		}
	}
	w.put(closeCompound(dst, start, 2*len(m), 0xc1, 0xd1))
}
