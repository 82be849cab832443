package test

import (
	"bytes"
	"errors"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/oncemq/oncemq/internal/certs/certstest"
	"github.com/oncemq/oncemq/test/cluster"
)

// exit runs the binary to its end and returns its exit status and standard error.
func exit(t *testing.T, args ...string) (int, string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), cluster.Binary(t), args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err := cmd.Run()
	var status *exec.ExitError
	if err != nil && !errors.As(err, &status) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), stderr.String()
}

// TestServeRefusesWrongFlags: exit status 2, and the message names the flag, the
// value, and what is allowed.
func TestServeRefusesWrongFlags(t *testing.T) {
	dir := t.TempDir()
	for _, test := range []struct {
		name string
		args []string
		says []string
	}{
		{"unknown flag", []string{"--frobnicate"}, []string{"frobnicate"}},
		{"node 0", []string{"--node", "0"}, []string{"node", "0"}},
		{"node not among peers", []string{"--node", "4", "--peers", "1=127.0.0.1:1,2=127.0.0.1:2,3=127.0.0.1:3"}, []string{"4", "peers"}},
		{"two peers", []string{"--node", "1", "--peers", "1=127.0.0.1:1,2=127.0.0.1:2"}, []string{"peers", "one node or three"}},
		{"listen off loopback", []string{"--listen", "0.0.0.0:5672"}, []string{"0.0.0.0:5672", "loopback"}},
		{"admin off loopback", []string{"--admin", "0.0.0.0:8161"}, []string{"0.0.0.0:8161", "loopback"}},
		{"no port", []string{"--listen", "127.0.0.1"}, []string{"listen", "127.0.0.1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, stderr := exit(t, append([]string{"serve", "--dev", "--data", dir + "/" + strings.ReplaceAll(test.name, " ", "-")}, test.args...)...)
			if code != 2 {
				t.Errorf("exit status %d, want 2; stderr: %s", code, stderr)
			}
			for _, word := range test.says {
				if !strings.Contains(stderr, word) {
					t.Errorf("the message doesn't name %q: %s", word, stderr)
				}
			}
		})
	}
	t.Run("without dev", func(t *testing.T) {
		if code, stderr := exit(t, "serve", "--data", dir+"/x", "--listen", "0.0.0.0:0"); code != 2 || !strings.Contains(stderr, "--listen-tls") {
			t.Errorf("plaintext off loopback: exit status %d, stderr %s", code, stderr)
		}
	})
	t.Run("without a user", func(t *testing.T) {
		cert, key := certstest.New(t).Issue("server", "127.0.0.1")
		if code, stderr := exit(t, "serve", "--data", dir+"/y", "--listen", "off", "--listen-tls", "0.0.0.0:0", "--tls-cert", cert, "--tls-key", key,
			"--peer-listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"); code != 1 || !strings.Contains(stderr, "oncemq user add") {
			t.Errorf("exit status %d, stderr %s", code, stderr)
		}
	})
}

// TestDirectoryIsRefused: another node's directory, and one in use.
func TestDirectoryIsRefused(t *testing.T) {
	c := cluster.Start(t, 3)
	n := c.Nodes[0]
	peers := []string{}
	for i, node := range c.Nodes {
		peers = append(peers, string(rune('1'+i))+"="+node.Peer)
	}
	args := func(id string) []string {
		return []string{"serve", "--dev", "--node", id, "--data", n.Dir, "--listen", "127.0.0.1:0", "--peer-listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--peers", strings.Join(peers, ",")}
	}
	if code, stderr := exit(t, args("1")...); code != 1 || !strings.Contains(stderr, n.Dir) {
		t.Errorf("a second process on a directory: exit status %d, stderr %s", code, stderr)
	}
	n.Kill()
	if code, stderr := exit(t, args("2")...); code != 1 || !strings.Contains(stderr, n.Dir) {
		t.Errorf("another node's directory: exit status %d, stderr %s", code, stderr)
	}
	lone := []string{"serve", "--dev", "--node", "1", "--data", n.Dir, "--safety", "off", "--listen", "127.0.0.1:0", "--peer-listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}
	if code, stderr := exit(t, lone...); code == 0 || stderr == "" {
		t.Errorf("safety off on a directory with history: exit status %d, stderr %s", code, stderr)
	}
	n.Start()
	n.WaitReady()
}

// TestTermStopsInOrder: SIGTERM ends a node with status 0, whoever it is, and the
// others go on.
func TestTermStopsInOrder(t *testing.T) {
	c := cluster.Start(t, 3)
	leader := c.Leader()
	leader.Signal(syscall.SIGTERM)
	leader.Wait()
	if code := leader.ExitCode(); code != 0 {
		t.Errorf("exit status %d after SIGTERM", code)
	}
	if next := c.Leader(); next == leader {
		t.Error("the stopped node is still called the leader")
	}
	leader.Start()
	leader.WaitReady()
}
