package oncemq

import (
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/oncemq/oncemq/internal/amqp"
)

// toValue is v in the codec's types.
func toValue(v any, depth int) (any, error) {
	if depth >= amqp.MaxDepth-2 {
		return nil, fmt.Errorf("oncemq: nested deeper than %d", amqp.MaxDepth-2)
	}
	switch x := v.(type) {
	case nil, bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float32, float64, []byte:
		return v, nil
	case string:
		return v, checkText(x)
	case int:
		return int64(x), nil
	case uint:
		return uint64(x), nil
	case time.Time:
		return amqp.Timestamp(x.UnixMilli()), nil
	case Symbol:
		return amqp.Symbol(x), checkSymbol(string(x))
	case UUID:
		return amqp.UUID(x), nil
	case []any:
		list := make(amqp.List, len(x))
		for i := range x {
			var err error
			if list[i], err = toValue(x[i], depth+1); err != nil {
				return nil, err
			}
		}
		return list, nil
	case map[string]any:
		return sorted(x, false, depth)
	case map[any]any:
		return unsorted(x, depth)
	}
	return nil, fmt.Errorf("oncemq: a %T can't be sent: see Message for the types that can", v)
}

// checkText refuses what the wire can't carry as it is: it would arrive altered, and two ids could become one.
func checkText(s string) error {
	if !utf8.ValidString(s) {
		return fmt.Errorf("oncemq: %.80q is not UTF-8: send it as []byte", s)
	}
	return nil
}

// checkSymbol refuses a symbol that isn't ASCII.
func checkSymbol(s string) error {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return fmt.Errorf("oncemq: %.80q is no symbol: want ASCII", s)
		}
	}
	return nil
}

// toMap is a map with keys of strings or, in annotations, of symbols.
func toMap(m map[string]any, symbols bool) (amqp.Map, error) {
	return sorted(m, symbols, 0)
}

// sorted keeps an order, so that equal messages have equal bytes.
func sorted(m map[string]any, symbols bool, depth int) (amqp.Map, error) {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	out := make(amqp.Map, 0, len(m)+1)
	check := checkText
	if symbols {
		check = checkSymbol
	}
	for _, k := range keys {
		v, err := toValue(m[k], depth+1)
		if err == nil {
			err = check(k)
		}
		if err != nil {
			return nil, fmt.Errorf("%q: %w", k, err)
		}
		p := amqp.Pair{Key: k, Value: v}
		if symbols {
			p.Key = amqp.Symbol(k)
		}
		out = append(out, p)
	}
	return out, nil
}

func unsorted(m map[any]any, depth int) (amqp.Map, error) {
	out := make(amqp.Map, 0, len(m))
	for k, v := range m {
		key, err := toValue(k, depth+1)
		if err != nil {
			return nil, err
		}
		value, err := toValue(v, depth+1)
		if err != nil {
			return nil, err
		}
		out = append(out, amqp.Pair{Key: key, Value: value})
	}
	return out, nil
}

// fromValue is a decoded value in the types of this package: those that Message names, and for what they can't hold the nearest: a described value
// is its value, an array a []any, a char a string, a decimal its bytes.
func fromValue(v any) any {
	switch x := v.(type) {
	case amqp.Symbol:
		return Symbol(x)
	case amqp.UUID:
		return UUID(x)
	case amqp.Timestamp:
		return time.UnixMilli(int64(x))
	case amqp.Char:
		return string(rune(x))
	case amqp.List:
		return fromList(x)
	case amqp.Array:
		return fromList(x.Items)
	case *amqp.Described:
		return fromValue(x.Value)
	case amqp.Decimal32:
		return x[:]
	case amqp.Decimal64:
		return x[:]
	case amqp.Decimal128:
		return x[:]
	case amqp.Map:
		if m := fromMap(x); len(m) == len(x) {
			return m
		}
		m := make(map[any]any, len(x))
		for _, p := range x {
			if k := fromValue(p.Key); hashable(k) {
				m[k] = fromValue(p.Value)
			}
		}
		return m
	}
	return v
}

func fromList(list []any) []any {
	out := make([]any, len(list))
	for i, v := range list {
		out[i] = fromValue(v)
	}
	return out
}

// fromMap takes the entries whose keys are strings or symbols; nil if there are none.
func fromMap(m amqp.Map) map[string]any {
	if len(m) == 0 {
		return nil
	}
	out := make(map[string]any, len(m))
	for _, p := range m {
		switch k := p.Key.(type) {
		case string:
			out[k] = fromValue(p.Value)
		case amqp.Symbol:
			out[string(k)] = fromValue(p.Value)
		}
	}
	return out
}

// hashable says that k can be a map's key.
func hashable(k any) bool {
	switch k.(type) {
	case []byte, []any, map[string]any, map[any]any:
		return false
	}
	return true
}
