//go:build invariants

package amqp

const mangling = true

// Mangle overwrites b. Whoever reuses a buffer that frames were decoded from calls it first, so that an alias that
// outlived its time shows. Without the build tag "invariants" it does nothing.
func Mangle(b []byte) {
	for i := range b {
		b[i] = 0xdb
	}
}
