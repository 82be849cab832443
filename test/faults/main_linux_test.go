package faults

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/oncemq/oncemq/test/cluster"
)

// TestMain runs the tests, where it may, in a second process with its own mounts and
// network: they end with it. The binary is built before, with the network of all.
func TestMain(m *testing.M) {
	if name := os.Getenv(program); name != "" {
		os.Exit(runProgram(name))
	}
	if os.Getenv(private) != "" {
		if err := raiseLoopback(); err != nil {
			fmt.Fprintln(os.Stderr, "bringing up the loopback device:", err)
			os.Exit(1)
		}
		os.Exit(m.Run())
	}
	if os.Getuid() != 0 {
		os.Exit(m.Run())
	}
	code, err := again()
	if err != nil {
		fmt.Fprintln(os.Stderr, "no namespaces for the tests, so that most are skipped:", err)
		os.Exit(m.Run())
	}
	os.Exit(code)
}

// again runs this program once more in namespaces of its own. An error: it can't be had.
func again() (code int, err error) {
	binary, err := cluster.Build()
	if err != nil {
		return 0, err
	}
	runtime.LockOSThread() // the child's death signal hangs on this thread
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), private+"=1", "ONCEMQ="+binary)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		return 0, err
	}
	return cmd.ProcessState.ExitCode(), nil
}

// raiseLoopback is `ip link set lo up`.
func raiseLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req)
}
