package config

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ErrUsage is wrapped by every error of this package: what the operator wrote can't
// be used. Commands answer it with exit status 2.
var ErrUsage = errors.New("oncemq: wrong usage")

// ServeFlags is what `oncemq serve` was given, as text.
type ServeFlags struct {
	Node       string // empty: the data directory's, or 1
	Data       string
	Listen     string
	PeerListen string // empty: this node's address in Peers, or DefaultPeerListen
	Peers      string // empty: the members that the data directory knows, or a lone node
	Admin      string
	Safety     string
	Dev        bool
	ScrubEvery time.Duration // 0: the replica's default
	SizeFlags
	AdvertiseFlags

	ListenTLS   string // empty: no listener with TLS
	ListenWS    string // empty: no listener for WebSocket
	ListenWSS   string // empty: none for WebSocket with TLS
	WSOrigins   string
	TLSCert     string
	TLSKey      string
	TLSClientCA string
	Plain       bool
	Insecure    bool
}

// The defaults of `oncemq serve`.
const (
	DefaultNode       = "1" // where the data directory says nothing else
	DefaultData       = "oncemq-data"
	DefaultListen     = "127.0.0.1:5672"
	DefaultPeerListen = "127.0.0.1:5673"
	DefaultAdmin      = "127.0.0.1:8161"
	DefaultSafety     = "on"
)

// InsecureFlag is the flag for ServeFlags.Insecure. Its name is meant to be seen.
const InsecureFlag = "insecure-plaintext-for-everybody"

// Off as the value of --listen means that there is no plaintext listener.
const Off = "off"

// Serve is the validated configuration of a node.
type Serve struct {
	// Node is this node's raft id, 1 and up, a key of Peers; 0: the data directory's, or 1.
	Node uint64
	Advertised
	// Data is the data directory.
	Data string
	// Listen, PeerListen and Admin are loopback host:port addresses; port 0 means any. Listen is empty where there is no plaintext
	// listener for clients. PeerListen may be elsewhere where Peers is empty: whether there are certificates for it, only the data directory
	// knows.
	Listen, PeerListen, Admin string
	// ListenTLS is the host:port for clients with TLS, empty for none; with it go TLSCert and TLSKey, and perhaps TLSClientCA: PEM files.
	ListenTLS, TLSCert, TLSKey, TLSClientCA string
	// ListenWS and ListenWSS are the host:port for clients over WebSocket, in plaintext, for which the same holds as for Listen, and
	// with TLS, as for ListenTLS; empty for none. WSOrigins are the hosts whose web pages may connect.
	ListenWS, ListenWSS string
	WSOrigins           []string
	// Plain allows SASL PLAIN, over TLS and from this machine.
	Plain bool
	// Insecure allows a Listen and a ListenWS that others can reach, in plaintext. Never with Dev.
	Insecure bool
	// Peers are the peer addresses of all nodes, this one included, one or three; empty: the members that the data directory knows, or a
	// lone node.
	Peers map[uint64]string
	// Dev allows what is fit for a developer's machine only: anonymous clients and
	// profiling. All addresses are loopback ones then.
	Dev bool
	// SafetyOff answers before replication and fsync; it exists for the demo.
	SafetyOff bool
	// ScrubEvery is how often all of log and state is read on trial; 0: the replica's default.
	ScrubEvery time.Duration
	Sizes
}

// maxScrubEvery is the longest time between two trials: what is damaged for longer may be so on every node.
const maxScrubEvery = 90 * 24 * time.Hour

// maxNode is the highest node id: it fits the 16 bits that log records give it.
const maxNode = 1<<16 - 1

