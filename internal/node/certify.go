package node

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/oncemq/oncemq/internal/certs"
	"github.com/oncemq/oncemq/internal/config"
	"github.com/oncemq/oncemq/internal/replica"
)

// CertifyOptions are a certificate that others have signed for a node.
type CertifyOptions struct {
	// Data is the node's directory. The node may be running.
	Data string
	// Cert and Key are PEM files; Key is empty where the certificate is for the key that the node has.
	Cert, Key string
}

// Certify checks a certificate for other nodes, and puts it into the node's directory; a running node takes it within seconds. It says whose
// it is and when it ends. Errors: config.ErrUsage where the directory is no node's of a cluster; certs.ErrFiles, certs.ErrIdentity
// where the certificate isn't this node's, and nothing was changed.
func Certify(opts CertifyOptions) (id certs.Identity, expires time.Time, err error) {
	owner, err := replica.Whose(opts.Data)
	if err != nil {
		return id, expires, err
	}
	pki := certs.Directory(filepath.Join(opts.Data, pkiName))
	if owner.Node == 0 || owner.Cluster == [16]byte{} || !pki.Exists() {
		return id, expires, fmt.Errorf(`%w: %s is no directory of a node that speaks to others with certificates; "oncemq cluster init" or "join" makes one`, config.ErrUsage, opts.Data)
	}
	id = certs.Identity{Cluster: owner.Cluster, Node: uint64(owner.Node)}
	expires, err = pki.Certify(opts.Cert, opts.Key, id)
	return id, expires, err
}
