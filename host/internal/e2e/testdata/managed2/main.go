// Command managed2 is the plugin of package managed with managed children.
package main

import (
	"github.com/thole-dev/thole/host/internal/e2e/testdata/managed"
	"github.com/thole-dev/thole/sdk"
)

func init() {
	sdk.Managed()
	managed.Register("2")
}

func main() {}
