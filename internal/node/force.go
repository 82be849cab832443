package node

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/oncemq/oncemq/internal/certs"
	"github.com/oncemq/oncemq/internal/replica"
	"github.com/oncemq/oncemq/internal/store"
)

// forcingName is the file that says that a directory is being made that of a new cluster: which one, so that a second call
// goes on where a first was broken off.
const forcingName = "FORCING"

// ForceOptions are what a forced recovery is asked to do.
type ForceOptions struct {
	// Data is the directory of the survivor, whose node isn't running.
	Data string
	// Confirm is shown what would be kept and lost before anything is changed, and ends it all with an error. It isn't called
	// where an earlier call was confirmed and broken off.
	Confirm func(f *replica.Forecast) error
}

// Forced is what a forced recovery made.
type Forced struct {
	Node    uint64
	Cluster [16]byte
	History uint16
	// Uncertified: the node shows certificates that others sign, and needs a new one, for this identity.
	Uncertified string
}

// Force makes the directory of a survivor that of the only node of a new cluster, with a new history [8.7]. A crash at any point is
// gone on from by a second call. Until then the node doesn't start.
func Force(opts ForceOptions) (f Forced, err error) {
	marker := filepath.Join(opts.Data, forcingName)
	text, err := os.ReadFile(marker)
	switch {
	case errors.Is(err, os.ErrNotExist):
		if text, err = forcing(opts, marker); err != nil {
			return f, err
		}
	case err != nil:
		return f, err
	}
	var id string
	if n, _ := fmt.Sscanf(string(text), "%s %d %d", &id, &f.History, &f.Node); n != 3 || len(id) != 2*len(f.Cluster) {
		return f, fmt.Errorf("%w: %s says nothing that can be gone on from; where the directory was copied before, begin anew with the copy", store.ErrCorrupt, marker)
	}
	if _, err := hex.Decode(f.Cluster[:], []byte(id)); err != nil {
		return f, fmt.Errorf("%w: %s: %w", store.ErrCorrupt, marker, err)
	}
	owner, err := replica.Whose(opts.Data)
	if err == nil && (owner.Cluster != f.Cluster || owner.History != f.History) {
		err = replica.ForceNewCluster(replica.ForceOptions{Dir: opts.Data, Cluster: f.Cluster, History: f.History})
	}
	if err != nil {
		return f, err
	}
	if err := f.certify(certs.Directory(filepath.Join(opts.Data, pkiName))); err != nil {
		return f, err
	}
	if err := os.Remove(marker); err != nil {
		return f, err
	}
	return f, certs.SyncDir(opts.Data)
}

// forcing asks, and writes down what is going to be done.
func forcing(opts ForceOptions, marker string) (text []byte, err error) {
	forecast, err := replica.Foresee(nil, opts.Data)
	if err != nil {
		return nil, err
	}
	if err := opts.Confirm(forecast); err != nil {
		return nil, err
	}
	var cluster [16]byte
	_, _ = rand.Read(cluster[:]) // never fails
	text = fmt.Appendf(nil, "%x %d %d\n", cluster, forecast.History+1, forecast.Node)
	return text, certs.WriteFile(marker, text)
}

// certify gives the node a certificate of the new cluster, where it has the key of the former one's authority.
func (f *Forced) certify(pki certs.Directory) error {
	if !pki.Exists() {
		return nil
	}
	id := certs.Identity{Cluster: f.Cluster, Node: f.Node}
	_, err := pki.Authority()
	if errors.Is(err, certs.ErrNoAuthority) {
		f.Uncertified = id.String()
		return pki.Request(id)
	}
	if err != nil {
		return err
	}
	return pki.Found(id, time.Now())
}

// ForecastText says what would be kept and what may be lost, for people.
func ForecastText(dir string, f *replica.Forecast) string {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	say("%s is the directory of node %d of cluster %x, history %d, founded with the nodes %v.", dir, f.Node, f.Cluster, f.History, f.Voters)
	say("")
	say("A new cluster of this node alone would begin with everything up to entry %d (term %d):", f.Last, f.Term)
	say("%d queues, %d messages, %d users, as of the last state on disk.", f.Queues, f.Messages, f.Users)
	say("")
	say("What may be lost:")
	if f.Commit < f.Last {
		say("- The last entry that this node knows to be committed is %d. It has those up to %d besides: they may never have been accepted anywhere, and hold from then on.", f.Commit, f.Last)
	}
	say("- Anything above entry %d may have been committed by the other nodes, and clients told so. It isn't here, and is lost.", f.Last)
	say("  Of several survivors the one whose entry has the highest term, and then the highest number, knows most: use that one, and no other.")
	if f.LogLast > f.Last {
		say("- The log is damaged: it goes on up to entry %d, but what comes before can't be read, so that all of that is lost.", f.LogLast)
	}
	if f.TailLost {
		say("- The log is damaged: its end was synced once, and can't be read. That is lost.")
	}
	for i := range f.Damage {
		say("- damaged: %s: %s", f.Damage[i].Path, f.Damage[i].What)
	}
	say("- The %d sessions end. What their transactions came to can't be asked any more: the answer is Expired.", f.Sessions)
	say("- The other nodes of the old cluster can't come back: they are refused. Empty their directories, and let them join the new one.")
	return b.String()
}
