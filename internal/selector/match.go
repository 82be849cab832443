package selector

// Match says whether the message fits: whether the selector is true of it, not false or unknown. It allocates nothing and
// keeps nothing of m, and never fails: what can't be read is NULL.
func (s *Selector) Match(m *Message) bool {
	s.fill(m)
	result := s.run()
	clear(s.values[:s.names])
	return result == condTrue
}

// fill sets the registers of the names.
func (s *Selector) fill(m *Message) {
	if len(s.application) > 0 {
		s.readMap(m.ApplicationProperties, s.application)
	}
	if len(s.properties) > 0 {
		s.readProperties(m.Properties)
	}
	if len(s.header) > 0 {
		s.readHeader(m.Header)
	}
	if len(s.annotations) > 0 {
		s.readMap(m.MessageAnnotations, s.annotations)
	}
	for _, w := range s.counts {
		v := &s.values[w.slot]
		switch w.field {
		case fieldDeliveryCount:
			*v = value{kind: typeInteger, bits: uint64(m.DeliveryCount)}
		case fieldJMSDeliveryCount:
			*v = value{kind: typeInteger, bits: uint64(m.DeliveryCount) + 1}
		default:
			*v = valueOf(condOf(m.DeliveryCount > 0))
		}
	}
}

// run goes through the program. Every test goes forward: no instruction is done twice.
func (s *Selector) run() cond {
	v, c := s.values, s.conds
	for i := 0; i < len(s.code); i++ {
		in := &s.code[i]
		switch in.op {
		case opEqual, opNotEqual, opLess, opLessOrEqual, opGreater, opGreaterOrEqual:
			c[in.dst] = compare(in.op, &v[in.a], &v[in.b])
		case opAndTest:
			if c[in.a] == condFalse {
				i = int(in.index) - 1
			}
		case opOrTest:
			if c[in.a] == condTrue {
				i = int(in.index) - 1
			}
		case opAnd:
			c[in.dst] = min(c[in.a], c[in.b])
		case opOr:
			c[in.dst] = max(c[in.a], c[in.b])
		case opNot:
			c[in.dst] = condTrue - c[in.a]
		case opCondition:
			c[in.dst] = truth(&v[in.a])
		case opIsNull:
			c[in.dst] = condOf(v[in.a].null())
		case opBetween:
			c[in.dst] = between(&v[in.a], &v[in.b], &v[in.c])
		case opNotBetween:
			c[in.dst] = notBetween(&v[in.a], &v[in.b], &v[in.c])
		case opInStrings:
			c[in.dst] = inStrings(&v[in.a], s.sets[in.index])
		case opInNumbers:
			c[in.dst] = inNumbers(&v[in.a], s.numbers[in.index])
		case opLike:
			c[in.dst] = like(&v[in.a], &s.patterns[in.index])
		case opValue:
			v[in.dst] = valueOf(c[in.a])
		case opNegate, opPlus:
			v[in.dst] = signedValue(&v[in.a], in.op == opNegate)
		default:
			v[in.dst] = arithmetic(in.op, &v[in.a], &v[in.b])
		}
	}
	return c[0]
}

func like(v *value, p *pattern) cond {
	if v.null() {
		return condUnknown
	}
	if v.kind < typeString {
		return condFalse
	}
	var room [uuidLength]byte
	return condOf(p.match(v.string(&room)))
}
