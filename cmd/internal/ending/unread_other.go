//go:build !unix

package ending

import "os"

// WhenUnread does nothing where the system does not tell that nobody reads.
func WhenUnread(*os.File, func()) {}
