package peer

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"
)

// purpose is what a connection is dialled for.
type purpose byte

const (
	purposeAsk    purpose = 1 // only the stamps are exchanged
	purposeUrgent purpose = 2
	purposeBulk   purpose = 3
	purposeFetch  purpose = 4 // the dialling side asks, the other one sends
)

// maxAddress is the longest address that a node tells of itself.
const maxAddress = 255

// helloMagic begins a hello's body, so that another protocol's client is told apart.
const helloMagic = "OMQP"

// hello is the first frame of the dialling side; a welcome is the same without purpose.
type hello struct {
	version uint64
	purpose purpose
	to      uint64
	stamp   Stamp
	address string // where the sender says that it is reached; empty: it doesn't
}

func (h *hello) appendTo(dst []byte) []byte {
	dst = append(dst, helloMagic...)
	dst = binary.AppendUvarint(dst, h.version)
	dst = append(dst, byte(h.purpose))
	dst = binary.AppendUvarint(dst, h.to)
	dst = append(dst, h.stamp.Cluster[:]...)
	dst = binary.AppendUvarint(dst, uint64(h.stamp.History))
	dst = binary.AppendUvarint(dst, h.stamp.Node)
	dst = append(dst, h.stamp.Birth[:]...)
	dst = binary.AppendUvarint(dst, uint64(len(h.stamp.Voters)))
	for _, v := range h.stamp.Voters {
		dst = binary.AppendUvarint(dst, v)
	}
	return append(binary.AppendUvarint(dst, uint64(len(h.address))), h.address...)
}

// decodeHello reads a hello or welcome. Of another version only the version is read.
func decodeHello(body []byte) (h hello, err error) {
	d := decoder{buf: body}
	if string(d.take(len(helloMagic))) != helloMagic {
		return h, fmt.Errorf("%w: not a node of OncemQ", ErrFrame)
	}
	h.version = d.uint()
	if d.bad || h.version != Version {
		return h, d.err("hello")
	}
	h.purpose = purpose(d.byte())
	h.to = d.uint()
	d.fixed(h.stamp.Cluster[:])
	h.stamp.History = uint16(d.uint())
	h.stamp.Node = d.uint()
	d.fixed(h.stamp.Birth[:])
	n := d.uint()
	if n > uint64(len(d.buf)) {
		d.bad = true
		n = 0
	}
	for range n {
		h.stamp.Voters = append(h.stamp.Voters, d.uint())
	}
	if n = d.uint(); n > maxAddress {
		d.bad = true
	}
	h.address = string(d.take(int(min(n, maxAddress))))
	d.bad = d.bad || len(d.buf) != 0
	return h, d.err("hello")
}

// errNotFounded is quiet: the other side is about to found the cluster, or we are.
var errNotFounded = errors.New("the cluster isn't founded here yet")

// errRecovering is quiet as well: the other side's directory is damaged, and it takes no part before it is whole.
var errRecovering = errors.New("this node recovers and takes no part yet")

// checkStamps is nil where two nodes are of one cluster, or of one list of founders; asking is true for the bootstrap question,
// which a node with an empty directory may put and answer.
func checkStamps(own, other Stamp, asking bool) error {
	switch {
	case own.Cluster == other.Cluster && own.Cluster == [16]byte{} && own.History != other.History:
		return fmt.Errorf("node %d has history %d, node %d has history %d, and neither has a cluster: restore the same backup on every node, or on none",
			own.Node, own.History, other.Node, other.History)
	case own.Cluster == [16]byte{} || other.Cluster == [16]byte{}:
		if !slices.Equal(own.Voters, other.Voters) {
			return fmt.Errorf("node %d lists the nodes %v, node %d lists %v; give all nodes the same --peers",
				own.Node, own.Voters, other.Node, other.Voters)
		}
		if asking {
			return nil
		}
		return errNotFounded
	case own.Cluster != other.Cluster:
		return fmt.Errorf("node %d belongs to cluster %x, node %d to cluster %x; check --peers and the data directories",
			own.Node, own.Cluster, other.Node, other.Cluster)
	case own.History != other.History:
		return fmt.Errorf("node %d has history %d, node %d has history %d; one of them was restored or recovered: it joins with an empty directory",
			own.Node, own.History, other.Node, other.History)
	}
	return nil
}

