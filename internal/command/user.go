package command

import "fmt"

// Anonymous is the principal of clients that did not say who they are. No user may
// have this name.
const Anonymous = "ANONYMOUS"

// MaxUserName is the highest length of a user's name in bytes: with each byte escaped
// it still fits a SASL frame of 512 bytes.
const MaxUserName = 128

// scramVersion is the first byte of encoded keys. Another one stops the node.
const scramVersion = 1

// ScramKeys are what is kept of a password (RFC 5802 section 3): enough to check it,
// not to read it. Iterations 0 means that there is no password: the user can only
// come with a certificate. The keys are secrets all the same and never printed.
type ScramKeys struct {
	Iterations uint32
	Salt       [16]byte
	// Stored and Server are the StoredKey and ServerKey of each hash.
	Stored256, Server256 [32]byte
	Stored512, Server512 [64]byte
}

// None reports that there is no password.
func (k *ScramKeys) None() bool { return k.Iterations == 0 }

// String hides the keys.
func (k ScramKeys) String() string { return fmt.Sprintf("{%d iterations, keys hidden}", k.Iterations) }

// GoString hides the keys.
func (k ScramKeys) GoString() string { return k.String() }

// AppendScramKeys adds the encoding of k to dst; nothing where there is no password.
func AppendScramKeys(dst []byte, k *ScramKeys) []byte {
	if k.None() {
		return dst
	}
	dst = append(dst, scramVersion)
	dst = appendUint(dst, uint64(k.Iterations))
	for _, b := range [][]byte{k.Salt[:], k.Stored256[:], k.Server256[:], k.Stored512[:], k.Server512[:]} {
		dst = append(dst, b...)
	}
	return dst
}

// DecodeScramKeys is the inverse of AppendScramKeys. Errors wrap ErrEncoding.
func DecodeScramKeys(src []byte) (k ScramKeys, err error) {
	if len(src) == 0 {
		return k, nil
	}
	r := reader{buf: src}
	if v := r.byte(); v != scramVersion {
		r.fail(fmt.Sprintf("version %d of a user's keys: written by a newer version", v))
	}
	k.Iterations = r.uint32()
	for _, b := range [][]byte{k.Salt[:], k.Stored256[:], k.Server256[:], k.Stored512[:], k.Server512[:]} {
		r.fixed(b)
	}
	if r.err == nil && (k.Iterations == 0 || len(r.buf) != 0) {
		r.fail("a user's keys")
	}
	if r.err != nil {
		return ScramKeys{}, r.err
	}
	return k, nil
}

// UserRule says what UserPut expects to find.
type UserRule uint8

// The rules.
const (
	// UserNew: refused where there is a user of that name.
	UserNew UserRule = 1 + iota
	// UserChange: refused where there is none.
	UserChange
)

// UserPut makes a user or changes its password. Only a node itself gives it, for the
// admin API. Its home has prepared the name (SASLprep), drawn the salt and computed
// the keys: the password stands nowhere. Answer: EffectUser.
type UserPut struct {
	Request uint64
	Rule    UserRule
	Name    string
	// Seed is 32 bytes drawn at the home. State keeps those of the first UserPut ever:
	// the salts shown for unknown users are derived from them, alike on all nodes.
	Seed [32]byte
	Keys ScramKeys
}

// Kind implements Command.
func (*UserPut) Kind() Kind { return KindUserPut }

func (c *UserPut) append(dst []byte) []byte {
	dst = appendUint(dst, c.Request)
	dst = append(dst, byte(c.Rule))
	dst = appendString(dst, c.Name)
	dst = append(dst, c.Seed[:]...)
	return appendBytes(dst, AppendScramKeys(nil, &c.Keys))
}

func (c *UserPut) decode(r *reader) {
	c.Request = r.uint()
	if c.Rule = UserRule(r.byte()); c.Rule != UserNew && c.Rule != UserChange {
		r.fail("rule of a user command")
	}
	c.Name = r.string()
	r.fixed(c.Seed[:])
	keys, err := DecodeScramKeys(r.bytes())
	if err != nil && r.err == nil {
		r.err, r.buf = err, nil
	}
	c.Keys = keys
}

// UserDelete takes a user away and ends its connections in the same step. What it
// left, sessions and messages, stays the name's. Only a node itself gives it. Answer:
// EffectUser.
type UserDelete struct {
	Request uint64
	Name    string
}

// Kind implements Command.
func (*UserDelete) Kind() Kind { return KindUserDelete }

func (c *UserDelete) append(dst []byte) []byte {
	return appendString(appendUint(dst, c.Request), c.Name)
}
func (c *UserDelete) decode(r *reader) { c.Request, c.Name = r.uint(), r.string() }
