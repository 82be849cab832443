package peer

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain: whoever starts a goroutine stops it and waits.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
