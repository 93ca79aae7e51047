package source

import (
	"io/fs"
	"syscall"
)

// identify tells a file that was replaced from one that was kept, and one that
// was written from one that was given back its old date.
func (l *look) identify(info fs.FileInfo) {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		l.inode, l.device = stat.Ino, stat.Dev
		l.changed = stat.Ctim.Nano()
	}
}
