package failover

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

const jmsClasses, jmsLib = "../jms/target/classes", "../jms/target/lib"

// jvm is the one process of test/jms's Remote, in which the JMS programs of all tests run: its start costs more than a
// failover does. nil before the first.
var jvm *machine

// machine is that process. Its methods are safe for concurrent use.
type machine struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	read chan struct{} // closed when its output has ended

	mu       sync.Mutex
	calls    map[string]*call
	programs map[string]*remote
	number   int // of calls and programs
}

// TestMain ends the JMS programs behind the last test.
func TestMain(m *testing.M) {
	code := m.Run()
	if jvm != nil {
		_ = jvm.in.Close()
		<-jvm.read
		_ = jvm.cmd.Wait()
	}
	os.Exit(code)
}

// theJVM starts it where it doesn't run.
func theJVM(t *testing.T) *machine {
	t.Helper()
	if jvm != nil {
		return jvm
	}
	if _, err := os.Stat(jmsLib); err != nil {
		if os.Getenv("ONCEMQ_SETUP") != "" {
			t.Fatalf("%s is missing after make setup: %v", jmsLib, err)
		}
		t.Skipf("run make setup first: %v", err)
	}
	m := &machine{read: make(chan struct{}), calls: make(map[string]*call), programs: make(map[string]*remote)}
	m.cmd = exec.Command("java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", jmsClasses+":"+jmsLib+"/*", "oncemq.Remote")
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	m.cmd.Stderr = os.Stderr
	out, err := m.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if m.in, err = m.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := m.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(m.read)
		m.answers(out)
	}()
	jvm = m
	return m
}

// answers takes answers and events until the process ends.
func (m *machine) answers(out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		first, rest, _ := strings.Cut(lines.Text(), " ")
		m.mu.Lock()
		if c := m.calls[first]; c != nil {
			delete(m.calls, first)
			c.end(rest)
		} else if name, event, ok := strings.Cut(rest, " "); ok && m.programs[name] != nil {
			m.programs[name].event(event)
		} else {
			fmt.Fprintln(os.Stderr, lines.Text()) // what the JVM itself has to say
		}
		m.mu.Unlock()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.calls {
		c.end("error JVM has ended")
	}
	m.calls = nil
}

// program makes room for another program.
func (m *machine) program(r *remote) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.number++
	r.name = fmt.Sprint("p", m.number)
	m.programs[r.name] = r
}

// start begins a call.
func (m *machine) start(c *call) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.calls == nil {
		return errors.New("the JVM has ended")
	}
	m.number++
	id := strconv.Itoa(m.number)
	m.calls[id] = c
	_, err := fmt.Fprintf(m.in, "%s %s/%s\n", id, c.r.name, c.line)
	return err
}
