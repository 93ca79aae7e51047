// Command documents is a plugin for tests: the Go code of README.md and of
// docs/how-to/author.md, line by line, with what the fragments presuppose.
package main

import (
	_ "github.com/thole-dev/thole/sdk/sdktest/wasmtest/testdata/documents/author"
	_ "github.com/thole-dev/thole/sdk/sdktest/wasmtest/testdata/documents/readme"
	_ "github.com/thole-dev/thole/sdk/sdktest/wasmtest/testdata/documents/selector"
	_ "github.com/thole-dev/thole/sdk/sdktest/wasmtest/testdata/documents/versions"
	_ "github.com/thole-dev/thole/sdk/sdktest/wasmtest/testdata/documents/website"
)

//go:generate go run github.com/thole-dev/thole/cmd/thole-tools generate ./...

func main() {}
