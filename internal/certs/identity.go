package certs

import (
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// ErrIdentity is wrapped by errors about a certificate that isn't the expected node's.
var ErrIdentity = errors.New("oncemq: certificate of another node")

// Identity is whose a node's certificate is. It stands in the certificate as a URI name (SAN)
// oncemq://CLUSTER/NODE, the cluster's id in 32 hexadecimal digits, the node's in decimal ones.
type Identity struct {
	Cluster [16]byte
	Node    uint64
}

// scheme begins the URI.
const scheme = "oncemq"

// String is the URI.
func (i Identity) String() string { return i.uri().String() }

func (i Identity) uri() *url.URL {
	return &url.URL{Scheme: scheme, Host: hex.EncodeToString(i.Cluster[:]), Path: "/" + strconv.FormatUint(i.Node, 10)}
}

// identityOf reads a certificate's only oncemq name, in the one form that String gives it. Its error wraps ErrIdentity.
func identityOf(cert *x509.Certificate) (id Identity, err error) {
	found := 0
	for _, u := range cert.URIs {
		if u.Scheme != scheme {
			continue
		}
		found++
		cluster, err := hex.DecodeString(u.Host)
		node, err2 := strconv.ParseUint(strings.TrimPrefix(u.Path, "/"), 10, 64)
		if err != nil || err2 != nil || len(cluster) != len(id.Cluster) {
			return Identity{}, fmt.Errorf("%w: the name %.200q isn't %s://CLUSTER/NODE", ErrIdentity, u, scheme)
		}
		id = Identity{[16]byte(cluster), node}
		if u.String() != id.String() {
			return Identity{}, fmt.Errorf("%w: the name %.200q isn't written as %s", ErrIdentity, u, id)
		}
	}
	if found != 1 {
		return Identity{}, fmt.Errorf("%w: it has %d names of the form %s://CLUSTER/NODE (URI SAN), and needs one", ErrIdentity, found, scheme)
	}
	return id, nil
}

// verify checks a shown chain against the authorities that are trusted, and that its certificate is
// for one end of a connection between nodes. It gives the authority too.
func verify(chain []*x509.Certificate, roots *x509.CertPool, usage x509.ExtKeyUsage) (Identity, *x509.Certificate, error) {
	if len(chain) == 0 {
		return Identity{}, nil, fmt.Errorf("%w: none was shown", ErrIdentity)
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	verified, err := chain[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{usage}})
	if err != nil {
		return Identity{}, nil, err
	}
	id, err := identityOf(chain[0])
	return id, verified[0][len(verified[0])-1], err
}
