//go:build !nextlevel

package command

// The build tag nextlevel makes a binary of the next feature level, for tests of upgrades:
// one more command, and a state that counts its entries.
const nextLevels = 0

// kinds is one past the last kind that this binary knows.
const kinds = kindEnd

func newNext(Kind) Command { return nil }
