package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"

	"github.com/oncemq/oncemq/internal/command"
)

// maxKnown bounds what a Known remembers.
const maxKnown = 10_000

// Known remembers, for the life of a process, the last password of each user that was
// right, as a hash under a key of the process: with PLAIN a reconnect then costs one
// HMAC instead of 50,000 rounds (interleavings 8.4). A changed password is forgotten by
// itself, since the user's keys are part of the hash. It isn't safe for concurrent use.
type Known struct {
	key    [32]byte
	hashes map[string][sha256.Size]byte
}

// NewKnown remembers under key, which must be random and used nowhere else.
func NewKnown(key [32]byte) *Known {
	return &Known{key: key, hashes: make(map[string][sha256.Size]byte)}
}

// Has says whether p was the user's password before; false means that it isn't known.
func (k *Known) Has(u *User, p Password) bool {
	have, ok := k.hashes[u.Name]
	want := k.hash(&u.Keys, p)
	return ok && hmac.Equal(have[:], want[:])
}

// Add remembers that p is the user's password. Where there is no room all is forgotten.
func (k *Known) Add(u *User, p Password) {
	if len(k.hashes) >= maxKnown {
		clear(k.hashes)
	}
	k.hashes[u.Name] = k.hash(&u.Keys, p)
}

func (k *Known) hash(keys *command.ScramKeys, p Password) (sum [sha256.Size]byte) {
	mac := hmac.New(sha256.New, k.key[:])
	enc := command.AppendScramKeys(nil, keys)
	mac.Write(binary.BigEndian.AppendUint32(nil, uint32(len(enc))))
	mac.Write(enc)
	mac.Write([]byte(p))
	mac.Sum(sum[:0])
	return sum
}
