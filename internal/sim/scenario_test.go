package sim

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/mutant"
)

var update = flag.Bool("update", false, "write the transcripts of testdata anew")

// scenario is one interleaving of the design, played in a world in which nothing is left to chance. play asserts the rule; the
// transcript is for people.
type scenario struct {
	name  string // the interleaving's number and its rule: the transcript's file
	about string // what goes wrong without the rule, and the rule
	// breaks are faults of package mutant with each of which the scenario must fail.
	breaks []mutant.Mutant
	knobs  func(k *knobs)
	play   func(s *stage)
}

// scenarios are all of them, as testdata/README.md lists them.
func scenarios() []scenario {
	return append(append(append(identityScenarios(), transactionScenarios()...), deliveryScenarios()...), logScenarios()...)
}

// stage is a scenario's world: three quiet nodes, of which n1 leads, n2 is where clients begin, and n3 stands by.
type stage struct {
	*world
	leader, home, third *node

	script   bytes.Buffer
	began    time.Duration
	on       bool // the script is written
	failures []string
	people   []*person
	generics []*generic
}

// curtain ends a scenario early.
type curtain struct{}

// quiet are knobs that draw nothing: all delays are the same.
func quiet() knobs {
	ms := time.Millisecond
	even := [2]time.Duration{ms / 2, ms / 2}
	return knobs{
		clientDelay: even, nodeDelay: even, disk: [2]time.Duration{ms, ms}, apply: even, restart: even, think: ms, idle: 5 * time.Second,
	}
}

func newStage(c *scenario) *stage {
	s := &stage{}
	s.world = newWorld(Config{Seed: 1, Nodes: 3, MaxSteps: 600_000, Trace: s})
	s.world.knobs = quiet()
	if c.knobs != nil {
		c.knobs(&s.world.knobs)
	}
	s.after(20*time.Millisecond, func() {
		s.nodes[0].step.Campaign()
		s.nodes[0].kick()
	})
	s.found()
	s.world.rng = rand.New(rand.NewPCG(1, 2)) // whatever the founding of a world draws
	for i, n := range s.nodes {
		n.disk.rng = rand.New(rand.NewPCG(3, uint64(i)))
	}
	s.leader, s.home, s.third = s.nodes[0], s.nodes[1], s.nodes[2]
	if !s.leader.leads {
		s.stop("n1 doesn't lead")
	}
	s.began, s.on = s.now, true
	return s
}

// noise is what the world says and a story doesn't need.
var noise = regexp.MustCompile(`^(n\d reaches n\d|\S+ is closed: <nil>|n\d breaks the stream)`)

var life = regexp.MustCompile(`, life \d+$`)

// Write takes the world's transcript: its lines become the script's, with the story's own time in seconds.
func (s *stage) Write(line []byte) (int, error) {
	text := strings.TrimSuffix(string(line[13:]), "\n")
	text = life.ReplaceAllString(text, "")
	if s.on && !noise.MatchString(text) {
		fmt.Fprintf(&s.script, "%8.3f  %s\n", (s.now - s.began).Seconds(), text)
	}
	return len(line), nil
}

// must notes a failure where the rule doesn't hold.
func (s *stage) must(holds bool, format string, args ...any) {
	if !holds {
		s.failures = append(s.failures, fmt.Sprintf(format, args...))
	}
}

// stop notes a failure behind which nothing makes sense.
func (s *stage) stop(format string, args ...any) {
	s.must(false, format, args...)
	panic(curtain{})
}

// until runs the world until something holds.
func (s *stage) until(what string, holds func() bool) {
	s.within(30*time.Second, what, holds)
}

func (s *stage) within(limit time.Duration, what string, holds func() bool) {
	held := holds()
	if !held {
		s.runUntil(s.now+limit, func() bool { held = holds(); return held })
	}
	if s.fatal != "" {
		s.stop("the world ended (%s) before: %s; %s", s.fatal, what, strings.Join(s.violations, "; "))
	}
	if !held {
		s.stop("not within %v: %s", limit, what)
	}
}

// wait lets time pass.
func (s *stage) wait(d time.Duration) { s.runUntil(s.now+d, nil) }

// depth is a queue's messages, and how many of them are with consumers, as the node that knows most has it.
func (s *stage) depth(queue string) (all, inFlight int) {
	for _, q := range s.machine().Queues() {
		if q.Name == queue {
			return int(q.Depth), int(q.InFlight)
		}
	}
	return 0, 0
}

// cut separates a node from its peers; its clients reach it.
func (s *stage) cut(n *node) {
	s.say("n%d is cut off from the other nodes", n.id)
	n.eachLink(func(l *link, _ bool) { l.block() })
}

