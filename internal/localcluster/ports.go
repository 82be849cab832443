package localcluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
)

// firstEphemeral is where the kernel begins to take ports for outgoing connections.
func firstEphemeral() int {
	low, high := 32768, 0
	if b, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		fmt.Sscan(string(b), &low, &high) // what can't be read stays the usual value
	}
	return low
}

// FreeAddrs finds n loopback addresses (host:port) on which nobody listens now.
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
		addrs = append(addrs, l.Addr().String())
	}
	if len(addrs) == n {
		return addrs, nil
	}
	return nil, errors.Join(fmt.Errorf("finding %d free ports on 127.0.0.1", n), last)
}
