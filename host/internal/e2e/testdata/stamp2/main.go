package main

import "github.com/thole-dev/thole/host/internal/e2e/testdata/stamp"

func init() { stamp.Register("2") }

func main() {}
