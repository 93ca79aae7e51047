package inspect

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/rights"
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
	if r.Namespaces != nil {
		out += " in " + strings.Join(r.Namespaces, ",")
	}
	return out
}

func expectRules(t *testing.T, c abi.Controller, at map[abi.Kind]resource, want ...string) {
	t.Helper()
	var have []string
	for _, r := range rightsOf(&abi.Manifest{}, &c, at, nil).Rules {
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
			"configmaps: get list watch create patch delete", "networking.k8s.io/ingresses: get list watch create patch delete",
		}},
		"a kind twice": {abi.Controller{For: widget.All(), Reads: abi.AllOf(configMap), Writes: []abi.Kind{configMap, widget}}, []string{
			"example.com/widgets: get list watch create patch delete ?", "example.com/widgets/status: patch ?",
			"configmaps: get list watch create patch delete",
		}},
		"watches": {abi.Controller{For: widget.All(), Watches: []abi.Watch{{Followed: pod.All(), By: abi.WatchByOwner}}}, []string{
			"example.com/widgets: get list watch patch ?", "example.com/widgets/status: patch ?", "pods: list watch",
		}},
		"no status of metadata": {abi.Controller{For: abi.Followed{Kind: widget, Selector: abi.Selector{MetadataOnly: true}}}, []string{
			"example.com/widgets: get list watch patch ?",
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

// TestRightsAreNeededWhereTheKindIsFollowed: a rule has namespaces if each use of it has.
func TestRightsAreNeededWhereTheKindIsFollowed(t *testing.T) {
	in := func(kind abi.Kind, namespaces ...string) abi.Followed {
		return abi.Followed{Kind: kind, Selector: abi.Selector{Namespaces: namespaces}}
	}
	events := func(have []Rule) Rule { return have[len(have)-1] }
	c := abi.Controller{
		For: in(widget, "b", "a"), Owns: abi.AllOf(deployment),
		Reads: []abi.Followed{in(pod, "c"), in(configMap, "d"), in(ingress, "e")},
		Watches: []abi.Watch{
			{Followed: in(pod, "b", "c"), By: abi.WatchByOwner},
			{Followed: configMap.All(), By: abi.WatchByOwner},
			{Followed: in(configMap, "f"), By: abi.WatchByLabel, Key: "a"},
		},
		Writes: []abi.Kind{ingress},
	}
	r := rightsOf(&abi.Manifest{}, &c, guessed(c), nil)
	var have []string
	for _, rule := range r.Rules {
		have = append(have, short(rule))
	}
	want := []string{
		"example.com/widgets: get list watch patch ? in a,b", "example.com/widgets/status: patch ? in a,b",
		"apps/deployments: get list watch create patch delete", "pods: list watch in b,c", "configmaps: list watch",
		"networking.k8s.io/ingresses: get list watch create patch delete", "example.com/widgets/finalizers: update ? ! in a,b", "events: create patch in a,b",
	}
	if !slices.Equal(have, want) {
		t.Errorf("rules\n  %s\nwant\n  %s", strings.Join(have, "\n  "), strings.Join(want, "\n  "))
	}
	if rows := ruleRows([]Rule{events(r.Rules)}); rows[1][2] != "create patch in a, b" {
		t.Errorf("the row is %q", rows[1])
	}
}

func TestManagedChildrenNeedReads(t *testing.T) {
	c := abi.Controller{For: widget.All(), Owns: abi.AllOf(pod)}
	for _, want := range []bool{true, false} {
		all := fmt.Sprint(rightsOf(&abi.Manifest{Managed: want}, &c, guessed(c), nil))
		for _, use := range []string{"list, patch: label what was applied", "get: read an object that the plugin has not applied"} {
			if strings.Contains(all, use) != want {
				t.Errorf("managed: %v, %q: %s", want, use, all)
			}
		}
	}
}

func TestEachVerbHasAUse(t *testing.T) {
	c := abi.Controller{For: widget.All(), Finalizer: true}
	for _, rule := range rightsOf(&abi.Manifest{}, &c, guessed(c), nil).Rules {
		for _, verb := range rule.Verbs {
			if !slices.ContainsFunc(rule.Uses, func(use string) bool {
				named, _, _ := strings.Cut(use, ": ")
				return slices.Contains(strings.Split(named, ", "), verb)
			}) {
				t.Errorf("%s of %s has no use in %q", verb, rule.Resources[0], rule.Uses)
			}
		}
	}
	all := fmt.Sprint(rightsOf(&abi.Manifest{}, &c, guessed(c), nil))
	if !strings.Contains(all, "patch: add and remove the finalizer") {
		t.Errorf("%s", all)
	}
	c.Finalizer = false
	if all := fmt.Sprint(rightsOf(&abi.Manifest{}, &c, guessed(c), nil)); strings.Contains(all, "finalizer") {
		t.Errorf("without a finalizer: %s", all)
	}
}

func TestPolicyIsThatWithWhichThePluginStarts(t *testing.T) {
	secret, node := abi.Kind{APIVersion: "v1", Kind: "Secret"}, abi.Kind{APIVersion: "v1", Kind: "Node"}
	host := config.Config{Sections: withParcels}.WithDefaults()
	report := func(c abi.Controller) *Report {
		c.Name = "c"
		r := &Report{Name: "p", Load: Load{OK: true}}
		if err := r.addManifest(t.Context(), &abi.Manifest{Name: "p", Controllers: []abi.Controller{c}}, config.Policy{Limits: host.Limits}, Options{Host: host}); err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := report(abi.Controller{For: widget.All(), Owns: abi.AllOf(pod), Reads: abi.AllOf(configMap)}); r.Policy != nil || r.verdict() != "would be loaded" {
		t.Errorf("%+v, %s", r.Policy, r.verdict())
	}
	r := report(abi.Controller{For: widget.All(), Sections: []abi.Section{{Name: "parcels", Value: []byte(`"b"`)}}})
	if text := string(r.table()); !strings.Contains(text, "\nPolicy\n  apiVersion: thole.dev/v1alpha1\n  parcels: {to: ['*']}\n") {
		t.Errorf("got %s", text)
	}
	if _, err := r.RBAC(RBACOptions{Host: host}); err == nil || !strings.Contains(err.Error(), "{apiVersion: thole.dev/v1alpha1, parcels: {to: ['*']}}") {
		t.Errorf("the roles: %v", err)
	}
	if asJSON, err := json.Marshal(r.Policy); err != nil || string(asJSON) != `{"apiVersion":"thole.dev/v1alpha1","parcels":{"to":["*"]}}` {
		t.Errorf("%s, %v", asJSON, err)
	}
	r = report(abi.Controller{
		For: widget.All(), Reads: abi.AllOf(node, secret), Writes: []abi.Kind{configMap, pod, deployment, {APIVersion: "v1", Kind: strings.Repeat("Long", 15)}},
	})
	const want = `
Policy
  apiVersion: thole.dev/v1alpha1
  allow:
  - groups: ['']
    kinds: [ConfigMap,
      LongLongLongLongLongLongLongLongLongLongLongLongLongLongLong, Pod]
    verbs: [create, patch, delete]
  - groups: ['']
    kinds: [Node, Secret]
    verbs: [get, list, watch]
  - groups: [apps]
    kinds: [Deployment]
    verbs: [create, patch, delete]
`
	text := string(r.table())
	if !strings.Contains(text, want) || !strings.Contains(strings.Join(strings.Fields(text), " "), "and wait until its policy allows what is below") {
		t.Errorf("got %s", text)
	}
	_, pasted, _ := strings.Cut(text, "Policy\n")
	var asJSON bytes.Buffer
	if err := r.Print(&asJSON, "json"); err != nil {
		t.Fatal(err)
	}
	var inJSON struct{ Policy json.RawMessage }
	if err := json.Unmarshal(asJSON.Bytes(), &inJSON); err != nil {
		t.Fatal(err)
	}
	host.Allow.Entries = map[string]rights.Entries{config.EveryPlugin: rights.Everything()}
	for _, text := range []string{pasted, string(inJSON.Policy)} {
		if p, err := host.ReadPolicy("p", []byte(text)); err != nil || !p.Allow.Equal(r.Policy.Entries) {
			t.Errorf("%s is read as %s, %v", text, p.Allow, err)
		}
	}
}
