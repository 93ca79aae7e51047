//go:build unix && !linux

package source

import (
	"io/fs"
	"syscall"
)

// identify tells a file that was replaced from one that was kept.
func (l *look) identify(info fs.FileInfo) {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		l.inode, l.device = stat.Ino, uint64(stat.Dev)
	}
}
