package node

import (
	"testing"

	"github.com/oncemq/oncemq/internal/config"
)

// What the machine has counts, or the tightest of the control groups that the process is in, of both versions.
func TestMemoryOf(t *testing.T) {
	info := []byte("MemTotal:       16384 kB\nMemFree:         1000 kB\n")
	files := map[string]string{
		"/sys/fs/cgroup/memory/a/memory.limit_in_bytes":   "4194304",
		"/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes": "9223372036854771712",
		"/sys/fs/cgroup/x/memory.max":                     "2097152",
		"/sys/fs/cgroup/y/memory.max":                     "max",
	}
	for groups, want := range map[string]int64{
		"":                                16 << 20,
		"4:cpu:/a\n":                      16 << 20,
		"5:memory:/a/b\n":                 4 << 20,
		"5:memory:/a/b\n0::/x/y\n":        2 << 20,
		"0::/y\n":                         16 << 20,
		"5:cpu,memory:/a\nnonsense\n::\n": 4 << 20,
	} {
		if got := memoryOf(info, []byte(groups), func(name string) string { return files[name] }); got != want {
			t.Errorf("%q: %d, want %d", groups, got, want)
		}
	}
	if machineMemory() < 64<<20 {
		t.Errorf("this machine has %d bytes", machineMemory())
	}
}

// --memory in bytes or as a part of the machine's, and half of it by default.
func TestPlanMemory(t *testing.T) {
	if m := PlanMemory(config.Sizes{Memory: 1 << 30}); m.Total != 1<<30 || m.State != 512<<20 || m.Heap >= m.Total || m.MemTable != 16<<20 || m.Cache != 8<<20 {
		t.Errorf("%+v", m)
	}
	half, tenth := PlanMemory(config.Sizes{}), PlanMemory(config.Sizes{MemoryPercent: 10})
	if half.Total < machineMemory()/100*49 || half.Total > machineMemory()/2 || tenth.Total > half.Total/4 {
		t.Errorf("%+v, %+v of %d", half, tenth, machineMemory())
	}
}
