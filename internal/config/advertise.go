package config

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// AdvertiseFlags are what a node tells others of itself, as text.
type AdvertiseFlags struct {
	Name, Advertise, AdvertiseTLS, AdvertisePeer string
}

// Advertised is what a node tells others of itself [8.12]; empty: what it listens on.
type Advertised struct {
	// Name is what people call the node, at most 64 bytes.
	Name string
	// AMQP, AMQPS and Peer are host:port at which clients and other nodes reach it; the host may be a name.
	AMQP, AMQPS, Peer string
}

// maxName is the longest name of a node, in bytes.
const maxName = 64

func (a *Advertised) parse(f AdvertiseFlags) (faults []error) {
	*a = Advertised{Name: f.Name, AMQP: f.Advertise, AMQPS: f.AdvertiseTLS, Peer: f.AdvertisePeer}
	if err := NodeName("name", f.Name); err != nil {
		faults = append(faults, err)
	}
	for _, x := range []struct{ flag, value string }{{"advertise", a.AMQP}, {"advertise-tls", a.AMQPS}, {"advertise-peer", a.Peer}} {
		if x.value == "" {
			continue
		}
		if err := Reachable(x.flag, x.value); err != nil {
			faults = append(faults, err)
		}
	}
	return faults
}

// NodeName checks a node's name; empty is none.
func NodeName(flag, name string) error {
	if len(name) > maxName || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("/,=", r) }) {
		return Fault(flag, name, "not a name for a node", fmt.Sprintf("at most %d letters, digits and signs but '/', ',' and '='", maxName))
	}
	return nil
}

// Reachable checks that addr is host:port at which others can connect; the host may be a name.
func Reachable(flag, addr string) error {
	const allowed = "a host name or IP address and a port, such as mq1.example.org:5671"
	host, port, err := net.SplitHostPort(addr)
	n, err2 := strconv.ParseUint(port, 10, 16)
	ip := net.ParseIP(host)
	switch {
	case errors.Join(err, err2) != nil || n == 0 || host == "" || len(addr) > 255:
		return Fault(flag, addr, "not host:port", allowed)
	case ip != nil && ip.IsUnspecified():
		return Fault(flag, addr, "others can't connect to it", allowed)
	case strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`/,=@"`, r) }):
		return Fault(flag, addr, fmt.Sprintf("%q isn't a host", host), allowed)
	}
	return nil
}

// ReachableAt is the address at which others reach a listener: what is advertised, or what is listened on where that is one address.
func ReachableAt(listenFlag, listen, advertiseFlag, advertise string) (string, error) {
	if advertise != "" {
		return advertise, Reachable(advertiseFlag, advertise)
	}
	if err := Reachable(listenFlag, listen); err != nil {
		return "", fmt.Errorf("%w; or give --%s, the address at which others reach this node", err, advertiseFlag)
	}
	return listen, nil
}

// PeerListen checks an address for a listener for other nodes with TLS.
func PeerListen(flag, addr string) error { return address(flag, addr) }
