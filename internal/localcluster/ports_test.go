package localcluster

import "testing"

// TestFreeAddrs: an address is given once, also when who asked for it doesn't listen there yet.
func TestFreeAddrs(t *testing.T) {
	given := map[string]bool{}
	for range 300 {
		addrs, err := FreeAddrs(3)
		if err != nil {
			t.Fatal(err)
		}
		for _, addr := range addrs {
			if given[addr] {
				t.Fatalf("%s was given twice", addr)
			}
			given[addr] = true
			if claim(addr) {
				t.Fatalf("another process might be given %s", addr)
			}
		}
	}
}
