package memory

import (
	"os"
	"testing"
	"testing/fstest"
)

func TestDefault(t *testing.T) {
	const machine = "MemTotal:       16777216 kB\nMemFree:        1 kB\n" // 16 GiB
	for _, c := range []struct {
		name  string
		files map[string]string
		want  uint64
	}{
		{"nothing is known", nil, 1 << 30},
		{"machine", map[string]string{"proc/meminfo": machine}, 8 << 30},
		{"version 2 in a container", map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "536870912\n",
		}, 256 << 20},
		{"version 2 without a limit", map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n",
		}, 8 << 30},
		{"version 2, the group around it has less", map[string]string{
			"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/memory.max": "1048576\n", "sys/fs/cgroup/a/b/memory.max": "4194304\n",
		}, 512 << 10},
		{"version 1", map[string]string{
			"proc/self/cgroup": "5:cpu:/c\n4:hugetlb,memory:/a/b\n0::/\n",
			"sys/fs/cgroup/memory/a/b/memory.limit_in_bytes":     "2097152\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":         "9223372036854771712\n",
			"sys/fs/cgroup/memory/c/memory.limit_in_bytes":       "1\n",
			"sys/fs/cgroup/memory/a/b/other/memory.max":          "1\n",
			"sys/fs/cgroup/memory/a/b/c/d/memory.limit_in_bytes": "1\n",
		}, 1 << 20},
		{"version 1 in a container, which has the path of the machine", map[string]string{
			"proc/self/cgroup": "4:memory:/docker/0123\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "2097152\n",
		}, 1 << 20},
		{"without a limit of version 1 the machine's counts", map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "4:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
		}, 8 << 30},
		{"garbage", map[string]string{"proc/meminfo": "MemTotal: much\n", "proc/self/cgroup": "\n0:\n::\n"}, 1 << 30},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := fstest.MapFS{}
			for name, text := range c.files {
				root[name] = &fstest.MapFile{Data: []byte(text)}
			}
			if got := Default(root); got != c.want {
				t.Errorf("%d bytes, want %d", got, c.want)
			}
		})
	}
	if got := Default(os.DirFS("/")); got < 1<<20 {
		t.Errorf("%d bytes here", got)
	}
}