// join ends that.
func (s *stage) join(n *node) {
	s.say("n%d reaches the others again", n.id)
	s.mend(n)
}

// powerFails crashes all machines, and starts them again after a second.
func (s *stage) powerFails() {
	s.say("all machines lose power")
	s.on = false
	for _, n := range s.nodes {
		n.crash(true)
	}
	s.wait(second)
	for _, n := range s.nodes {
		n.start()
	}
	if s.fatal != "" {
		s.stop("%s", strings.Join(s.violations, "; "))
	}
	s.until("all have an epoch", func() bool { return s.leader.epoch > 0 && s.home.epoch > 0 && s.third.epoch > 0 })
	s.on = true
	s.say("all are back; n%d leads", s.world.leader().id)
}

// end heals everything, lets the clients finish, and has the checkers look.
func (s *stage) end() {
	s.on = false
	s.sent, s.handed = nil, nil
	s.heal()
	for _, g := range s.generics {
		g.die(false)
	}
	s.wait(10 * time.Second)
	s.finish()
	for _, p := range s.people {
		p.leave()
	}
	s.failures = append(s.failures, s.verdict().Violations...)
}

// perform plays a scenario. A fault that was built in may make the product panic: that is found as well.
func perform(c *scenario) (script []byte, failures []string) {
	var s *stage
	defer func() {
		switch r := recover(); {
		case s != nil:
			script, failures = s.script.Bytes(), s.failures
			if r == nil || r == (curtain{}) {
				return
			}
			fallthrough
		case r != nil:
			if !mutant.Enabled {
				panic(r)
			}
			failures = append(failures, fmt.Sprint("panic: ", r))
		}
	}()
	s = newStage(c)
	fmt.Fprintf(&s.script, "%s\n%s\n\n", c.name, strings.TrimSpace(c.about))
	c.play(s)
	s.end()
	return s.script.Bytes(), s.failures
}

// TestScenarios plays the interleavings, and compares their transcripts with those of testdata (go test -update writes them).
func TestScenarios(t *testing.T) {
	if mutant.Enabled && os.Getenv("ONCEMQ_MUTANT") == "" {
		t.Log("in a binary with faults TestScenariosFind says more")
	}
	names := map[string]bool{"README.md": true}
	for _, c := range scenarios() {
		if names[c.name+".txt"] {
			t.Fatalf("%s stands twice", c.name)
		}
		names[c.name+".txt"] = true
		t.Run(c.name, func(t *testing.T) {
			script, failures := perform(&c)
			for _, f := range failures {
				t.Error(f)
			}
			if t.Failed() {
				t.Logf("\n%s", script)
				return
			}
			compareScript(t, filepath.Join("testdata", c.name+".txt"), script)
		})
	}
	files, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !names[f.Name()] {
			t.Errorf("testdata/%s is no scenario's transcript", f.Name())
		}
	}
}

func compareScript(t *testing.T, file string, script []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, script, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(want, script) {
		t.Errorf("%s: %v: another transcript (go test -update writes it anew): %s", file, err, firstDifference(want, script))
	}
}

// TestScenariosFind sees each scenario fail with the faults that it names: one that can't fail proves nothing.
func TestScenariosFind(t *testing.T) {
	if !mutant.Enabled {
		t.Skip("only with -tags mutants")
	}
	defer mutant.Set("")
	for _, c := range scenarios() {
		for _, m := range c.breaks {
			t.Run(c.name+"/"+string(m), func(t *testing.T) {
				if !mutant.Set(m) {
					t.Fatalf("there is no fault %q", m)
				}
				_, failures := perform(&c)
				if len(failures) == 0 {
					t.Errorf("%s doesn't see the fault %s", c.name, m)
					return
				}
				t.Log(failures[0])
			})
		}
	}
}

// TestScenarioIndex: the table of testdata names every scenario, and every fault that one finds.
func TestScenarioIndex(t *testing.T) {
	table, err := os.ReadFile(filepath.Join("testdata", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range scenarios() {
		row := ""
		for line := range strings.Lines(string(table)) {
			if strings.Contains(line, "`"+c.name+"`") {
				row += line
			}
		}
		if row == "" {
			t.Errorf("testdata/README.md has no row for %s", c.name)
		}
		for _, m := range c.breaks {
			if !strings.Contains(row, "`"+string(m)+"`") {
				t.Errorf("testdata/README.md: the row of %s doesn't name the fault %s", c.name, m)
			}
		}
	}
}
