// Command tracer is a plugin whose handlers leave traces of their calls: see package calls.
package main

import "github.com/thole-dev/thole/host/internal/scenario/testdata/tracer/calls"

func init() { calls.Register("tracer", "Ready") }

func main() {}
