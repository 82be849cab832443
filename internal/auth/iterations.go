package auth

import (
	"math"
	"strconv"
	"strings"
)

// iterations is the number that a server-first-message asks for, the highest where it
// names several; 0 where it names none, and the library refuses that.
func iterations(message string) int {
	most := 0
	for field := range strings.SplitSeq(message, ",") {
		digits, ok := strings.CutPrefix(field, "i=")
		if !ok {
			continue
		}
		n, err := strconv.Atoi(digits)
		if err != nil {
			return math.MaxInt
		}
		most = max(most, n)
	}
	return most
}
