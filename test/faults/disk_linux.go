package faults

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/oncemq/oncemq/test/cluster"
)

// Disk is a file system for one node's data.
type Disk interface {
	// Path is where it is mounted.
	Path() string
}

// run runs a program and fails the test with what it said.
func (w *World) run(name string, args ...string) {
	w.tb.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		w.tb.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
}

// mountPoint makes a directory for a node's disk.
func (w *World) mountPoint(node int) string {
	w.tb.Helper()
	path := filepath.Join(w.dir, fmt.Sprintf("disk%d", node))
	if err := os.Mkdir(path, 0o755); err != nil {
		w.tb.Fatal(err)
	}
	w.tb.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
	return path
}

// LoopDisk is ext4 in a file, whose power can be cut.
type LoopDisk struct {
	image, path string
}

// Path is where the disk is mounted.
func (d *LoopDisk) Path() string { return d.path }

// NewLoopDisk makes one; it is an Options.Disks.
func NewLoopDisk(w *World, node int) Disk {
	w.tb.Helper()
	d := &LoopDisk{image: filepath.Join(w.dir, fmt.Sprintf("disk%d.img", node))}
	if err := os.WriteFile(d.image, nil, 0o600); err != nil {
		w.tb.Fatal(err)
	}
	if err := os.Truncate(d.image, 1<<30); err != nil {
		w.tb.Fatal(err)
	}
	w.run("mkfs.ext4", "-q", "-F", "-m", "0", d.image) // nothing is kept for root, whom tests run as
	d.path = w.mountPoint(node)
	if out, err := d.mount(); err != nil {
		w.tb.Skipf("needs loop devices and ext4: %v: %s", err, out)
	}
	return d
}

// mount mounts the image over a loop device that frees itself.
func (d *LoopDisk) mount() ([]byte, error) {
	return exec.Command("mount", "-o", "loop,errors=remount-ro", d.image, d.path).CombinedOutput()
}

// The request and the flag of the file systems' own emergency stop: the journal isn't
// flushed, so that what was not synced is gone, as by a power cut. Every later
// operation fails.
const (
	fsIocShutdown        = 0x8004587d
	fsShutdownNoLogFlush = 2
)

// PowerLoss takes the power from the disks of nodes, then from their processes.
func (w *World) PowerLoss(list ...*cluster.Node) {
	w.tb.Helper()
	for _, n := range list {
		f, err := os.Open(w.disks[n.ID].Path())
		if err != nil {
			w.tb.Fatal(err)
		}
		n.ExpectEnd() // it may notice before it is killed
		if err := unix.IoctlSetPointerInt(int(f.Fd()), fsIocShutdown, fsShutdownNoLogFlush); err != nil {
			w.tb.Fatalf("stopping the file system %s: %v", f.Name(), err)
		}
		_ = f.Close()
		w.Note("power loss of node %d", n.ID)
	}
	w.Kill(list...)
	for _, n := range list {
		w.Remount(n)
	}
}

// Remount mounts the LoopDisk of a node anew, which has to have ended.
func (w *World) Remount(n *cluster.Node) {
	w.tb.Helper()
	d := w.disks[n.ID].(*LoopDisk)
	w.Until(10*time.Second, "the disk to be free", func() bool { return unix.Unmount(d.path, 0) == nil })
	if out, err := d.mount(); err != nil {
		w.tb.Fatalf("mounting %s again: %v: %s", d.image, err, out)
	}
}

// FailDisk lets the file system of a node's LoopDisk find an error in itself, after
// which it is read-only. The node is expected to end.
func (w *World) FailDisk(n *cluster.Node) {
	w.tb.Helper()
	n.ExpectEnd()
	d := w.disks[n.ID].(*LoopDisk)
	out, err := exec.Command("losetup", "-n", "-O", "NAME", "-j", d.image).Output()
	if err != nil {
		w.tb.Fatal(err)
	}
	trigger := filepath.Join("/sys/fs/ext4", filepath.Base(strings.TrimSpace(string(out))), "trigger_fs_error")
	if err := os.WriteFile(trigger, []byte("by a test"), 0); err != nil {
		w.tb.Skipf("needs %s: %v", trigger, err)
	}
	w.Note("the disk of node %d is read-only", n.ID)
}

// TinyDisk is a file system in memory that is soon full.
type TinyDisk struct{ path string }

// Path is where the disk is mounted.
func (d *TinyDisk) Path() string { return d.path }

// NewTinyDisk makes file systems of so many bytes; it gives an Options.Disks.
func NewTinyDisk(bytes int) func(w *World, node int) Disk {
	return func(w *World, node int) Disk {
		w.tb.Helper()
		d := &TinyDisk{path: w.mountPoint(node)}
		if err := unix.Mount("tmpfs", d.path, "tmpfs", 0, fmt.Sprintf("size=%d,mode=755", bytes)); err != nil {
			w.tb.Fatalf("mounting a tmpfs on %s: %v", d.path, err)
		}
		return d
	}
}

// Fill takes what is left of a node's disk, but for left bytes; empty gives it back.
func (w *World) Fill(n *cluster.Node, left int64) (empty func()) {
	w.tb.Helper()
	var st unix.Statfs_t
	path := w.disks[n.ID].Path()
	if err := unix.Statfs(path, &st); err != nil {
		w.tb.Fatal(err)
	}
	f, err := os.CreateTemp(path, "filler")
	if err != nil {
		w.tb.Fatal(err)
	}
	filler := f.Name()
	for size := int64(st.Bavail)*st.Bsize - left; size > 0; size -= max(left, 64<<10) {
		// The node takes room as well, so a little less may fit.
		if err = unix.Fallocate(int(f.Fd()), 0, 0, size); !errors.Is(err, unix.ENOSPC) {
			break
		}
	}
	if err != nil {
		w.tb.Fatalf("filling the disk of node %d: %v", n.ID, err)
	}
	_ = f.Close()
	w.Note("the disk of node %d is full but for %d bytes", n.ID, left)
	return func() {
		w.tb.Helper()
		if err := os.Remove(filler); err != nil && !errors.Is(err, os.ErrNotExist) { // gone with the disk's power
			w.tb.Fatal(err)
		}
		w.Note("the disk of node %d has room again", n.ID)
	}
}
