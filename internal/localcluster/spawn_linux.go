package localcluster

import "syscall"

// childAttr makes a child die with the thread that started it, and keeps the
// terminal's ^C from it: its parent decides.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
