// Command second is another plugin with the same controllers as tracer.
package main

import "github.com/thole-dev/thole/host/internal/scenario/testdata/tracer/calls"

func init() { calls.Register("second", "SecondReady") }

func main() {}
