package certs

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
)

// ErrToken is wrapped by errors about the text of a token.
var ErrToken = errors.New("oncemq: not a join token")

const (
	// tokenMark begins a token's text, so that people and scanners for secrets know it.
	tokenMark = "oncemq-join-"
	// tokenVersion is the first byte behind it.
	tokenVersion = 1
	// MaxTokenAddresses is how many addresses a token names at most.
	MaxTokenAddresses = 16
	maxTokenAddress   = 255
	maxTokenText      = 8 << 10
)

// Token lets its holder join a cluster, once. Its text is a secret.
type Token struct {
	// Secret is what the cluster keeps the hash of.
	Secret [32]byte
	// Authority is the fingerprint of the cluster's authority.
	Authority [32]byte
	// Addresses are where members listen for nodes, host:port.
	Addresses []string
}

// NewToken draws a token's secret.
func NewToken(authority [32]byte, addresses []string) Token {
	t := Token{Authority: authority, Addresses: addresses}
	_, _ = rand.Read(t.Secret[:]) // never fails
	return t
}

// Hash is what the cluster keeps of the secret. SHA-256 is enough: the secret is 256 random bits, which nobody guesses.
func (t Token) Hash() [32]byte { return TokenHash(t.Secret) }

// TokenHash see Token.Hash.
func TokenHash(secret [32]byte) [32]byte {
	return sha256.Sum256(append([]byte("oncemq join token"), secret[:]...))
}

// String shows no secret.
func (t Token) String() string { return tokenMark + "(hidden)" }

// GoString shows no secret.
func (t Token) GoString() string { return t.String() }

// MarshalText refuses: a token must not get into JSON or a log by accident; see Text.
func (t Token) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// Text is the token as it is handed over, one line.
func (t Token) Text() string {
	b := []byte{tokenVersion}
	b = append(b, t.Secret[:]...)
	b = append(b, t.Authority[:]...)
	b = binary.AppendUvarint(b, uint64(len(t.Addresses)))
	for _, a := range t.Addresses {
		b = binary.AppendUvarint(b, uint64(len(a)))
		b = append(b, a...)
	}
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	return tokenMark + base64.RawURLEncoding.EncodeToString(b)
}

// ParseToken reads a token's text. Errors wrap ErrToken and never repeat it.
func ParseToken(text string) (t Token, err error) {
	text = strings.TrimSpace(text)
	code, ok := strings.CutPrefix(text, tokenMark)
	if !ok || len(text) > maxTokenText {
		return t, fmt.Errorf("%w: it begins with %s and has one line of at most %d bytes", ErrToken, tokenMark, maxTokenText)
	}
	b, err := base64.RawURLEncoding.DecodeString(code)
	if err != nil || len(b) < 1+4 {
		return t, fmt.Errorf("%w: it isn't whole, or has other characters than were printed", ErrToken)
	}
	if b[0] != tokenVersion {
		return t, fmt.Errorf("%w: version %d, this program knows %d; use the release that the cluster runs", ErrToken, b[0], tokenVersion)
	}
	b, sum := b[:len(b)-4], binary.BigEndian.Uint32(b[len(b)-4:])
	if crc32.ChecksumIEEE(b) != sum {
		return t, fmt.Errorf("%w: it isn't whole, or was changed on its way", ErrToken)
	}
	b = b[1:]
	if len(b) < len(t.Secret)+len(t.Authority) {
		return t, fmt.Errorf("%w: too short", ErrToken)
	}
	b = b[copy(t.Secret[:], b):]
	b = b[copy(t.Authority[:], b):]
	n, k := binary.Uvarint(b)
	if k <= 0 || n == 0 || n > MaxTokenAddresses {
		return Token{}, fmt.Errorf("%w: %d addresses", ErrToken, n)
	}
	b = b[k:]
	for range n {
		size, k := binary.Uvarint(b)
		if k <= 0 || size == 0 || size > maxTokenAddress || size > uint64(len(b)-k) {
			return Token{}, fmt.Errorf("%w: an address that ends behind it", ErrToken)
		}
		t.Addresses = append(t.Addresses, string(b[k:k+int(size)]))
		b = b[k+int(size):]
	}
	if len(b) > 0 {
		return Token{}, fmt.Errorf("%w: %d bytes behind its end", ErrToken, len(b))
	}
	return t, nil
}
