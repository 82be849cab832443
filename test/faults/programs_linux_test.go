package faults

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oncemq/oncemq"
)

// What a program of TestRow81ProgramsDie is told, in its environment: what it does,
// where the cluster is, and where it writes down what it knows.
const (
	program        = "ONCEMQ_FAULTS_PROGRAM"
	programURLs    = "ONCEMQ_FAULTS_URLS"
	programJournal = "ONCEMQ_FAULTS_JOURNAL"
)

// The queues of the programs.
const (
	programsIn  = "programs.in"
	programsOut = "programs.out"
)

// journal is what a program knew when it was killed, a line for each fact: "sending x"
// before a send, "sent x" when it was accepted, "moved x" when its commit was reported.
// The kernel keeps what a killed process wrote.
type journal struct{ *os.File }

func (j journal) note(fact, name string) error {
	_, err := fmt.Fprintln(j, fact, name)
	return err
}

// runProgram is a process of its own: it sends, or it moves, until it is killed.
func runProgram(name string) int {
	f, err := os.OpenFile(os.Getenv(programJournal), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	work := send
	if strings.HasPrefix(name, "mover") {
		work = move
	}
	if err := work(context.Background(), name, journal{f}); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
	}
	return 1
}

// session connects a program under its name, which it has in every life.
func session(ctx context.Context, name string) (*oncemq.Session, error) {
	c, err := oncemq.Dial(ctx, os.Getenv(programURLs), &oncemq.Config{ClientID: name, Failover: oncemq.Failover{IgnoreServerList: true}})
	if err != nil {
		return nil, err
	}
	return c.OpenSession(ctx, nil)
}

// send sends names that no life of it has sent before, 200 a second, and asks for the
// outcome of each when 16 more are under way.
func send(ctx context.Context, name string, j journal) error {
	s, err := session(ctx, name)
	if err != nil {
		return err
	}
	sender, err := s.NewSender(ctx, programsIn, nil)
	if err != nil {
		return err
	}
	type sending struct {
		name    string
		receipt *oncemq.Receipt
	}
	var window []sending
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		<-tick.C
		if len(window) == 16 {
			if err := window[0].receipt.Wait(ctx); err != nil {
				return err
			}
			if err := j.note("sent", window[0].name); err != nil {
				return err
			}
			window = window[1:]
		}
		next := fmt.Sprintf("%s-%d-%d", name, os.Getpid(), i)
		if err := j.note("sending", next); err != nil {
			return err
		}
		receipt, err := sender.SendAsync(ctx, oncemq.NewText(next))
		if err != nil {
			return err
		}
		window = append(window, sending{next, receipt})
	}
}

// move takes from one queue and puts into the other, in one transaction for each.
func move(ctx context.Context, name string, j journal) error {
	s, err := session(ctx, name)
	if err != nil {
		return err
	}
	sender, err := s.NewSender(ctx, programsOut, nil)
	if err != nil {
		return err
	}
	receiver, err := s.NewReceiver(ctx, programsIn, &oncemq.ReceiverOptions{Prefetch: 32})
	if err != nil {
		return err
	}
	for {
		d, err := receiver.Receive(ctx)
		if err != nil {
			return err
		}
		text, ok := d.Message.Value.(string)
		if !ok {
			return fmt.Errorf("a message that nobody sent: %v", d.Message)
		}
		err = s.InTx(ctx, func(tx *oncemq.Tx) error {
			return errors.Join(tx.Accept(d), tx.Send(ctx, sender, oncemq.NewText(text)))
		})
		if err != nil { // the message comes again, unless the transaction has been committed
			continue
		}
		if err := j.note("moved", text); err != nil {
			return err
		}
	}
}

