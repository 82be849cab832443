package node

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oncemq/oncemq/internal/admin"
	"github.com/oncemq/oncemq/internal/certs"
	"github.com/oncemq/oncemq/internal/config"
	"github.com/oncemq/oncemq/internal/localcluster"
	"github.com/oncemq/oncemq/internal/replica"
	"github.com/oncemq/oncemq/internal/store"
)

// leftAlone is the directory of a node of a cluster with certificates, which was stopped, with a queue in it.
func leftAlone(t *testing.T) (data string, was replica.Owner) {
	t.Helper()
	f := startFirst(t)
	if err := admin.Call(t.Context(), f.admin.Addr().String(), http.MethodPut, "/api/v1/queues/kept", nil, nil); err != nil {
		t.Fatal(err)
	}
	f.stopAndCheck(t)
	data = f.opts.Config.Data
	was, err := replica.Whose(data)
	if err != nil {
		t.Fatal(err)
	}
	return data, was
}

// copyOf is a copy of a directory, so that one test needs one cluster.
func copyOf(t *testing.T, data string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(to, os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
	return to
}

func agree(*replica.Forecast) error { return nil }

// wantAlone starts the node of a forced recovery and sees that it has what it had, in a new history of another cluster.
func wantAlone(t *testing.T, data string, f Forced, was replica.Owner) {
	t.Helper()
	now, err := replica.Whose(data)
	if err != nil || now.Cluster != f.Cluster || now.Cluster == was.Cluster || now.History != was.History+1 || f.History != now.History || f.Node != uint64(was.Node) {
		t.Fatalf("%+v became %+v, said was %+v; %v", was, now, f, err)
	}
	addrs, err := localcluster.FreeAddrs(1)
	if err != nil {
		t.Fatal(err)
	}
	n := openAs(t, config.Serve{Data: data, PeerListen: addrs[0]})
	n.waitReady(t)
	if err := admin.Call(t.Context(), n.admin.Addr().String(), http.MethodGet, "/api/v1/queues/kept", nil, nil); err != nil {
		t.Error(err)
	}
	if n.links.id != (certs.Identity{Cluster: f.Cluster, Node: f.Node}) || n.links.peers == nil {
		t.Errorf("it shows itself as %s", n.links.id)
	}
	n.stopAndCheck(t)
}

// TestForce [8.7]: nothing happens before it is confirmed; then the node is that of another cluster, with a certificate of it; and a
// second call says that there is nothing left to go on with by making yet another cluster.
func TestForce(t *testing.T) {
	data, was := leftAlone(t)
	errNo := errors.New("not today")
	asked := 0
	_, err := Force(ForceOptions{Data: data, Confirm: func(f *replica.Forecast) error {
		asked++
		for _, want := range []string{data, fmt.Sprintf("%x", was.Cluster), "1 queues", "What may be lost", "are refused"} {
			if !strings.Contains(ForecastText(data, f), want) {
				t.Errorf("no %q in:\n%s", want, ForecastText(data, f))
			}
		}
		return errNo
	}})
	if now, e := replica.Whose(data); !errors.Is(err, errNo) || asked != 1 || e != nil || now != was {
		t.Fatalf("not confirmed: %v, asked %d times, %+v, %v", err, asked, now, e)
	}
	if there, err := exists(filepath.Join(data, forcingName)); err != nil || there {
		t.Fatalf("not confirmed, and begun: %v", err)
	}
	f, err := Force(ForceOptions{Data: data, Confirm: agree})
	if err != nil || f.Uncertified != "" {
		t.Fatalf("%+v, %v", f, err)
	}
	wantAlone(t, data, f, was)
	if _, err := Force(ForceOptions{Data: t.TempDir(), Confirm: agree}); !errors.Is(err, store.ErrNothing) {
		t.Errorf("an empty directory: %v", err)
	}
}

// TestForceGoesOn: broken off behind any of its steps, a second call asks nobody and ends with the same cluster, and until then the node
// doesn't start.
func TestForceGoesOn(t *testing.T) {
	data, was := leftAlone(t)
	text := []byte(fmt.Sprintf("%032x %d %d\n", 0xabc, was.History+1, was.Node))
	cluster := [16]byte{14: 0xa, 15: 0xbc}
	for name, broken := range map[string]func(data string) error{
		"confirmed": func(string) error { return nil },
		"renewed": func(data string) error {
			return replica.ForceNewCluster(replica.ForceOptions{Dir: data, Cluster: cluster, History: was.History + 1})
		},
		"certified": func(data string) error {
			_, err := Force(ForceOptions{Data: data, Confirm: agree})
			return errors.Join(err, certs.WriteFile(filepath.Join(data, forcingName), text))
		},
	} {
		t.Run(name, func(t *testing.T) {
			data := copyOf(t, data)
			if err := errors.Join(certs.WriteFile(filepath.Join(data, forcingName), text), broken(data)); err != nil {
				t.Fatal(err)
			}
			if _, _, err := resolve(&config.Serve{Data: data, PeerListen: config.DefaultPeerListen}); !errors.Is(err, ErrHalfMade) || !strings.Contains(err.Error(), "--force-new-cluster") {
				t.Errorf("the node would start: %v", err)
			}
			f, err := Force(ForceOptions{Data: data, Confirm: func(*replica.Forecast) error { t.Error("asked again"); return nil }})
			if err != nil || f.Cluster != cluster {
				t.Fatalf("%+v, %v", f, err)
			}
			if there, err := exists(filepath.Join(data, forcingName)); err != nil || there {
				t.Errorf("%s is still there, %v", forcingName, err)
			}
			wantAlone(t, data, f, was)
		})
	}
	for _, bad := range []string{"", "abc 1 1\n", "abcd 1 1\n", strings.Repeat("z", 32) + " 1 1\n", strings.Repeat("0", 32) + " one 1\n"} {
		data := copyOf(t, data)
		if err := certs.WriteFile(filepath.Join(data, forcingName), []byte(bad)); err != nil {
			t.Fatal(err)
		}
		_, err := Force(ForceOptions{Data: data, Confirm: agree})
		if now, e := replica.Whose(data); !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), forcingName) || e != nil || now != was {
			t.Errorf("%q: %v, %+v, %v", bad, err, now, e)
		}
	}
}

// TestForceUncertified: where others sign, the node says for which name it needs a certificate, and makes the request.
func TestForceUncertified(t *testing.T) {
	data, _ := leftAlone(t)
	if err := os.Remove(filepath.Join(data, pkiName, "ca.key")); err != nil {
		t.Fatal(err)
	}
	f, err := Force(ForceOptions{Data: data, Confirm: agree})
	if err != nil || f.Uncertified != (certs.Identity{Cluster: f.Cluster, Node: 1}).String() {
		t.Fatalf("%+v, %v", f, err)
	}
	if there, err := exists(filepath.Join(data, pkiName, "node.csr")); err != nil || !there {
		t.Errorf("no request for a certificate: %v", err)
	}
}
