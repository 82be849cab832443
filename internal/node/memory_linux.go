package node

import (
	"bufio"
	"bytes"
	"os"
	"path"
	"strconv"
	"strings"
)

// machineMemory is how much memory the machine has, or what the control groups of this process leave of it; 0: not known.
func machineMemory() int64 {
	info, _ := os.ReadFile("/proc/meminfo")
	groups, _ := os.ReadFile("/proc/self/cgroup")
	return memoryOf(info, groups, func(name string) string {
		b, err := os.ReadFile(name)
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(b))
	})
}

// memoryOf reads the contents of /proc/meminfo and /proc/self/cgroup; read gives a file's text, empty where there is none.
func memoryOf(info, groups []byte, read func(name string) string) (total int64) {
	for lines := bufio.NewScanner(bytes.NewReader(info)); lines.Scan(); {
		if f := strings.Fields(lines.Text()); len(f) >= 2 && f[0] == "MemTotal:" {
			if kib, err := strconv.ParseInt(f[1], 10, 64); err == nil {
				total = kib << 10
			}
		}
	}
	for lines := bufio.NewScanner(bytes.NewReader(groups)); lines.Scan(); {
		// hierarchy, controllers, path: 0::/a for version 2
		f := strings.SplitN(lines.Text(), ":", 3)
		if len(f) != 3 {
			continue
		}
		root, name := "/sys/fs/cgroup", "memory.max"
		if f[1] != "" {
			if !strings.Contains(","+f[1]+",", ",memory,") {
				continue
			}
			root, name = "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
		}
		for at := path.Clean("/" + f[2]); ; at = path.Dir(at) {
			if limit, err := strconv.ParseInt(read(path.Join(root, at, name)), 10, 64); err == nil && limit > 0 && (total == 0 || limit < total) {
				total = limit
			}
			if at == "/" {
				break
			}
		}
	}
	return total
}
