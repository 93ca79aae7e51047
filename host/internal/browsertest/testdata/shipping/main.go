// Command shipping is a plugin whose version is markup that runs a script where it is not escaped.
package main

import "github.com/thole-dev/thole/sdk"

func init() {
	sdk.Plugin("shipping", `1"><img src=x onerror="window.ran=1"><script>window.ran=1</script>`)
	sdk.Register(sdk.Controller[struct{}, struct{}]{
		Name: "settings", For: sdk.Kind{APIVersion: "v1", Kind: "ConfigMap"},
		Reconcile: func(*sdk.Request[struct{}, struct{}]) (sdk.Action, error) { return sdk.AwaitChange(), nil },
	})
}

func main() {}
