package localcluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync"
)

// firstEphemeral is where the kernel begins to take ports for outgoing connections.
func firstEphemeral() int {
	low, high := 32768, 0
	if b, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		fmt.Sscan(string(b), &low, &high) // what can't be read stays the usual value
	}
	return low
}

// claims are the UDP ports of the numbers that this process has been given: as long as it lives, FreeAddrs gives them to no other process, though
// nobody listens there yet. Guarded by claimMu; never closed.
var (
	claimMu sync.Mutex
	claims  []net.PacketConn
)

// claim says that addr is this process's from now on, and wasn't anybody's.
func claim(addr string) bool {
	c, err := net.ListenPacket("udp", addr)
	if err != nil {
		return false
	}
	claimMu.Lock()
	defer claimMu.Unlock()
	claims = append(claims, c)
	return true
}

// FreeAddrs finds n loopback addresses (host:port) on which nobody listens now, and which it gives to nobody else while this process lives. Safe for
// concurrent use.
func FreeAddrs(n int) ([]string, error) {
	const lowest = 10000
	span := firstEphemeral() - lowest
	if span < 1000 {
		span = 20000 // a narrow machine: take what is free, whoever else may want it
	}
	var addrs []string
	var listeners []net.Listener
	defer func() {
		for _, l := range listeners {
			l.Close()
		}
	}()
	var last error
	for range 100 * n {
		if len(addrs) == n {
			break
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", lowest+rand.IntN(span)))
		if err != nil {
			last = err
			continue
		}
		listeners = append(listeners, l)
		if !claim(l.Addr().String()) {
			continue
		}
		addrs = append(addrs, l.Addr().String())
	}
	if len(addrs) == n {
		return addrs, nil
	}
	return nil, errors.Join(fmt.Errorf("finding %d free ports on 127.0.0.1", n), last)
}
