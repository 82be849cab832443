package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"

	"github.com/xdg-go/scram"

	"github.com/oncemq/oncemq/internal/command"
)

// Iterations is the number of PBKDF2 rounds of new keys: about 10 to 30 ms of a core,
// paid by clients with SCRAM (interleavings 8.4).
const Iterations = 50_000

// User is what an exchange has to know of a user.
type User struct {
	// Name is as prepared by Name.
	Name string
	// Keys are those of its password, or of nothing that anybody could type.
	Keys command.ScramKeys
	// Exists is false where Keys are invented by Unknown.
	Exists bool
}

// Find looks a user up by its prepared name, behind a read barrier [8.1]: where there is
// none, it answers with Unknown. An error means that no barrier could be had, so that
// nothing is known; it is given out as "later", never as "no" (C16).
type Find func(name string) (User, error)

// NewKeys makes the keys of a password. It takes two times Iterations rounds of
// PBKDF2: call it under a semaphore. Errors wrap ErrPassword.
func NewKeys(p Password, salt [16]byte, iterations int) (k command.ScramKeys, err error) {
	k.Iterations, k.Salt = uint32(iterations), salt
	if err = derive(scram.SHA256, p, &k, k.Stored256[:], k.Server256[:]); err == nil {
		err = derive(scram.SHA512, p, &k, k.Stored512[:], k.Server512[:])
	}
	if err != nil {
		return command.ScramKeys{}, err
	}
	return k, nil
}

func derive(hash scram.HashGeneratorFcn, p Password, k *command.ScramKeys, storedKey, serverKey []byte) error {
	text, err := p.prepare()
	if err != nil {
		return err
	}
	client, err := hash.NewClientUnprepped("", text, "")
	if err != nil {
		return fmt.Errorf("%w: no keys can be made of it", ErrPassword)
	}
	c, err := client.GetStoredCredentialsWithError(factors(k))
	if err != nil {
		return fmt.Errorf("%w: no keys can be made of it", ErrPassword)
	}
	copy(storedKey, c.StoredKey)
	copy(serverKey, c.ServerKey)
	return nil
}

func factors(k *command.ScramKeys) scram.KeyFactors {
	return scram.KeyFactors{Salt: string(k.Salt[:]), Iters: int(k.Iterations)}
}

// Matches says whether keys are those of p. It takes Iterations rounds of PBKDF2: call
// it under a semaphore.
func Matches(p Password, keys *command.ScramKeys) bool {
	got := *keys
	if derive(scram.SHA256, p, &got, got.Stored256[:], got.Server256[:]) != nil {
		return false
	}
	return hmac.Equal(got.Stored256[:], keys.Stored256[:])
}

// Unknown is a user that doesn't exist, or has no password, as everybody may see it: its
// salt is the same whenever and wherever it is asked for, and no password has its keys.
// seed is the cluster's secret.
func Unknown(seed [32]byte, name string) User {
	u := User{Name: name, Keys: command.ScramKeys{Iterations: Iterations}}
	for _, part := range []struct {
		what string
		into []byte
	}{
		{"salt", u.Keys.Salt[:]},
		{"256", u.Keys.Stored256[:]},
		{"512a", u.Keys.Stored512[:32]},
		{"512b", u.Keys.Stored512[32:]},
	} {
		mac := hmac.New(sha256.New, seed[:])
		mac.Write([]byte(part.what))
		mac.Write([]byte{0})
		mac.Write([]byte(name))
		copy(part.into, mac.Sum(nil))
	}
	return u
}
