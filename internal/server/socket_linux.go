package server

import (
	"context"
	"errors"
	"net"
	"syscall"
	"unsafe"
)

// tcpUserTimeout bounds, in ms, how long sent bytes may stay unacknowledged before the kernel gives the connection up:
// a peer that vanished is noticed while we write [1.5].
const tcpUserTimeout = 20_000

const (
	optUserTimeout = 18     // TCP_USER_TIMEOUT
	ioctlOutq      = 0x5411 // SIOCOUTQ
)

func listen(address string) (net.Listener, error) {
	cfg := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		// Accepted sockets inherit it.
		return raw.Control(func(fd uintptr) {
			_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, optUserTimeout, tcpUserTimeout)
		})
	}}
	return cfg.Listen(context.Background(), "tcp", address)
}

// direct writes to a socket without waiting.
type direct struct {
	raw  syscall.RawConn // nil: it can't
	call func(fd uintptr) bool
	job  *directJob
}

type directJob struct {
	b []byte
	n int
}

func newDirect(nc net.Conn) direct {
	tcp, ok := nc.(*net.TCPConn)
	if !ok {
		return direct{}
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return direct{}
	}
	job := &directJob{}
	return direct{raw: raw, job: job, call: func(fd uintptr) bool {
		for {
			n, err := syscall.Write(int(fd), job.b)
			if errors.Is(err, syscall.EINTR) {
				continue
			}
			job.n = max(n, 0)
			return true // never wait here: the writer goroutine does
		}
	}}
}

// write gives how many bytes the socket took at once. Errors are left to the next waiting write, which meets them too.
func (d *direct) write(b []byte) int {
	if d.raw == nil {
		return 0
	}
	d.job.b, d.job.n = b, 0
	if d.raw.Write(d.call) != nil {
		return 0
	}
	d.job.b = nil
	return d.job.n
}

// unacknowledged is how many bytes the peer's TCP has not acknowledged.
func unacknowledged(nc net.Conn) int {
	tcp, ok := nc.(*net.TCPConn)
	if !ok {
		return 0
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return 1
	}
	var n int32
	if raw.Control(func(fd uintptr) {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, ioctlOutq, uintptr(unsafe.Pointer(&n))); errno != 0 {
			n = 0
		}
	}) != nil {
		return 1
	}
	return int(n)
}
