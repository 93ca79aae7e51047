package inspect

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
)

var (
	widget     = abi.Kind{APIVersion: "example.com/v1", Kind: "Widget"}
	gadget     = abi.Kind{APIVersion: "example.com/v1", Kind: "Gadget"}
	pod        = abi.Kind{APIVersion: "v1", Kind: "Pod"}
	configMap  = abi.Kind{APIVersion: "v1", Kind: "ConfigMap"}
	deployment = abi.Kind{APIVersion: "apps/v1", Kind: "Deployment"}
	ingress    = abi.Kind{APIVersion: "networking.k8s.io/v1", Kind: "Ingress"}
)

// short formats a rule: ? marks a guess, ! a rule that is not always needed.
func short(r Rule) string {
	out := strings.TrimPrefix(r.APIGroups[0]+"/"+r.Resources[0], "/") + ": " + strings.Join(r.Verbs, " ")
	if r.Guessed {
		out += " ?"
	}
	if r.OnlyIf != "" {
		out += " !"
	}
	return out
}

func expectRules(t *testing.T, c abi.Controller, at map[abi.Kind]resource, want ...string) {
	t.Helper()
	var have []string
	for _, r := range rights(&c, at).Rules {
		have = append(have, short(r))
		if len(r.Uses) == 0 || len(r.APIGroups) != 1 || len(r.Resources) != 1 {
			t.Errorf("rule %+v", r)
		}
	}
	want = append(want, "events: create patch")
	if !slices.Equal(have, want) {
		t.Errorf("rules\n  %s\nwant\n  %s", strings.Join(have, "\n  "), strings.Join(want, "\n  "))
	}
}

func guessed(c abi.Controller) map[abi.Kind]resource {
	resources, _ := find(context.Background(), nil, kinds(&abi.Manifest{Controllers: []abi.Controller{c}}))
	return resources
}

func TestRightsFollowFromTheManifest(t *testing.T) {
	for name, c := range map[string]struct {
		controller abi.Controller
		want       []string
	}{
		"only reads": {abi.Controller{For: widget.All(), Reads: abi.AllOf(deployment)}, []string{
			"example.com/widgets: get list watch patch ?", "example.com/widgets/status: patch ?", "apps/deployments: list watch",
		}},
		"owns": {abi.Controller{For: widget.All(), Owns: abi.AllOf(pod), Finalizer: true}, []string{
			"example.com/widgets: get list watch patch ?", "example.com/widgets/status: patch ?",
			"pods: get list watch create patch delete", "example.com/widgets/finalizers: update ? !",
		}},
		"writes without reading": {abi.Controller{For: widget.All(), Writes: []abi.Kind{configMap, ingress}}, []string{
			"example.com/widgets: get list watch patch ?", "example.com/widgets/status: patch ?",
			"configmaps: get create patch delete", "networking.k8s.io/ingresses: get create patch delete",
		}},
		"a kind twice": {abi.Controller{For: widget.All(), Reads: abi.AllOf(configMap), Writes: []abi.Kind{configMap, widget}}, []string{
			"example.com/widgets: get list watch create patch delete ?", "example.com/widgets/status: patch ?",
			"configmaps: get list watch create patch delete",
		}},
		"no subresource for the status": {abi.Controller{For: configMap.All()}, []string{"configmaps: get list watch patch"}},
	} {
		t.Run(name, func(t *testing.T) { expectRules(t, c.controller, guessed(c.controller), c.want...) })
	}
}

func TestRightsUseTheResourcesOfTheCluster(t *testing.T) {
	at := map[abi.Kind]resource{widget: served(widget, "widgetses", false), gadget: served(gadget, "gadgetry", true)}
	expectRules(t, abi.Controller{For: widget.All(), Owns: abi.AllOf(gadget)}, at,
		"example.com/widgetses: get list watch patch", "example.com/gadgetry: get list watch create patch delete",
		"example.com/widgetses/finalizers: update !")
}

func TestEachVerbHasAUse(t *testing.T) {
	c := abi.Controller{For: widget.All(), Finalizer: true}
	for _, rule := range rights(&c, guessed(c)).Rules {
		for _, verb := range rule.Verbs {
			if !slices.ContainsFunc(rule.Uses, func(use string) bool {
				named, _, _ := strings.Cut(use, ": ")
				return slices.Contains(strings.Split(named, ", "), verb)
			}) {
				t.Errorf("%s of %s has no use in %q", verb, rule.Resources[0], rule.Uses)
			}
		}
	}
	all := fmt.Sprint(rights(&c, guessed(c)))
	if !strings.Contains(all, "patch: add and remove the finalizer") {
		t.Errorf("%s", all)
	}
	c.Finalizer = false
	if all := fmt.Sprint(rights(&c, guessed(c))); strings.Contains(all, "finalizer") {
		t.Errorf("without a finalizer: %s", all)
	}
}
