// Command none registers nothing.
package main

import "github.com/thole-dev/thole/sdk"

// Kind is not used.
var Kind sdk.Kind

func main() {}
