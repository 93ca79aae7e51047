package main

import "github.com/thole-dev/thole/host/internal/e2e/testdata/soak"

func init() { soak.Trap() }

func main() {}
