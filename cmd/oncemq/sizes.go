package main

import (
	"github.com/spf13/cobra"

	"github.com/oncemq/oncemq/internal/config"
)

// sizeFlags adds the flags of a node that are numbers of bytes. Those for tests are hidden.
func sizeFlags(c *cobra.Command, f *config.SizeFlags) {
	flags := c.Flags()
	flags.StringVar(&f.RetainLog, "retain-log", "", "how many `BYTES` of the log are kept for a node that is behind, such as 2GiB; beyond that it gets a snapshot (default: 8GiB, or a fifth of the disk where that is less)")
	flags.StringVar(&f.SnapshotRate, "snapshot-rate", "", "how many `BYTES` a second go to nodes that get a snapshot (default: 100MiB)")
	flags.StringVar(&f.ScrubRate, "scrub-rate", "", "how many `BYTES` a second of log and state are read to find damage, at least; all of it is read within --scrub-every (default: 1MiB)")
	flags.StringVar(&f.LogSegment, "log-segment", "", "`BYTES` of a segment of the log")
	flags.StringVar(&f.FlushLog, "flush-log", "", "`BYTES` of log above which the state is flushed")
	flags.StringVar(&f.Memory, "memory", "", "how much memory the node may use, in `BYTES` or as a part of the machine's, such as 4GiB or 25%; the messages of the cluster may take half of the smallest node's (default: 50%)")
	flags.StringVar(&f.DiskReserve, "disk-reserve", "", "how many `BYTES` of the disk are set aside for what frees room when it is full (default: 256MiB, or a fiftieth of the disk where that is less)")
	for _, name := range []string{"log-segment", "flush-log"} {
		flags.Lookup(name).Hidden = true
	}
}
