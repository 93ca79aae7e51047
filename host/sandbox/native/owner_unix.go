//go:build unix

package native

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

func checkOwner(dir string, info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("the owner of %s cannot be read: use another file system", dir)
	}
	if owner, own := int(stat.Uid), os.Geteuid(); owner != own {
		return fmt.Errorf("%s belongs to user %d, this process runs as user %d, and its content is executed: choose another directory", dir, owner, own)
	}
	return nil
}
