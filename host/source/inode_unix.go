//go:build unix

package source

import (
	"io/fs"
	"syscall"
)

// inode tells a file that was replaced from one that was kept.
func inode(info fs.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Ino
	}
	return 0
}
