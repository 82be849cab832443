package faults

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/oncemq/oncemq/test/cluster"
)

// Starver takes processor time from a node, and gives it back.
type Starver struct {
	Name  string
	Begin func(n *cluster.Node) (heal func())
}

// Starvers are the ways that this machine has: a quota, where control groups have one,
// and the scheduler's last rank beside a process that never rests.
func (w *World) Starvers() []Starver {
	w.tb.Helper()
	outrank := func(n *cluster.Node) func() { _, heal := w.outrank(n); return heal }
	list := []Starver{{"last in the queue for one processor", outrank}}
	if group := w.cpuGroup(); group != "" {
		quota := func(n *cluster.Node) func() { return w.quota(group, n) }
		list = append(list, Starver{"5 ms of every 100", quota})
	}
	return list
}

// period and share, in µs, leave a node a twentieth of one processor.
const period, share = 100_000, 5_000

// cpuGroup makes a control group with a quota of processor time, in the controller of
// version 1: with version 2 it may be given only where all of the machine's groups have
// it. "": there is none.
func (w *World) cpuGroup() string {
	w.tb.Helper()
	mount := filepath.Join(w.dir, "cpu")
	if err := os.Mkdir(mount, 0o700); err != nil {
		w.tb.Fatal(err)
	}
	if err := unix.Mount("none", mount, "cgroup", 0, "cpu"); err != nil {
		w.Note("no control group for processor time: %v", err)
		return ""
	}
	group := filepath.Join(mount, fmt.Sprintf("oncemq-faults-%d", os.Getpid()))
	w.tb.Cleanup(func() {
		_ = w.Close() // a group is removed only without processes
		if err := os.Remove(group); err != nil {
			w.tb.Error(err)
		}
		if err := unix.Unmount(mount, 0); err != nil {
			w.tb.Error(err)
		}
	})
	if err := os.Mkdir(group, 0o700); err != nil {
		w.tb.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(group, "cpu.cfs_period_us"), []byte(strconv.Itoa(period)), 0); err != nil {
		w.Note("no quota of processor time: %v", err)
		return ""
	}
	return group
}

// quota puts a node's process into the group and limits the group.
func (w *World) quota(group string, n *cluster.Node) (heal func()) {
	w.tb.Helper()
	write := func(file string, number int) {
		w.tb.Helper()
		if err := os.WriteFile(filepath.Join(group, file), []byte(strconv.Itoa(number)), 0); err != nil {
			w.tb.Fatal(err)
		}
	}
	write("cgroup.procs", n.PID())
	write("cpu.cfs_quota_us", share)
	w.Note("node %d gets %d ms of processor time in %d", n.ID, share/1000, period/1000)
	return func() {
		w.tb.Helper()
		write("cpu.cfs_quota_us", -1)
		w.Note("node %d gets processor time again", n.ID)
	}
}

// outrank puts a node on the first processor with the lowest rank, beside a process
// that never rests. end ends that one alone, where the node's process is gone.
func (w *World) outrank(n *cluster.Node) (end, heal func()) {
	w.tb.Helper()
	var before, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		w.tb.Fatal(err)
	}
	for cpu := 0; one.Count() == 0; cpu++ {
		if before.IsSet(cpu) {
			one.Set(cpu)
		}
	}
	hog := exec.Command("sh", "-c", "while :; do :; done")
	hog.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := hog.Start(); err != nil {
		w.tb.Fatal(err)
	}
	w.rank(hog.Process.Pid, &one, 0)
	w.rank(n.PID(), &one, 19)
	w.Note("node %d is the last to get processor time", n.ID)
	end = func() {
		_ = hog.Process.Kill()
		_ = hog.Wait() // it was killed
	}
	return end, func() {
		w.tb.Helper()
		end()
		w.rank(n.PID(), &before, 0)
		w.Note("node %d gets processor time again", n.ID)
	}
}

// rank says where all threads of a process may run and how nice they are; those that
// come later inherit it.
func (w *World) rank(pid int, where *unix.CPUSet, nice int) {
	w.tb.Helper()
	for range 2 { // a thread may have begun another meanwhile
		tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil {
			w.tb.Fatal(err)
		}
		for _, task := range tasks {
			tid, err := strconv.Atoi(task.Name())
			if err != nil {
				w.tb.Fatal(err)
			}
			// A thread that has ended meanwhile needs nothing.
			if err := unix.SchedSetaffinity(tid, where); err != nil && err != unix.ESRCH {
				w.tb.Fatal(err)
			}
			if err := unix.Setpriority(unix.PRIO_PROCESS, tid, nice); err != nil && err != unix.ESRCH {
				w.tb.Fatal(err)
			}
		}
	}
}