// greet is the dialling side's handshake.
func (n *Network) greet(conn net.Conn, peer uint64, what purpose) (Stamp, error) {
	conn.SetDeadline(time.Now().Add(n.config.DialTimeout))
	own := n.currentStamp()
	h := hello{version: Version, purpose: what, to: peer, stamp: own, address: n.config.Address}
	if err := writeFrame(conn, frameHello, h.appendTo(nil)); err != nil {
		return Stamp{}, err
	}
	kind, body, _, err := readFrame(bufio.NewReaderSize(conn, maxHandshake), nil, maxHandshake)
	if err != nil {
		return Stamp{}, err
	}
	switch kind {
	case frameRefusal:
		return Stamp{}, refusal(string(body))
	case frameWelcome:
	default:
		return Stamp{}, fmt.Errorf("%w: kind %d instead of a welcome", ErrFrame, kind)
	}
	w, err := decodeHello(body)
	if err != nil {
		return Stamp{}, err
	}
	if w.version != Version || w.stamp.Node != peer {
		return Stamp{}, fmt.Errorf("%w: node %d answered with version %d where node %d with version %d was dialled",
			ErrRefused, w.stamp.Node, w.version, peer, Version)
	}
	if err := checkStamps(own, w.stamp, what == purposeAsk); err != nil {
		return Stamp{}, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return w.stamp, conn.SetDeadline(time.Time{})
}

// admit is the accepting side's handshake; certified is whose certificate the other side has shown, 0 where there is no TLS. The reader may
// already hold frames that followed.
func (n *Network) admit(conn net.Conn, r *bufio.Reader, certified uint64) (hello, error) {
	conn.SetDeadline(time.Now().Add(n.config.DialTimeout))
	kind, body, _, err := readFrame(r, nil, maxHandshake)
	if err != nil {
		return hello{}, err
	}
	if kind != frameHello {
		return hello{}, fmt.Errorf("%w: kind %d instead of a hello", ErrFrame, kind)
	}
	h, err := decodeHello(body)
	if err != nil {
		return hello{}, err
	}
	if n.config.Security != nil && h.stamp.Node != certified {
		return h, fmt.Errorf("%w: the certificate is of node %d, the hello of node %d", ErrFrame, certified, h.stamp.Node)
	}
	own := n.currentStamp()
	if no := n.judge(own, h); no != nil {
		writeFrame(conn, frameRefusal, []byte(no.Error()))
		return h, no
	}
	w := hello{version: Version, purpose: h.purpose, to: h.stamp.Node, stamp: own, address: n.config.Address}
	if err := writeFrame(conn, frameWelcome, w.appendTo(nil)); err != nil {
		return h, err
	}
	return h, conn.SetDeadline(time.Time{})
}

// judge is why a hello is refused, or nil.
func (n *Network) judge(own Stamp, h hello) error {
	switch {
	case h.version != Version:
		return fmt.Errorf("this is version %d of the peer protocol, you speak %d; run the same release on all nodes", Version, h.version)
	case h.to != own.Node:
		return fmt.Errorf("this is node %d, you dialled node %d; check --peers", own.Node, h.to)
	case h.purpose < purposeAsk || h.purpose > purposeFetch:
		return fmt.Errorf("unknown purpose %d", h.purpose)
	}
	if no := checkStamps(own, h.stamp, h.purpose == purposeAsk); no != nil {
		return no
	}
	if n.config.FetchOnly && (h.purpose == purposeUrgent || h.purpose == purposeBulk) {
		return errRecovering
	}
	return n.meet(&h)
}

func writeFrame(conn net.Conn, kind byte, body []byte) error {
	frame := append(beginFrame(nil, kind), body...)
	endFrame(frame, 0)
	_, err := conn.Write(frame)
	return err
}
