//go:build !nextlevel

package replica

// nextTimer is what a leader of the next feature level does besides: the tests' only (next_on.go).
func (c *core) nextTimer() {}
