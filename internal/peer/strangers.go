package peer

import (
	"net"
	"sync"
)

const (
	// maxStrangers bounds the connections that are in their handshake, maxStrangersHost those of them from one address: so a
	// flood from one machine leaves room for the nodes.
	maxStrangers     = 64
	maxStrangersHost = 16
)

// strangers counts the connections that are in their handshake. It is safe for concurrent use.
type strangers struct {
	mu    sync.Mutex
	all   int
	hosts map[string]int // of addresses other than loopback; guarded by mu
}

// enter reports whether there is room; leave has to follow then.
func (s *strangers) enter(conn net.Conn) (leave func(), ok bool) {
	host := ""
	if a, ok := conn.RemoteAddr().(*net.TCPAddr); ok && !a.IP.IsLoopback() {
		host = a.IP.String()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all >= maxStrangers || host != "" && s.hosts[host] >= maxStrangersHost {
		return nil, false
	}
	if s.hosts == nil {
		s.hosts = map[string]int{}
	}
	s.all++
	s.hosts[host]++
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all--
		if s.hosts[host]--; s.hosts[host] == 0 {
			delete(s.hosts, host)
		}
	}), true
}
