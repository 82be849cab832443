package amqp

// CloneMap is a copy of m that shares no byte slice with it.
func CloneMap(m Map) Map {
	if m == nil {
		return nil
	}
	c := make(Map, len(m))
	for i := range m {
		c[i] = Pair{Key: CloneValue(m[i].Key), Value: CloneValue(m[i].Value)}
	}
	return c
}

// CloneValue is a copy of v that shares no byte slice with it, for callers that keep a decoded value beyond its buffer.
// Composites of this package, which a decode leaves in no value, are shared.
func CloneValue(v any) any {
	switch x := v.(type) {
	case []byte:
		return cloneBytes(x)
	case List:
		return List(cloneItems(x))
	case Map:
		return CloneMap(x)
	case Array:
		return Array{Type: x.Type, Descriptor: CloneValue(x.Descriptor), Items: cloneItems(x.Items)}
	case *Described:
		return &Described{Descriptor: CloneValue(x.Descriptor), Value: CloneValue(x.Value)}
	}
	return v
}

func cloneItems(items []any) []any {
	if items == nil {
		return nil
	}
	c := make([]any, len(items))
	for i := range items {
		c[i] = CloneValue(items[i])
	}
	return c
}
