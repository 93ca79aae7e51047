// Command probe compares what a compiler makes of programs with what they mean. It prints a line for each trap:
// its name, and "ok" or "wrong".
package main

import "os"

func init() { run() }

// run is called as the module is initialized.
func run() {
	report("new-of-value", newOfValue())
}

func report(name string, ok bool) {
	result := " wrong\n"
	if ok {
		result = " ok\n"
	}
	_, _ = os.Stdout.WriteString(name + result)
}

// newOfValue has new with a value, since Go 1.26. TinyGo 0.41 makes a pointer to the zero value of it: see
// the language version 1.26, "Allocation" in the specification of Go.
func newOfValue() bool {
	type pair struct{ a, b string }
	a, b, c, d := new(int32(3)), new(text("text")), new(pair{"a", "b"}), new(*new(7)+1)
	return *a == 3 && *b == "text" && c.b == "b" && *d == 8
}

//go:noinline
func text(s string) string { return s }

func main() {}