// Parse validates f. Its error joins all faults found, one a line, and wraps ErrUsage.
func (f ServeFlags) Parse() (Serve, error) {
	s := Serve{
		Data: f.Data, Listen: f.Listen, PeerListen: f.PeerListen, Admin: f.Admin, Dev: f.Dev,
		ListenTLS: f.ListenTLS, TLSCert: f.TLSCert, TLSKey: f.TLSKey, TLSClientCA: f.TLSClientCA, Plain: f.Plain, Insecure: f.Insecure,
		ListenWS: f.ListenWS, ListenWSS: f.ListenWSS, ScrubEvery: f.ScrubEvery,
	}
	var faults []error
	fault := func(flag, value, why, allowed string) {
		faults = append(faults, Fault(flag, value, why, allowed))
	}
	if f.Node != "" {
		node, err := strconv.ParseUint(f.Node, 10, 64)
		if err != nil || node == 0 || node > maxNode {
			fault("node", f.Node, "not a node id", "a whole number from 1 to 65535")
		}
		s.Node = node
	}
	if f.Data == "" {
		fault("data", f.Data, "no directory", "the path of a directory that belongs to this node alone")
	}
	if f.Listen == Off {
		s.Listen = ""
	}
	switch f.Safety {
	case "on":
	case "off":
		s.SafetyOff = true
	default:
		fault("safety", f.Safety, "not a setting", `"on", or "off" to see the demo's checker find what gets lost`)
	}
	if f.ScrubEvery != 0 && (f.ScrubEvery < time.Second || f.ScrubEvery > maxScrubEvery) {
		fault("scrub-every", f.ScrubEvery.String(), "out of bounds", "1s to "+maxScrubEvery.String())
	}
	faults = append(faults, s.Sizes.parse(f.SizeFlags)...)
	faults = append(faults, s.parsePeers(f.Peers)...)
	faults = append(faults, s.Advertised.parse(f.AdvertiseFlags)...)
	faults = append(faults, append(s.checkTLS(), s.parseWS(f.WSOrigins)...)...)
	for _, a := range []struct{ flag, value string }{
		{"listen", s.Listen}, {"peer-listen", s.PeerListen}, {"admin", s.Admin},
	} {
		if a.flag == "listen" && f.Listen == Off {
			continue
		}
		check := Loopback
		if a.flag == "listen" && s.Insecure || a.flag == "peer-listen" && len(s.Peers) == 0 && !s.Dev {
			check = address
		}
		if err := check(a.flag, a.value); err != nil {
			faults = append(faults, err)
		}
	}
	if s.Insecure && s.Dev {
		fault(InsecureFlag, "true", "with --dev everybody would be let in from everywhere", "one of the two")
	}
	faults = append(faults, s.clashes()...)
	if len(faults) > 0 {
		return Serve{}, errors.Join(faults...)
	}
	return s, nil
}

// checkTLS checks the listener with TLS and what goes with it.
func (s *Serve) checkTLS() (faults []error) {
	if s.ListenTLS == "" && s.ListenWSS == "" {
		for _, a := range []struct{ flag, value string }{{"tls-cert", s.TLSCert}, {"tls-key", s.TLSKey}, {"tls-client-ca", s.TLSClientCA}} {
			if a.value != "" {
				faults = append(faults, Fault(a.flag, a.value, "there is no listener with TLS", "--listen-tls or --listen-wss with it"))
			}
		}
		if s.Listen == "" && s.ListenWS == "" {
			faults = append(faults, Fault("listen", Off, "no listener for clients is left", "--listen-tls with it"))
		}
		return faults
	}
	check := address
	if s.Dev {
		check = Loopback
	}
	for _, a := range []struct{ flag, value string }{{"listen-tls", s.ListenTLS}, {"listen-wss", s.ListenWSS}} {
		if a.value == "" {
			continue
		}
		if err := check(a.flag, a.value); err != nil {
			faults = append(faults, err)
		}
	}
	for _, a := range []struct{ flag, value string }{{"tls-cert", s.TLSCert}, {"tls-key", s.TLSKey}} {
		if a.value == "" {
			faults = append(faults, Fault(a.flag, "", "--listen-tls and --listen-wss need it", "the path of a file in PEM form"))
		}
	}
	return faults
}

