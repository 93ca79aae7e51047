// Command builtin has a controller for a kind of Kubernetes.
package main

import "github.com/thole-dev/thole/sdk"

func init() {
	sdk.Register(sdk.Controller[Spec, Spec]{Name: "builtin", For: sdk.Kind{APIVersion: "apps/v1", Kind: "Deployment"}})
}

// Spec is a spec.
type Spec struct{}

func main() {}
