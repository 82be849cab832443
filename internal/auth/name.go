package auth

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/xdg-go/stringprep"

	"github.com/oncemq/oncemq/internal/command"
)

// MaxPassword is the highest length of a password in bytes, prepared or not: together
// with the longest name it fits a SASL frame of 512 bytes.
const MaxPassword = 256

// ErrName is wrapped by refusals of a user's name, ErrPassword by those of a password.
var (
	ErrName     = errors.New("oncemq: not a name for a user")
	ErrPassword = errors.New("oncemq: not a password")
)

// Name prepares a user's name (SASLprep, RFC 4013), so that names that look alike are
// one: what comes back is stored and compared. Errors wrap ErrName.
func Name(raw string) (string, error) {
	if len(raw) > 4*command.MaxUserName {
		return "", fmt.Errorf("%w: %d bytes; allowed: %d", ErrName, len(raw), command.MaxUserName)
	}
	if !utf8.ValidString(raw) {
		return "", fmt.Errorf("%w: %q isn't UTF-8", ErrName, raw)
	}
	name, err := stringprep.SASLprep.Prepare(raw)
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: %q has characters that SASLprep (RFC 4013) forbids, such as control characters", ErrName, raw)
	case name == "":
		return "", fmt.Errorf("%w: %q is empty", ErrName, raw)
	case len(name) > command.MaxUserName:
		return "", fmt.Errorf("%w: %q has %d bytes; allowed: %d", ErrName, raw, len(name), command.MaxUserName)
	case name == command.Anonymous:
		return "", fmt.Errorf("%w: %s is who says no name", ErrName, command.Anonymous)
	}
	return name, nil
}

// Password is a password in memory. It prints and encodes as nothing.
type Password string

// String hides the password.
func (Password) String() string { return "(hidden)" }

// GoString hides the password.
func (Password) GoString() string { return "(hidden)" }

// MarshalText hides the password from JSON and logs.
func (Password) MarshalText() ([]byte, error) { return []byte("(hidden)"), nil }

// prepare is SASLprep. Errors wrap ErrPassword and don't repeat it.
func (p Password) prepare() (string, error) {
	switch {
	case p == "":
		return "", fmt.Errorf("%w: it is empty", ErrPassword)
	case len(p) > MaxPassword:
		return "", fmt.Errorf("%w: %d bytes; allowed: %d", ErrPassword, len(p), MaxPassword)
	case !utf8.ValidString(string(p)):
		return "", fmt.Errorf("%w: it isn't UTF-8", ErrPassword)
	}
	text, err := stringprep.SASLprep.Prepare(string(p))
	if err != nil {
		return "", fmt.Errorf("%w: it has characters that SASLprep (RFC 4013) forbids, such as control characters or line breaks", ErrPassword)
	}
	if text == "" || len(text) > MaxPassword {
		return "", fmt.Errorf("%w: prepared by SASLprep it has %d bytes; allowed: 1 to %d", ErrPassword, len(text), MaxPassword)
	}
	return text, nil
}
