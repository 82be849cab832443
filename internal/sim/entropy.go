package sim

import "crypto/rand"

// constant is a source of bytes without chance.
type constant struct{}

func (constant) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// Raft draws its election timeouts from crypto/rand.Reader, which is one for the whole process, while worlds run side by
// side: a source that always says the same makes all of them repeatable. Raft's own timeout is then the shortest; elections
// differ by what the world does with ticks, and by the replica's own pauses, which are drawn from the world's seed.
func init() { rand.Reader = constant{} }