// parsePeers reads "1=host:port,2=host:port,3=host:port", and finds PeerListen in it
// where none was given.
func (s *Serve) parsePeers(list string) (faults []error) {
	const allowed = "1=ADDR,2=ADDR,3=ADDR: one node or three (five come later), this one included"
	s.Peers = map[uint64]string{}
	for item := range strings.SplitSeq(list, ",") {
		if list == "" {
			break
		}
		id, addr, ok := strings.Cut(item, "=")
		node, err := strconv.ParseUint(id, 10, 64)
		switch {
		case !ok || err != nil || node == 0 || node > maxNode:
			faults = append(faults, Fault("peers", list, fmt.Sprintf("%q isn't ID=ADDR", item), allowed))
			continue
		case s.Peers[node] != "":
			faults = append(faults, Fault("peers", list, fmt.Sprintf("node %d is named twice", node), allowed))
		case slices.Contains(slices.Collect(maps.Values(s.Peers)), addr):
			faults = append(faults, Fault("peers", list, fmt.Sprintf("two nodes have the address %s", addr), "a different address for each node"))
		}
		if err := Loopback("peers", addr); err != nil {
			faults = append(faults, err)
		}
		s.Peers[node] = addr
	}
	if len(faults) > 0 {
		return faults
	}
	if list == "" {
		if s.PeerListen == "" {
			s.PeerListen = DefaultPeerListen
		}
		return nil
	}
	if s.Node == 0 {
		s.Node = 1
	}
	if n := len(s.Peers); n != 1 && n != 3 {
		return []error{Fault("peers", list, fmt.Sprintf("%d nodes", n), allowed)}
	}
	own, ok := s.Peers[s.Node]
	if !ok {
		return []error{Fault("peers", list, fmt.Sprintf("node %d, which this is by --node, isn't among them", s.Node), allowed)}
	}
	if s.PeerListen == "" {
		s.PeerListen = own
	}
	return nil
}

// clashes finds two listeners on one address.
func (s *Serve) clashes() (faults []error) {
	seen := map[string]string{}
	for _, a := range []struct{ flag, value string }{
		{"listen", s.Listen}, {"listen-tls", s.ListenTLS}, {"listen-ws", s.ListenWS}, {"listen-wss", s.ListenWSS}, {"peer-listen", s.PeerListen}, {"admin", s.Admin},
	} {
		if _, port, err := net.SplitHostPort(a.value); err != nil || port == "0" {
			continue
		}
		if other := seen[a.value]; other != "" {
			faults = append(faults, Fault(a.flag, a.value, "--"+other+" has the same address", "an address of its own for each listener"))
		}
		seen[a.value] = a.flag
	}
	return faults
}

// Fault is the error for one wrong flag value. It wraps ErrUsage.
func Fault(flag, value, why, allowed string) error {
	return fmt.Errorf("%w: --%s %q: %s; allowed: %s", ErrUsage, flag, value, why, allowed)
}

// Loopback checks that addr is host:port with a loopback IP address (or "localhost").
func Loopback(flag, addr string) error {
	const allowed = "a loopback address such as 127.0.0.1:5672; for others there is --listen-tls, without --dev"
	if err := address(flag, addr); err != nil {
		return err
	}
	host, _, _ := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); host != "localhost" && !ip.IsLoopback() {
		return Fault(flag, addr, "others could reach it, and it has no TLS or lets everybody in", allowed)
	}
	return nil
}

// address checks that addr is host:port with an IP address (or "localhost").
func address(flag, addr string) error {
	const allowed = "an IP address and a port, such as 127.0.0.1:5672 (loopback)"
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return Fault(flag, addr, "not host:port", allowed)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil {
		return Fault(flag, addr, fmt.Sprintf("port %q isn't a number from 0 to 65535", port), allowed)
	} else if n == 0 && flag == "peers" {
		return Fault(flag, addr, "the other nodes can't know a port chosen by the system", "a port from 1 to 65535")
	}
	if host != "localhost" && net.ParseIP(host) == nil {
		return Fault(flag, addr, fmt.Sprintf("%q isn't an IP address", host), allowed)
	}
	return nil
}
