package localcluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/oncemq/oncemq/internal/admin"
)

// Node is one node: an address for each purpose, and at most one living process.
type Node struct {
	ID                int
	AMQP, Peer, Admin string // host:port
	Dir               string // its data
	LogPath           string // its standard error and output, over all its lives

	line    []string // program and arguments
	cluster *Cluster

	mu   sync.Mutex
	proc *process // nil before the first start
}

// process is one life of a node.
type process struct {
	cmd  *exec.Cmd
	log  *os.File
	done chan struct{} // closed when it was waited for
	err  error         // its end, once done
	told bool          // to end; guarded by Node.mu
}

// Start starts the node's process. The former one must have ended.
func (n *Node) Start() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.proc != nil {
		select {
		case <-n.proc.done:
		default:
			return fmt.Errorf("node %d runs already (pid %d)", n.ID, n.proc.cmd.Process.Pid)
		}
	}
	log, err := os.OpenFile(n.LogPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	cmd := exec.Command(n.line[0], n.line[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = childAttr()
	if err := n.cluster.spawner.start(cmd); err != nil {
		log.Close()
		return fmt.Errorf("starting node %d: %w", n.ID, err)
	}
	p := &process{cmd: cmd, log: log, done: make(chan struct{})}
	n.proc = p
	go n.wait(p)
	return nil
}

// SetBinary has the node's next starts run another program.
func (n *Node) SetBinary(path string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if at := slices.Index(n.line, "serve"); at > 0 {
		n.line[at-1] = path
	}
}

// wait reaps p; an end that nobody ordered goes to Unexpected.
func (n *Node) wait(p *process) {
	p.err = p.cmd.Wait()
	p.log.Close()
	close(p.done)
	n.mu.Lock()
	told := p.told
	n.mu.Unlock()
	if told {
		return
	}
	select {
	case n.cluster.unexpected <- Ended{n, fmt.Errorf("node %d ended by itself (%v); its log is %s", n.ID, p.cmd.ProcessState, n.LogPath)}:
	default: // sixteen reports are waiting already
	}
}

// PID is the process id of the present or last process, 0 before the first.
func (n *Node) PID() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.proc == nil {
		return 0
	}
	return n.proc.cmd.Process.Pid
}

// Signal sends sig to the node's process.
func (n *Node) Signal(sig syscall.Signal) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.proc == nil {
		return os.ErrProcessDone
	}
	if sig == syscall.SIGKILL || sig == syscall.SIGTERM {
		n.proc.told = true
	}
	return n.proc.cmd.Process.Signal(sig)
}

// ExpectEnd says that the process will end, by means of the caller's own that are no
// signal of ours (a failing disk, a cgroup's kill): its end isn't Unexpected then.
func (n *Node) ExpectEnd() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.proc != nil {
		n.proc.told = true
	}
}

// ExitCode is the exit status of the last process, -1 where it was killed by a signal,
// still runs, or never ran.
func (n *Node) ExitCode() int {
	n.mu.Lock()
	p := n.proc
	n.mu.Unlock()
	if p == nil {
		return -1
	}
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	default:
		return -1
	}
}

// Wait waits until the process has ended, as it does after Signal(SIGKILL).
func (n *Node) Wait() {
	n.mu.Lock()
	p := n.proc
	n.mu.Unlock()
	if p != nil {
		<-p.done
	}
}

// stop ends the process by SIGTERM, after grace by SIGKILL.
func (n *Node) stop(grace time.Duration) error {
	n.mu.Lock()
	p := n.proc
	n.mu.Unlock()
	if p == nil {
		return nil
	}
	select {
	case <-p.done: // killed before, or reported as unexpected
		return nil
	default:
	}
	// A stopped process doesn't see SIGTERM before SIGCONT.
	if err := errors.Join(n.Signal(syscall.SIGTERM), n.Signal(syscall.SIGCONT)); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		n.Signal(syscall.SIGKILL)
		<-p.done
		return fmt.Errorf("node %d didn't stop within %v of SIGTERM and was killed; its log is %s", n.ID, grace, n.LogPath)
	}
	if p.err != nil {
		return fmt.Errorf("node %d stopped with %w; its log is %s", n.ID, p.err, n.LogPath)
	}
	return nil
}

// WaitReady asks /readyz until it says yes, the process ends, or ctx is done.
func (n *Node) WaitReady(ctx context.Context) error {
	n.mu.Lock()
	p := n.proc
	n.mu.Unlock()
	var last error
	for {
		if last = n.call(ctx, http.MethodGet, "/readyz", nil); last == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for node %d to be ready: %w (last answer: %w); its log is %s", n.ID, ctx.Err(), last, n.LogPath)
		case <-p.done:
			return fmt.Errorf("node %d ended before it was ready (%v); its log is %s", n.ID, p.cmd.ProcessState, n.LogPath)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Status asks /api/v1/status.
func (n *Node) Status(ctx context.Context) (st admin.Status, err error) {
	err = n.call(ctx, http.MethodGet, "/api/v1/status", &st)
	return st, err
}

// Queue asks for a queue's numbers. exists is false where there is no such queue.
func (n *Node) Queue(ctx context.Context, name string) (q admin.Queue, exists bool, err error) {
	err = n.call(ctx, http.MethodGet, "/api/v1/queues/"+url.PathEscape(name), &q)
	if status := (*admin.StatusError)(nil); errors.As(err, &status) && status.Code == http.StatusNotFound {
		return q, false, nil
	}
	return q, err == nil, err
}

// callTimeout bounds a call of an admin port: a stopped node answers nothing.
const callTimeout = 2 * time.Second

func (n *Node) call(ctx context.Context, method, path string, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return admin.Call(ctx, n.Admin, method, path, nil, answer)
}
