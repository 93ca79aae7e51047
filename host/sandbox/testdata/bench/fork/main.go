// Command fork is the benchmarks' controller as a program that is started for
// each reconcile: an object on standard input, a status on standard output.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/thole-dev/thole/host/sandbox/testdata/bench/appliance"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	var object struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Spec appliance.Spec `json:"spec"`
	}
	if err := json.NewDecoder(os.Stdin).Decode(&object); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(appliance.Reconcile(object.Metadata.Name, &object.Spec))
}
