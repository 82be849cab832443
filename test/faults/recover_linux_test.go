package faults

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/oncemq/oncemq/test/cluster"
)

// Row 59: two nodes, and then all three, are damaged in different places while nobody runs. They make each other whole, without a
// leader to help, and nothing is lost that was acknowledged.
func TestRow59DifferentPlaces(t *testing.T) {
	Long(t)
	w := New(t, Options{Flags: []string{"--log-segment", "64KiB"}})
	w.Run(func() {
		for _, damages := range [][]func(dir string) error{
			{loseState, nil, inLog(2)},
			{inLog(1), inLog(3), nil},
			{both(loseState, inLog(1)), both(loseState, inLog(3)), inLog(5)},
		} {
			for _, n := range w.Nodes { // the states are written out, and the logs cut
				n.Signal(syscall.SIGTERM)
				w.EndsWith(n, 0, failover)
				w.Start(n)
			}
			w.Commits(600, 4*failover)
			w.Kill(w.Nodes...)
			var damaged []*cluster.Node
			for i, n := range w.Nodes {
				if damages[i] == nil {
					continue
				}
				if err := damages[i](n.Dir); err != nil {
					t.Fatal(err)
				}
				w.Note("the directory of node %d is damaged", n.ID)
				damaged = append(damaged, n)
			}
			for _, n := range w.Nodes {
				n.Start()
			}
			for _, n := range damaged {
				w.Recovered(n)
			}
			w.Commits(300, 4*failover)
		}
	})
}

// loseState takes the state of the present generation away.
func loseState(dir string) error {
	for _, path := range matching(dir, "state") {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}

// both damages twice.
func both(one, two func(string) error) func(string) error {
	return func(dir string) error { return errors.Join(one(dir), two(dir)) }
}

// inLog damages the first append of the segment that lies so many before the last that was begun. Two nodes' segments don't begin with the same
// entries: only where the numbers lie two apart are other entries lost for certain.
func inLog(before int) func(dir string) error {
	return func(dir string) error {
		var begun []string
		for _, path := range matching(dir, "log/*.seg") {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			// One that was recycled still has its old number in its header.
			if len(b) > 3*4096 && filepath.Base(path) == fmt.Sprintf("%016x.seg", binary.LittleEndian.Uint64(b[16:])) {
				begun = append(begun, path)
			}
		}
		slices.Sort(begun)
		if len(begun) < before+2 {
			return errors.New("the log is too short: " + dir)
		}
		return flip(begun[len(begun)-1-before], 4096+60)
	}
}
