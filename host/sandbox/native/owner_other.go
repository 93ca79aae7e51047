//go:build !unix

package native

import (
	"errors"
	"io/fs"
)

// checkOwner refuses every directory: without file owners nothing protects the
// code in it, which is executed.
func checkOwner(string, fs.FileInfo, bool) error {
	return errors.New("a compile cache on disk needs a system with file owners: leave the directory empty")
}
