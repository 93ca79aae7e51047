package main

import "github.com/thole-dev/thole/host/internal/e2e/testdata/soak"

func init() { soak.Plain() }

func main() {}
