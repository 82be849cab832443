//go:build !linux

package localcluster

import "syscall"

// childAttr keeps the terminal's ^C from a child. Only Linux can tie its life to ours.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
