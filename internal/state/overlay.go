package state

import (
	"bytes"
	"encoding/binary"
)

// An overlay is an encoded AMQP map that is merged over a message's annotations when
// it is sent: what modified brought, and a dead letter's story [3.9]. The machine
// knows of AMQP only how long an encoded value is.

// maxOverlay bounds an overlay in bytes.
const maxOverlay = 4 << 10

func appendSymbol(dst []byte, s string) []byte { return append(append(dst, 0xa3, byte(len(s))), s...) }

// appendText writes an AMQP string of at most 1,024 bytes.
func appendText(dst []byte, s string) []byte {
	s = cut(s, 1024)
	dst = binary.BigEndian.AppendUint32(append(dst, 0xb1), uint32(len(s)))
	return append(dst, s...)
}

// wrapMap makes a map (map32) of n encoded keys and values.
func wrapMap(pairs []byte, n int) []byte {
	dst := make([]byte, 0, len(pairs)+9)
	dst = append(dst, 0xd1)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(pairs)+4))
	dst = binary.BigEndian.AppendUint32(dst, uint32(n))
	return append(dst, pairs...)
}

// mapPairs is what stands in an encoded map, and how many values; ok is false where
// it isn't one.
func mapPairs(m []byte) (pairs []byte, n int, ok bool) {
	switch {
	case len(m) >= 3 && m[0] == 0xc1:
		pairs, n, ok = m[3:], int(m[2]), int(m[1]) == len(m)-2
	case len(m) >= 9 && m[0] == 0xd1:
		size, count := binary.BigEndian.Uint32(m[1:]), binary.BigEndian.Uint32(m[5:])
		pairs, n, ok = m[9:], int(count), uint64(size) == uint64(len(m)-5) && count <= maxOverlay
	}
	if !ok || n%2 != 0 {
		return nil, 0, false
	}
	rest := pairs
	for range n {
		size := valueSize(rest, 8)
		if size == 0 {
			return nil, 0, false
		}
		rest = rest[size:]
	}
	return pairs, n, len(rest) == 0
}

// valueSize is the length of the encoded value at b's front, 0 where there is none.
func valueSize(b []byte, depth int) int {
	if len(b) == 0 || depth == 0 {
		return 0
	}
	if b[0] == 0 { // described: descriptor, value
		d := valueSize(b[1:], depth-1)
		if d == 0 {
			return 0
		}
		v := valueSize(b[1+d:], depth-1)
		if v == 0 {
			return 0
		}
		return 1 + d + v
	}
	var n uint64
	switch b[0] >> 4 {
	case 0x4:
		n = 1
	case 0x5:
		n = 2
	case 0x6:
		n = 3
	case 0x7:
		n = 5
	case 0x8:
		n = 9
	case 0x9:
		n = 17
	case 0xa, 0xc, 0xe:
		if len(b) < 2 {
			return 0
		}
		n = 2 + uint64(b[1])
	case 0xb, 0xd, 0xf:
		if len(b) < 5 {
			return 0
		}
		n = 5 + uint64(binary.BigEndian.Uint32(b[1:]))
	}
	if n > uint64(len(b)) {
		return 0
	}
	return int(n)
}

// mergeOverlay lays the map over upon under: equal keys get over's value. A malformed
// map counts as none. What would grow above maxOverlay keeps over alone.
func mergeOverlay(under, over []byte) []byte {
	overPairs, overN, ok := mapPairs(over)
	if !ok || overN == 0 {
		return under
	}
	underPairs, underN, _ := mapPairs(under)
	var kept []byte
	n := overN
	for range underN / 2 {
		k := valueSize(underPairs, 8)
		v := valueSize(underPairs[k:], 8)
		if !hasKey(overPairs, overN, underPairs[:k]) {
			kept = append(kept, underPairs[:k+v]...)
			n += 2
		}
		underPairs = underPairs[k+v:]
	}
	if len(kept)+len(overPairs) > maxOverlay {
		kept, n = nil, overN
	}
	return wrapMap(append(kept, overPairs...), n)
}

func hasKey(pairs []byte, n int, key []byte) bool {
	for range n / 2 {
		k := valueSize(pairs, 8)
		if bytes.Equal(pairs[:k], key) {
			return true
		}
		pairs = pairs[k+valueSize(pairs[k:], 8):]
	}
	return false
}
