package selector

import (
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// SyntaxError says what is wrong with the text of a selector, and where.
type SyntaxError struct {
	// Column is where the fault was found: 1 and up, in characters (code points), one behind the last at the end.
	Column int
	// Reason says what was expected and what stands there.
	Reason string
}

// Error names the column and the reason.
func (e *SyntaxError) Error() string {
	return "selector: column " + strconv.Itoa(e.Column) + ": " + e.Reason
}

// ErrForm is wrapped by every error of Decode. In a committed entry it means damage or a newer version.
var ErrForm = errors.New("selector: bad parsed form")

func formError(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrForm, fmt.Sprintf(format, args...))
}

// syntaxError is an error at the byte offset at of text.
func syntaxError(text string, at int, reason string) *SyntaxError {
	return &SyntaxError{Column: 1 + utf8.RuneCountInString(text[:at]), Reason: reason}
}
