package amqp

// DeliveryState is the state of a delivery at one end: *Received, the outcomes *Accepted, *Rejected, *Released, *Modified
// and *Declared, or *TransactionalState. Always pointers; those without fields cost no allocation.
type DeliveryState interface {
	composite
	deliveryState()
}

// IsOutcome says whether a state is terminal: one of accepted, rejected, released, modified, declared.
func IsOutcome(s DeliveryState) bool {
	switch s.(type) {
	case *Accepted, *Rejected, *Released, *Modified, *Declared:
		return true
	}
	return false
}

// CloneState is a copy of s that shares no byte slice with it, for callers that keep a state beyond the frame that it came
// in. Strings, symbols and maps are shared, but for binary values in them, which are copied too.
func CloneState(s DeliveryState) DeliveryState {
	switch x := s.(type) {
	case *Rejected:
		return &Rejected{Error: cloneError(x.Error)}
	case *Modified:
		c := *x
		c.MessageAnnotations = CloneMap(x.MessageAnnotations)
		return &c
	case *Received:
		c := *x
		return &c
	case *Declared:
		return &Declared{TxnID: cloneBytes(x.TxnID)}
	case *TransactionalState:
		return &TransactionalState{TxnID: cloneBytes(x.TxnID), Outcome: CloneState(x.Outcome)}
	}
	return s
}

func cloneError(e *Error) *Error {
	if e == nil {
		return nil
	}
	return &Error{Condition: e.Condition, Description: e.Description, Info: CloneMap(e.Info)}
}

func cloneBytes(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append([]byte{}, b...)
}
