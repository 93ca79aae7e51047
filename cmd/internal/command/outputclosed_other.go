//go:build !unix

package command

import "os"

// WhenClosed does nothing on systems that do not report a closed pipe.
func WhenClosed(*os.File, func()) {}
