package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/oncemq/oncemq/internal/certs"
	"github.com/oncemq/oncemq/internal/config"
	"github.com/oncemq/oncemq/internal/replica"
)

// Names in a data directory.
const (
	pkiName      = "pki"      // certificates and keys for other nodes
	joiningName  = "JOINING"  // of a node that joins and has no stamp yet
	foundingName = "FOUNDING" // of a cluster whose first user nobody has seen the password of yet
)

// ErrHalfMade refuses a data directory that was begun by "cluster init" or "cluster join", and not brought to its end.
var ErrHalfMade = errors.New("oncemq: the data directory isn't complete")

// resolve completes a configuration with what the data directory says of the node: its id, and whether other nodes are spoken to
// with TLS. It refuses a directory that is half made.
func resolve(cfg *config.Serve) (pki certs.Directory, secure bool, err error) {
	owner, err := replica.WhoseToStart(cfg.Data)
	if err != nil {
		return "", false, err
	}
	for _, half := range []struct{ name, command string }{{joiningName, "cluster join"}, {foundingName, "cluster init"}, {forcingName, "recover --force-new-cluster"}} {
		if half.name == joiningName && owner.Node != 0 {
			continue // the join was done but for its last step
		}
		found, err := exists(filepath.Join(cfg.Data, half.name))
		if err != nil {
			return "", false, err
		}
		if found {
			return "", false, fmt.Errorf(`%w: "oncemq %s" was begun in %s and has not ended; run it again with the same --data`, ErrHalfMade, half.command, cfg.Data)
		}
	}
	if cfg.Node == 0 {
		cfg.Node = max(uint64(owner.Node), 1)
	}
	pki = certs.Directory(filepath.Join(cfg.Data, pkiName))
	secure = pki.Exists()
	switch {
	case secure && owner.Cluster == [16]byte{}:
		return "", false, fmt.Errorf("%w: %s has certificates for other nodes, and no data; put the data back, or join with an empty directory", ErrHalfMade, cfg.Data)
	case secure:
	case len(cfg.Peers) == 0:
		if err := config.Loopback("peer-listen", cfg.PeerListen); err != nil {
			return "", false, fmt.Errorf(`%w; "oncemq cluster init" makes the certificates for it`, err)
		}
		cfg.Peers = map[uint64]string{cfg.Node: cfg.PeerListen}
	}
	return pki, secure, nil
}

// exists says whether there is a file.
func exists(path string) (bool, error) {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
