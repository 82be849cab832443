package localcluster

import (
	"os/exec"
	"runtime"
)

// spawner starts processes from one thread that lives as long as it does: the signal
// that a child gets at its parent's death hangs on the thread that started it, and Go
// may end other threads at any time.
type spawner struct {
	requests chan spawnRequest
	done     chan struct{}
}

type spawnRequest struct {
	cmd *exec.Cmd
	err chan<- error
}

func newSpawner() *spawner {
	s := &spawner{requests: make(chan spawnRequest), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for r := range s.requests {
			r.err <- r.cmd.Start()
		}
	}()
	return s
}

// start starts cmd. Not after close.
func (s *spawner) start(cmd *exec.Cmd) error {
	err := make(chan error, 1)
	s.requests <- spawnRequest{cmd, err}
	return <-err
}

func (s *spawner) close() {
	close(s.requests)
	<-s.done
}
