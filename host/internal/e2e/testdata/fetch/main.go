// Command fetch is a plugin whose Stamps send the request that their text names, as "METHOD URL", and have
// in their status what came of it: the status and the body of the answer, or why there is none. A third word
// before these names a ConfigMap that is read first, whatever comes of that.
package main

import (
	"errors"
	"strconv"
	"strings"

	"github.com/thole-dev/thole/sdk"
)

type spec struct {
	Text string `json:"text"`
}

type status struct {
	Version string `json:"version,omitempty"`
}

type configMap struct {
	sdk.TypeMeta
	Metadata sdk.ObjectMeta `json:"metadata"`
}

var kind = sdk.Kind{APIVersion: "v1", Kind: "ConfigMap"}

func init() {
	sdk.Plugin("fetch", "1")
	sdk.Register(sdk.Controller[spec, status]{
		Name:      "stamp",
		For:       sdk.Kind{APIVersion: "e2e.thole.dev/v1", Kind: "Stamp"},
		Reads:     []sdk.Kind{kind},
		HTTP:      []sdk.HTTPHost{{Host: "*", Methods: []string{"GET", "PUT"}}},
		Reconcile: reconcile,
	})
}

func reconcile(r *sdk.Request[spec, status]) (sdk.Action, error) {
	words := strings.Fields(r.Spec.Text)
	if len(words) == 3 {
		_ = r.Get(kind.Ref("", words[0]), &configMap{})
		words = words[1:]
	}
	if len(words) != 2 {
		return sdk.AwaitChange(), nil
	}
	answer, err := r.HTTP(sdk.HTTPRequest{Method: words[0], URL: words[1]})
	r.Status.Version = outcome(answer, err)
	return sdk.AwaitChange(), nil
}

func outcome(answer *sdk.HTTPResponse, err error) string {
	failed, isFailure := errors.AsType[*sdk.HTTPError](err)
	switch {
	case err == nil:
		return strconv.Itoa(answer.Status) + " " + string(answer.Body)
	case errors.Is(err, sdk.ErrDenied):
		return "denied"
	case errors.Is(err, sdk.ErrTooLarge):
		return "too large"
	case isFailure && failed.Reason != "":
		return failed.Reason
	}
	return err.Error()
}

func main() {}
