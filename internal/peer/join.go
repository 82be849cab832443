package peer

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"
)

// Who wants to become a node of a cluster dials the listener for nodes, with the join protocol of TLS, and proves there that it has
// the key that its certificate will be for. It sends one request, gets one answer, and that is all. docs/format/peer.md draws both.

const (
	// maxJoin is the longest body of a request to join, maxAdmitted of the answer.
	maxJoin     = 8 << 10
	maxAdmitted = 64 << 10
	// maxJoins is how many are served at once.
	maxJoins = 2
	// joinTimeout bounds all of it, the log's part included.
	joinTimeout = 20 * time.Second
)

// JoinRequest is what a new node sends.
type JoinRequest struct {
	// Secret is the token's.
	Secret []byte `json:"secret"`
	// Name is what people call the node.
	Name string `json:"name"`
	// Peer is where others reach it, host:port.
	Peer string `json:"peer"`
}

// JoinMember is a node that a new one finds.
type JoinMember struct {
	Node uint64 `json:"node"`
	Peer string `json:"peer"`
}

// JoinAnswer makes a new node one of the cluster.
type JoinAnswer struct {
	// Node is its raft id.
	Node uint64 `json:"node"`
	// Cluster and History are the cluster's.
	Cluster []byte `json:"cluster"`
	History uint16 `json:"history"`
	// Voters are the nodes that the cluster was founded with, Members those of now, the new one included.
	Voters  []uint64     `json:"voters"`
	Members []JoinMember `json:"members"`
	// Authority and Certificate are DER; Key is the authority's, PKCS #8. All three are empty where the cluster's certificates come from
	// somebody else.
	Authority   []byte `json:"authority,omitempty"`
	Key         []byte `json:"key,omitempty"`
	Certificate []byte `json:"certificate,omitempty"`
}

// ErrLater means that the node that was asked can say neither yes nor no now; another one, or later, may.
var ErrLater = errors.New("oncemq: not now")

// Joiner lets nodes in.
type Joiner interface {
	// Join answers a request; state is the connection's, with the certificate that proves which key the other side has. An error that wraps
	// ErrLater is no refusal. The text of an error is told to the other side; logging it is the Joiner's.
	Join(ctx context.Context, state tls.ConnectionState, request JoinRequest) (JoinAnswer, error)
}

// serveJoin answers who wants to join.
func (n *Network) serveJoin(ctx context.Context, v visitor) error {
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	v.conn.SetDeadline(time.Now().Add(n.config.DialTimeout + joinTimeout))
	if n.config.Joiner == nil {
		return writeFrame(v.conn, frameLater, []byte("this node lets nobody in"))
	}
	select {
	case n.joins <- struct{}{}:
		defer func() { <-n.joins }()
	default:
		return writeFrame(v.conn, frameLater, []byte("others are joining here; ask again, or another node"))
	}
	kind, body, _, err := readFrame(bufio.NewReaderSize(v.conn, maxHandshake), nil, maxJoin)
	if err != nil {
		return err
	}
	request, err := decodeJoin(kind, body)
	if err != nil {
		return err
	}
	answer, err := n.config.Joiner.Join(ctx, v.state, request)
	switch {
	case errors.Is(err, ErrLater):
		return writeFrame(v.conn, frameLater, fmt.Appendf(nil, "%.500s", err))
	case err != nil:
		return writeFrame(v.conn, frameRefusal, fmt.Appendf(nil, "%.500s", err))
	}
	body, err = json.Marshal(answer)
	if err != nil {
		return err
	}
	return writeFrame(v.conn, frameAdmitted, body)
}

func decodeJoin(kind byte, body []byte) (r JoinRequest, err error) {
	if kind != frameJoin || json.Unmarshal(body, &r) != nil {
		return r, fmt.Errorf("%w: kind %d isn't a request to join", ErrFrame, kind)
	}
	return r, nil
}

// Join asks the node at address to become a node of its cluster; secure is made for that (certs.Join). Errors: ErrRefused where the cluster
// says no, ErrLater where this node can't say; those of the connection, and what TLS says of the certificate, as ErrRefused too.
func Join(ctx context.Context, address string, secure *tls.Config, request JoinRequest) (JoinAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, secureTimeout+joinTimeout)
	defer cancel()
	conn, err := (&net.Dialer{Timeout: secureTimeout}).DialContext(ctx, "tcp", address)
	if err != nil {
		return JoinAnswer{}, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	secured := tls.Client(conn, secure)
	answer, err := ask(ctx, secured, request)
	if err != nil && ctx.Err() != nil {
		return answer, ctx.Err()
	}
	return answer, secureError(err)
}

func ask(ctx context.Context, conn *tls.Conn, request JoinRequest) (answer JoinAnswer, err error) {
	if err := conn.HandshakeContext(ctx); err != nil {
		return answer, err
	}
	body, err := json.Marshal(request)
	if err != nil {
		return answer, err
	}
	if err := writeFrame(conn, frameJoin, body); err != nil {
		return answer, err
	}
	kind, body, _, err := readFrame(bufio.NewReaderSize(conn, maxHandshake), nil, maxAdmitted)
	switch {
	case err != nil:
		return answer, err
	case kind == frameLater:
		return answer, fmt.Errorf("%w: %.500s", ErrLater, body)
	case kind == frameRefusal:
		return answer, fmt.Errorf("%w: %.500s", ErrRefused, body)
	case kind != frameAdmitted || json.Unmarshal(body, &answer) != nil || len(answer.Cluster) != 16 || answer.Node == 0 || len(answer.Voters) == 0:
		return JoinAnswer{}, fmt.Errorf("%w: kind %d isn't an answer to who joins", ErrFrame, kind)
	}
	return answer, nil
}
