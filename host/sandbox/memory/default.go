package memory

import (
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
)

// Default is how much memory the guests of a host have together if
// nobody says: half of what the process may have, which is the least limit of
// its control groups and the machine's memory. root is the file system.
func Default(root fs.FS) uint64 {
	least := min(cgroupMemory(root), machineMemory(root))
	if least == math.MaxUint64 {
		return unknownMemory
	}
	return least / 2
}

// unknownMemory is the default where the system does not say what it has.
const unknownMemory = 1 << 30

// cgroupMemory is the least limit of the process's memory control groups.
func cgroupMemory(root fs.FS) uint64 {
	least := uint64(math.MaxUint64)
	groups, _ := fs.ReadFile(root, "proc/self/cgroup")
	for line := range strings.Lines(string(groups)) {
		// hierarchy:controllers:path; version 2 has no controllers.
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(fields) < 3:
		case fields[1] == "":
			least = min(least, leastLimit(root, "sys/fs/cgroup", fields[2], "memory.max"))
		case strings.Contains(","+fields[1]+",", ",memory,"):
			least = min(least, leastLimit(root, "sys/fs/cgroup/memory", fields[2], "memory.limit_in_bytes"))
		}
	}
	return least
}

// leastLimit looks at a group and at those that it is in. In a container the
// path may be one of the machine, and what is mounted its end: what is not
// there does not count.
func leastLimit(root fs.FS, mount, group, file string) uint64 {
	least := uint64(math.MaxUint64)
	for at := path.Join("/", group); ; at = path.Dir(at) {
		text, err := fs.ReadFile(root, path.Join(mount, at, file))
		if limit, bad := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err == nil && bad == nil { // "max" is none
			least = min(least, limit)
		}
		if at == "/" {
			return least
		}
	}
}

// machineMemory is how much memory the machine has.
func machineMemory(root fs.FS) uint64 {
	text, _ := fs.ReadFile(root, "proc/meminfo")
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			if kib, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 54); err == nil {
				return kib << 10
			}
		}
	}
	return math.MaxUint64
}
