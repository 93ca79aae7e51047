// Command keyring is a plugin that reads a Secret, whose name is in the spec as
// NAMESPACE/NAME, and lists the Secrets of that namespace, or of all if it is "". It is run twice: in the second module
// the tests replace the texts below by others of the same length.
package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/thole-dev/thole/sdk"
)

// The texts that the tests replace.
const (
	name = "keyring-a"
	kind = "KeyringA"
)

type spec struct {
	Text string `json:"text"`
}

// status has the number of runs and what was found.
type status struct {
	Runs int    `json:"runs"`
	Got  string `json:"got"`
	List string `json:"list"`
}

type secret struct {
	Data map[string]string `json:"data"`
}

var secrets = sdk.Kind{APIVersion: "v1", Kind: "Secret"}

func init() {
	sdk.Plugin(name, "1")
	sdk.Register(sdk.Controller[spec, status]{
		Name:  "main",
		For:   sdk.Kind{APIVersion: "test.thole.dev/v1", Kind: kind},
		Reads: []sdk.Kind{secrets},
		Reconcile: func(r *sdk.Request[spec, status]) (sdk.Action, error) {
			namespace, name, _ := strings.Cut(r.Spec.Text, "/")
			r.Status.Runs++
			var found secret
			err := r.Get(secrets.Ref(namespace, name), &found)
			if r.Status.Got = fmt.Sprint(found.Data); err != nil {
				r.Status.Got = text(err)
			}
			var all []secret
			err = r.List(sdk.Query{Kind: secrets, Namespace: namespace}, &all)
			if r.Status.List = strconv.Itoa(len(all)); err != nil {
				r.Status.List = text(err)
			}
			return sdk.AwaitChange(), nil
		},
	})
}

func text(err error) string {
	switch {
	case errors.Is(err, sdk.ErrDenied):
		return "denied"
	case errors.Is(err, sdk.ErrNotFound):
		return "not found"
	}
	return err.Error()
}

func main() {}
