package test

import (
	"bufio"
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/oncemq/oncemq/test/cluster"
)

// TestRow115Rhea: rhea's reconnect brings connection, sender and receiver back at another node when the first is killed; its selector
// and its durable subscription, which goes on there.
func TestRow115Rhea(t *testing.T) {
	modules, err := filepath.Abs("../.cache/rhea/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	need(t, modules)
	c := cluster.Start(t, 3)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	args := []string{"rhea/failover.js"}
	for _, n := range c.Nodes {
		args = append(args, n.AMQP)
	}
	cmd := exec.CommandContext(ctx, "node", args...)
	cmd.Env = append(cmd.Environ(), "NODE_PATH="+modules)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	if line == "kill\n" {
		c.Nodes[0].Kill()
	}
	if err := cmd.Wait(); err != nil || line != "kill\n" {
		t.Fatalf("rhea said %q and ended with %v\n%s", line, err, &stderr)
	}
}
