package frontend

import "github.com/oncemq/oncemq/internal/command"

// Right is one thing that a principal may be permitted to do with an address (faults.md 3.2).
type Right uint8

// The rights that this package asks for.
const (
	RightSend Right = 1 + iota
	RightConsume
	RightCreate
	RightManage
)

// String is the right's name.
func (r Right) String() string {
	switch r {
	case RightSend:
		return "send"
	case RightConsume:
		return "consume"
	case RightCreate:
		return "create"
	case RightManage:
		return "manage"
	}
	return "unknown"
}

// Anonymous is the principal of SASL ANONYMOUS and of connections without SASL.
const Anonymous = command.Anonymous

// Allow is the one place where it is decided whether principal may do something with address. The answer is no unless
// the node is in --dev mode and the principal ANONYMOUS, or Config.Access says yes.
func (n *Node) Allow(principal string, right Right, address string) bool {
	if n.cfg.Dev && principal == Anonymous {
		return true
	}
	return n.cfg.Access != nil && n.cfg.Access(principal, right, address)
}
