package node

import "testing"

// TestConnections: strangers never get what the log needs.
func TestConnections(t *testing.T) {
	for _, tc := range []struct{ descriptors, clients, admins int }{
		{1 << 20, 10_000, 256}, {1024, 512, 128}, {100, 50, 12}, {1, 1, 1},
	} {
		if clients, admins := connections(tc.descriptors); clients != tc.clients || admins != tc.admins {
			t.Errorf("%d descriptors: %d clients, %d admins; want %d and %d", tc.descriptors, clients, admins, tc.clients, tc.admins)
		}
	}
	if n := descriptors(); n < 16 {
		t.Errorf("%d descriptors", n)
	}
}
