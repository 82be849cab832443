//go:build nextlevel

package command

// The build tag nextlevel makes a binary of the next feature level, for tests of upgrades:
// one more command, and a state that counts its entries.
const nextLevels = 1

// kinds is one past the last kind that this binary knows.
const kinds = KindCensus + 1

// KindCensus is the kind of the next level's command.
const KindCensus = kindEnd

// Census is the command that only the tests' next version knows: it changes a counter. Only in system records.
type Census struct{}

// Kind implements Command.
func (*Census) Kind() Kind { return KindCensus }

func (*Census) append(dst []byte) []byte { return dst }
func (*Census) decode(*reader)           {}

func newNext(Kind) Command { return new(Census) }
