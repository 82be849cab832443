package selector

import (
	"bytes"
	"math"
	"math/bits"
	"strconv"
)

// maxDigits is how many digits of a decimal are read as they are; of those behind, only whether they are all zero.
const maxDigits = 25

// ten19 is the largest power of ten in 64 bits.
const ten19 = 10_000_000_000_000_000_000

// decimal is a decimal of AMQP (IEEE 754-2008 in its binary encoding, of 4, 8 or 16 bytes) as the nearest float.
func decimal(d []byte) float64 {
	var f fields
	var high, low uint64
	switch len(d) {
	case 4:
		f = split(unsigned(d), 32, 8)
		f.exponent -= 101
		if f.coefficient < 10_000_000 {
			low = f.coefficient
		}
	case 8:
		f = split(unsigned(d), 64, 10)
		f.exponent -= 398
		if f.coefficient < 10_000_000_000_000_000 {
			low = f.coefficient
		}
	default:
		f = split(unsigned(d[:8]), 64, 14)
		f.exponent -= 6176
		high, low = bits.Div64(f.coefficient&(1<<49-1), unsigned(d[8:]), ten19)
		if f.coefficient >= 1<<49 || high >= 1_000_000_000_000_000 {
			high, low = 0, 0
		}
	}
	switch {
	case f.nan:
		return math.NaN()
	case f.infinite:
		low = 1
		f.exponent = math.MaxInt16
	}
	x := scaled(high, low, f.exponent)
	if f.negative {
		return -x
	}
	return x
}

// fields are the parts of a decimal's word. A coefficient with more digits than its type has stands for zero.
type fields struct {
	negative, infinite, nan bool
	exponent                int
	coefficient             uint64
}

// split takes a word of size bits apart, whose exponent has width bits: behind the sign or, where the next two bits are
// set, behind those, the coefficient then having 100 in front.
func split(word uint64, size, width uint) fields {
	f := fields{negative: word>>(size-1) != 0}
	top := word >> (size - 6) & 0x1f
	f.nan, f.infinite = top == 0x1f, top == 0x1e
	below := size - 1 - width
	if top>>3 == 3 {
		f.exponent = int(word >> (below - 2) & (1<<width - 1))
		f.coefficient = word&(1<<(below-2)-1) | 1<<below
		return f
	}
	f.exponent = int(word >> below & (1<<width - 1))
	f.coefficient = word & (1<<below - 1)
	return f
}

// scaled is (high·10^19 + low)·10^exponent.
func scaled(high, low uint64, exponent int) float64 {
	var room [64]byte
	b := room[:0]
	if high > 0 {
		b = strconv.AppendUint(b, high, 10)
		for unit := uint64(ten19 / 10); unit > 0; unit /= 10 {
			b = append(b, '0'+byte(low/unit%10))
		}
	} else {
		b = strconv.AppendUint(b, low, 10)
	}
	if len(b) > maxDigits {
		more := bytes.Trim(b[maxDigits:], "0")
		exponent += len(b) - maxDigits
		b = b[:maxDigits]
		if len(more) > 0 {
			b = append(b, '1')
			exponent--
		}
	}
	switch size := len(b) + exponent; { // the power of ten above the number
	case b[0] == '0' || size < -330:
		return 0
	case size > 309:
		return math.Inf(1)
	case size == 309: // ParseFloat would answer that it is out of range with an error, which takes memory
		return float64(parsed(b, exponent-1) * 10)
	}
	return parsed(b, exponent)
}

// parsed is digits·10^exponent.
func parsed(digits []byte, exponent int) float64 {
	b := strconv.AppendInt(append(digits, 'e'), int64(exponent), 10)
	f, _ := strconv.ParseFloat(string(b), 64) //nolint:errcheck // it is a number, and in range
	return f
}
