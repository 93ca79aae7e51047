//go:build !unix

package main

import "os"

// whenClosed does nothing on systems that do not report a closed pipe.
func whenClosed(*os.File, func()) {}
