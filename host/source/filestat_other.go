//go:build !linux

package source

import "os"

// statusChange returns 0: other systems have no common name for the field.
func statusChange(os.FileInfo) int64 { return 0 }
