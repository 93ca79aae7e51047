// A guest that exports one function.
package main

func main() {}

//go:wasmexport answer
func answer() int32 { return 42 }
