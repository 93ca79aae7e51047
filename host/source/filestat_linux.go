package source

import (
	"os"
	"syscall"
)

// statusChange returns the time of the file's last status change (ctime) in
// Unix nanoseconds.
func statusChange(info os.FileInfo) int64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Ctim.Nano()
	}
	return 0
}
