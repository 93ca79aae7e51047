//go:build unix

package native

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// checkOwner refuses a directory of another user than this process's, and than
// root if that is allowed.
func checkOwner(dir string, info fs.FileInfo, orRoot bool) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("the owner of %s cannot be read: use another file system", dir)
	}
	owner, own := int(stat.Uid), os.Geteuid()
	if owner == own || orRoot && owner == 0 {
		return nil
	}
	return fmt.Errorf("%s belongs to user %d, this process runs as user %d, and what is in it is executed: choose another directory", dir, owner, own)
}
