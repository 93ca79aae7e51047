// Command parts is a plugin that follows parts of kinds: Stamps of one shard, ConfigMaps
// with a label, and the metadata of ServiceAccounts, which belong to Stamps by an
// annotation.
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

// status has the number of runs, and what the last one found.
type status struct {
	Version string `json:"version"`
}

type configMap struct {
	Metadata sdk.ObjectMeta    `json:"metadata"`
	Data     map[string]string `json:"data"`
}

type serviceAccount struct {
	Metadata sdk.ObjectMeta `json:"metadata"`
	Mount    *bool          `json:"automountServiceAccountToken"`
}

var (
	stamp    = sdk.Kind{APIVersion: "e2e.thole.dev/v1", Kind: "Stamp"}
	maps     = sdk.Kind{APIVersion: "v1", Kind: "ConfigMap"}
	accounts = sdk.Kind{APIVersion: "v1", Kind: "ServiceAccount"}
)

func init() {
	sdk.Plugin("parts", "1")
	sdk.Register(sdk.Controller[spec, status]{
		Name:  "stamp",
		For:   stamp,
		Reads: []sdk.Kind{maps},
		Select: sdk.Select(
			sdk.Followed{Kind: stamp, Selector: sdk.Selector{LabelSelector: "shard=1"}},
			sdk.Followed{Kind: maps, Selector: sdk.Selector{LabelSelector: "app in (x, y)"}},
		),
		Watches: []sdk.Watch{{
			Followed: sdk.Followed{Kind: accounts, Selector: sdk.Selector{MetadataOnly: true}},
			By:       sdk.ByAnnotation, Key: "e2e.thole.dev/stamp",
		}},
		Reconcile: reconcile,
	})
}

func reconcile(r *sdk.Request[spec, status]) (sdk.Action, error) {
	var found []string
	for _, name := range strings.Fields(r.Spec.Text) {
		var m configMap
		switch err := r.Get(maps.Ref("", name), &m); {
		case err == nil:
			found = append(found, name+" "+m.Data["a"])
		case errors.Is(err, sdk.ErrDenied):
			found = append(found, name+" denied")
		default:
			return sdk.Action{}, err
		}
	}
	var all, account = []configMap{}, serviceAccount{}
	if err := r.List(sdk.Query{Kind: maps, LabelSelector: "app=x"}, &all); err != nil {
		return sdk.Action{}, err
	}
	if err := r.List(sdk.Query{Kind: maps}, &all); !errors.Is(err, sdk.ErrDenied) {
		return sdk.Action{}, errors.New("a list of more than is followed is not denied")
	}
	if err := r.Get(accounts.Ref("", r.Name), &account); err == nil {
		found = append(found, "account mounts "+strconv.FormatBool(account.Mount != nil))
	} else if !errors.Is(err, sdk.ErrNotFound) {
		return sdk.Action{}, err
	}
	runs, _, _ := strings.Cut(r.Status.Version, ": ")
	n, _ := strconv.Atoi(runs)
	r.Status.Version = strconv.Itoa(n+1) + ": " + strings.Join(append(found, strconv.Itoa(len(all))+" listed"), ", ")
	return sdk.AwaitChange(), nil
}

func main() {}
