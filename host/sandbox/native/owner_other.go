//go:build !unix

package native

import (
	"errors"
	"io/fs"
)

// checkOwner refuses: without file owners nothing protects the code that is
// executed from the directory.
func checkOwner(string, fs.FileInfo) error {
	return errors.New("a compile cache on disk needs a system with file owners: leave the directory empty")
}