// Rows 81 and 85: programs are killed between what they say and the answer, senders and
// movers in transactions, and start anew; a leader dies as well. What was accepted is
// moved once, what nobody knows at most once, and nothing stays reserved for the dead.
func TestRow81ProgramsDie(t *testing.T) {
	Long(t)
	w := New(t, Options{Rate: 50})
	names := []string{"sender-1", "sender-2", "mover-1", "mover-2"}
	rng := rand.New(rand.NewPCG(81, 85))
	w.Run(func() {
		running := make(map[string]*exec.Cmd)
		for i, name := range names {
			running[name] = w.startProgram(name, i)
		}
		for round := range 30 {
			w.For(time.Duration(100+rng.IntN(700)) * time.Millisecond)
			i := rng.IntN(len(names))
			w.killProgram(names[i], running[names[i]])
			if round == 15 {
				n := w.Leader()
				w.Kill(n)
				w.Commits(10, failover)
				w.Start(n)
			}
			running[names[i]] = w.startProgram(names[i], round)
		}
		for _, name := range names[:2] {
			w.killProgram(name, running[name])
		}
		w.Until(time.Minute, "the movers to move the rest", func() bool {
			q, ok, err := w.Nodes[0].Queue(w.ctx, programsIn)
			return err == nil && ok && q.Depth == 0
		})
		for _, name := range names[2:] {
			w.killProgram(name, running[name])
		}
		w.judgePrograms(names)
	})
}

func (w *World) startProgram(name string, first int) *exec.Cmd {
	w.tb.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), program+"="+name, programURLs+"="+w.urls(first), programJournal+"="+w.journal(name))
	out, err := os.OpenFile(filepath.Join(w.dir, "programs.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		w.tb.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		w.tb.Fatal(err)
	}
	_ = out.Close()
	w.Note("%s is started", name)
	return cmd
}

// killProgram is kill -9; it must not have ended before.
func (w *World) killProgram(name string, cmd *exec.Cmd) {
	w.tb.Helper()
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	w.Note("kill -9 %s", name)
	if cmd.ProcessState.Exited() {
		log, _ := os.ReadFile(filepath.Join(w.dir, "programs.log"))
		w.tb.Errorf("%s had ended by itself:\n%s", name, log)
	}
}

func (w *World) journal(name string) string { return filepath.Join(w.dir, name+".journal") }

// judgePrograms compares what the programs knew with what is there.
func (w *World) judgePrograms(names []string) {
	w.tb.Helper()
	facts := map[string]map[string]bool{"sending": {}, "sent": {}, "moved": {}}
	for _, name := range names {
		f, err := os.Open(w.journal(name))
		if err != nil {
			w.tb.Fatal(err)
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			fact, name, _ := strings.Cut(lines.Text(), " ")
			if facts[fact][name] {
				w.tb.Errorf("%s %s twice", fact, name)
			}
			facts[fact][name] = true
		}
		_ = f.Close()
	}
	found := w.drain(programsOut)
	for name, times := range found {
		if times > 1 {
			w.tb.Errorf("%s was moved %d times", name, times)
		}
		if !facts["sending"][name] {
			w.tb.Errorf("%s is there, and nobody sent it", name)
		}
	}
	for _, fact := range []string{"sent", "moved"} {
		for name := range facts[fact] {
			if found[name] == 0 {
				w.tb.Errorf("%s %s, and it isn't there", fact, name)
			}
		}
	}
	w.tb.Logf("%d sendings, %d accepted, %d moved, %d reported to be moved", len(facts["sending"]), len(facts["sent"]), len(found), len(facts["moved"]))
	if len(facts["sent"]) < 100 || len(facts["sent"]) == len(facts["sending"]) || len(facts["moved"]) == len(found) {
		w.tb.Error("no program died between what it said and the answer, so nothing was tested")
	}
}

// drain empties a queue and counts what was in it, by text.
func (w *World) drain(queue string) map[string]int {
	w.tb.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
	defer cancel()
	q, _, err := w.Nodes[0].Queue(ctx, queue)
	if err != nil {
		w.tb.Fatal(err)
	}
	c, err := oncemq.Dial(ctx, w.urls(0), nil)
	if err != nil {
		w.tb.Fatal(err)
	}
	defer func() { _ = c.Close(ctx) }()
	s, err := c.OpenSession(ctx, nil)
	if err != nil {
		w.tb.Fatal(err)
	}
	receiver, err := s.NewReceiver(ctx, queue, nil)
	if err != nil {
		w.tb.Fatal(err)
	}
	found := make(map[string]int)
	for range q.Depth {
		d, err := receiver.Receive(ctx)
		if err != nil {
			w.tb.Fatal(err)
		}
		found[d.Message.Value.(string)]++
	}
	return found
}
