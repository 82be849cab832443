package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oncemq/oncemq"
)

// TestMsgCommands: messages go out and in again by the two commands, from any line on; a queue that isn't there, a line that is none and a
// node that isn't there end with status 1 and say what to do.
func TestMsgCommands(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	n := startNode(t, in("n1"))
	c, err := oncemq.Dial(t.Context(), n.url, &oncemq.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	s, err := c.OpenSession(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	sender, err := s.NewSender(t.Context(), "from", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"one", "two", "three"} {
		if err := sender.Send(t.Context(), oncemq.NewText(text)); err != nil {
			t.Fatal(err)
		}
	}
	lines := func(queue, after string) []string {
		t.Helper()
		out, errs := command(t, exitOK, "msg", "export", queue, "--admin", n.admin, "--after", after)
		all := strings.SplitAfter(out, "\n")
		all = all[:len(all)-1]
		if len(all) > 0 {
			wantText(t, "export", errs, "messages of queue "+queue+", up to position ")
		}
		return all
	}
	if all := lines("from", "0"); len(all) != 3 || len(lines("from", "2")) != 1 {
		t.Fatalf("%d lines of three messages", len(all))
	}
	_, errs := command(t, exitOK, "msg", "export", "from", in("f"), "--admin", n.admin)
	wantText(t, "export", errs, "3 messages of queue from, up to position 3")
	_, errs = command(t, exitFailed, "msg", "export", "from", in("f"), "--admin", n.admin)
	wantText(t, "a file that is there", errs, in("f"), "exist")

	_, errs = command(t, exitOK, "msg", "import", "to", in("f"), "--url", n.url)
	wantText(t, "import", errs, "committed: 3 messages, up to line 3")
	if got := lines("to", "0"); len(got) != 3 || !strings.Contains(got[0], `"queue":"to"`) {
		t.Errorf("%d messages were imported: %s", len(got), got)
	}
	_, errs = command(t, exitOK, "msg", "import", "rest", in("f"), "--after", "2", "--url", n.url)
	wantText(t, "the rest", errs, "committed: 1 messages, up to line 3")

	text, err := os.ReadFile(in("f"))
	if err == nil {
		err = os.WriteFile(in("bad"), append(text, "no line\n"...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	_, errs = command(t, exitFailed, "msg", "import", "bad", in("bad"), "--url", n.url)
	wantText(t, "a line that is none", errs, in("bad")+": ", "line 4", "go on with --after 0")
	_, errs = command(t, exitFailed, "msg", "import", "$refused", in("f"), "--after", "2", "--url", n.url)
	wantText(t, "a queue that can't be", errs, "go on with --after 2")

	_, errs = command(t, exitFailed, "msg", "export", "none", in("left"), "--admin", n.admin)
	wantText(t, "no queue", errs, "no such queue")
	if _, err := os.Stat(in("left")); !os.IsNotExist(err) {
		t.Errorf("an empty file is left, over which the next try would stumble: %v", err)
	}
	_, errs = command(t, exitFailed, "msg", "import", "to", in("none"), "--url", n.url)
	wantText(t, "no file", errs, in("none"))
	_, errs = command(t, exitFailed, "msg", "import", "to", in("f"), "--url", "http://here")
	wantText(t, "a url that is none", errs, "http")
}
