//go:build !invariants

package amqp

const mangling = false

// Mangle does nothing; with the build tag "invariants" it overwrites b. Whoever reuses a buffer that frames were decoded
// from calls it first, so that an alias that outlived its time shows.
func Mangle(_ []byte) {}
