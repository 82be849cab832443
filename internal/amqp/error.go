package amqp

import "fmt"

// Error is the error of a close, end, detach or rejected (2.8.14). It is a Go error too.
type Error struct {
	// Condition is one of the ErrCond constants or another symbol; mandatory.
	Condition Symbol
	// Description is for people.
	Description string
	// Info is for programs, such as InfoInvalidField.
	Info Map
}

// Error gives the condition and the description.
func (x *Error) Error() string {
	if x.Description == "" {
		return string(x.Condition)
	}
	return fmt.Sprintf("%s: %s", x.Condition, x.Description)
}

func (x *Error) appendTo(dst []byte) []byte {
	w := openList(dst, codeError)
	w.needSym(x.Condition)
	w.str(x.Description)
	w.mapping(x.Info)
	return w.close()
}

func (x *Error) decode(r *reader) {
	l := r.openList("error", 3)
	x.Condition = r.needSym(&l, "condition")
	x.Description = r.str(&l, "description")
	x.Info = r.mapping(&l, "info")
	r.closeList(&l)
}
