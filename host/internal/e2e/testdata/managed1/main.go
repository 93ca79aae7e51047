// Command managed1 is the plugin of package managed before its children are labelled.
package main

import "github.com/thole-dev/thole/host/internal/e2e/testdata/managed"

func init() { managed.Register("1") }

func main() {}
