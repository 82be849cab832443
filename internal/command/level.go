package command

import (
	"errors"
	"fmt"
)

// Feature levels [7.1]: what an entry does to the state hangs on the level that the
// state is at, never on the binary that applies it. A binary carries the behaviour of
// its own level and of the one before, so that two neighbours can run in one cluster and
// one step back is possible until Finalize raises the level.
const (
	// Level is the highest level that this binary knows, LeastLevel the lowest. Any change
	// of what an entry does to the state, a fault put right included, raises Level.
	Level      = released + nextLevels
	LeastLevel = max(1, Level-1)

	released = 1
)

// LastKind is the highest kind of command of the released levels.
const LastKind = kindEnd - 1

// MaxVersion is the most bytes of a version's name in a command.
const MaxVersion = 64

// ErrNewer is wrapped by errors about what only a newer version knows: the node must
// stop, and run that version.
var ErrNewer = errors.New("oncemq: written by a newer version")

// LevelOf is the feature level that a kind of command came with: in a state below it, such
// a command must not be.
func LevelOf(k Kind) uint32 {
	if k >= kindEnd {
		return released + 1 // of the tests' next version (next_on.go)
	}
	return 1
}

// Finalize raises the cluster's feature level to Level, its present one + 1, once every
// node has said by its NodeUp that it knows that level; repeats change nothing. From then
// on binaries that don't know it can't be run any more. Answer: EffectCluster.
type Finalize struct {
	Request uint64
	Level   uint32
	Version string // of the binary that raises it, for people: at most MaxVersion bytes
}

// Kind implements Command.
func (*Finalize) Kind() Kind { return KindFinalize }

func (c *Finalize) append(dst []byte) []byte {
	dst = appendUint(dst, c.Request)
	dst = appendUint(dst, uint64(c.Level))
	return appendString(dst, c.Version)
}

func (c *Finalize) decode(r *reader) {
	c.Request, c.Level, c.Version = r.uint(), r.uint32(), r.string()
}

// CheckLevel says whether this binary can go on with a state at that level, to which the
// named version raised it. Errors wrap ErrNewer where the level is too high for it.
func CheckLevel(level uint32, version string) error {
	switch {
	case level > Level:
		return fmt.Errorf("%w: the cluster is at feature level %d%s, this binary knows levels %d to %d: run %s",
			ErrNewer, level, raisedBy(version), LeastLevel, Level, orNewer(version, level))
	case level < LeastLevel:
		return fmt.Errorf("oncemq: the cluster is at feature level %d, this binary knows levels %d to %d: run a version that knows %d and %d first, and then \"oncemq cluster finalize\"",
			level, LeastLevel, Level, level, level+1)
	}
	return nil
}

func raisedBy(version string) string {
	if version == "" {
		return ""
	}
	return " (by oncemq " + version + ")"
}

func orNewer(version string, level uint32) string {
	if version == "" {
		return fmt.Sprintf("a version that knows level %d", level)
	}
	return "oncemq " + version + " or newer"
}
