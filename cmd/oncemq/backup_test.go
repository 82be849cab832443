package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/config"
	"github.com/oncemq/oncemq/internal/localcluster"
	"github.com/oncemq/oncemq/internal/node"
)

// served is a lone node that runs in this process: where its clients and its admin API are.
type served struct{ url, admin string }

// startNode starts a node in a directory; it ends with the test.
func startNode(t *testing.T, data string) served {
	t.Helper()
	addrs, err := localcluster.FreeAddrs(3)
	if err != nil {
		t.Fatal(err)
	}
	ready, said := io.Pipe()
	n, err := node.Open(node.Options{
		Config:  config.Serve{Node: 1, Data: data, Listen: addrs[0], Admin: addrs[1], PeerListen: addrs[2], Dev: true},
		Version: "test", Ready: said, Logger: slog.New(slog.DiscardHandler), Fatal: func(err error) { t.Error(err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		err := n.Run(ctx)
		said.CloseWithError(io.ErrUnexpectedEOF)
		ended <- err
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	if _, err := ready.Read(make([]byte, 1000)); err != nil {
		t.Fatalf("the node isn't ready: %v", err)
	}
	go io.Copy(io.Discard, ready)
	return served{"amqp://" + addrs[0], addrs[1]}
}

// command runs a command line and wants an exit status; stdin may be nil.
func command(t *testing.T, status int, args ...string) (out, errs string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var o, e bytes.Buffer
	if code := run(ctx, args, &o, &e); code != status {
		t.Fatalf("oncemq %s: status %d, want %d\n%s%s", strings.Join(args, " "), code, status, &o, &e)
	}
	return o.String(), e.String()
}

func wantText(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%s: %q has no %q", what, text, p)
		}
	}
}

// TestBackupCommands: a backup of a running node, to a file and to standard output, is verified and restored once; what is wrong with a
// file, a directory or a node ends with status 1, says what, and leaves nothing behind.
func TestBackupCommands(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	n := startNode(t, in("n1"))
	out, _ := command(t, exitOK, "backup", "create", in("b"), "--admin", n.admin)
	wantText(t, "create", out, in("b")+": made; ", " by node 1 of cluster ")
	if info, err := os.Stat(in("b")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v: only its owner may read it", info.Mode(), err)
	}
	_, errs := command(t, exitFailed, "backup", "create", in("b"), "--admin", n.admin)
	wantText(t, "a file that is there", errs, in("b"), "exist")

	out, errs = command(t, exitOK, "backup", "create", "-", "--admin", n.admin, "--rate", "0")
	wantText(t, "what is said beside the backup", errs, "standard output: made; ")
	if err := os.WriteFile(in("copy"), []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _ = command(t, exitOK, "backup", "verify", in("copy"))
	wantText(t, "verify", out, in("copy")+": whole; ")
	out, _ = command(t, exitOK, "backup", "verify", in("b"), "-o", "json")
	var shown struct {
		File, ID, Cluster  string
		Bytes, Node, Entry uint64
		Made               time.Time
	}
	if err := json.Unmarshal([]byte(out), &shown); err != nil || shown.File != in("b") || shown.Node != 1 || shown.Entry == 0 || len(shown.Cluster) != 32 || time.Since(shown.Made) > time.Hour {
		t.Errorf("%s: %+v, %v", out, shown, err)
	}

	b, err := os.ReadFile(in("b"))
	if err != nil || int64(len(b)) != int64(shown.Bytes) {
		t.Fatalf("%d bytes, %d said, %v", len(b), shown.Bytes, err)
	}
	for name, bad := range map[string][]byte{"cut": b[:len(b)-1], "flipped": append([]byte{b[0] ^ 1}, b[1:]...), "empty": nil} {
		if err := os.WriteFile(in(name), bad, 0o600); err != nil {
			t.Fatal(err)
		}
		_, errs := command(t, exitFailed, "backup", "verify", in(name))
		wantText(t, name, errs, in(name)+": ")
		command(t, exitFailed, "backup", "restore", in(name), "--data", in("r-"+name))
	}
	_, errs = command(t, exitFailed, "backup", "verify", in("none"))
	wantText(t, "no file", errs, in("none"))

	for _, id := range []string{"2", "3"} {
		out, _ = command(t, exitOK, "backup", "restore", in("b"), "--data", in("r"+id), "--node", id, "--peers", "1,2,3")
		wantText(t, "restore", out, "restored to "+in("r"+id)+" for node "+id+" of [1 2 3]")
	}
	_, errs = command(t, exitFailed, "backup", "restore", in("b"), "--data", in("r2"), "--node", "2", "--peers", "1,2,3")
	wantText(t, "a directory that isn't empty", errs, in("r2"), "empty")
	_, errs = command(t, exitFailed, "backup", "create", in("new"), "--admin", "127.0.0.1:1")
	wantText(t, "no node", errs, "is a node running there? --admin names another")
	_, errs = command(t, exitFailed, "backup", "create", in("new"), "--admin", n.admin, "--keep-free", "1000000TiB")
	wantText(t, "no room", errs, "free")
	if names, err := filepath.Glob(in("new*")); err != nil || len(names) > 0 {
		t.Errorf("%v is left of backups that failed, %v", names, err)
	}
}
