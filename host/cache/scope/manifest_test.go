package scope

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/host/object"
)

var widget = abi.Kind{APIVersion: "example.dev/v1", Kind: "Widget"}

func selecting(kind abi.Kind, s abi.Selector) abi.Followed {
	return abi.Followed{Kind: kind, Selector: s}
}

func TestManifestIsWhatAPluginFollows(t *testing.T) {
	m := &abi.Manifest{Name: "p", Managed: true, Controllers: []abi.Controller{
		{
			Name: "a", For: selecting(widget, abi.Selector{LabelSelector: "shard = 1"}), Owns: []abi.Followed{pod.All()},
			Reads: []abi.Followed{selecting(widget, abi.Selector{MetadataOnly: true})}, Writes: []abi.Kind{{APIVersion: "v1", Kind: "Secret"}, pod},
		},
		{Name: "b", For: selecting(widget, abi.Selector{LabelSelector: "shard=1", Namespaces: []string{"y", "x"}}), Watches: []abi.Watch{
			{Followed: selecting(abi.Kind{APIVersion: "v1", Kind: "Node"}, abi.Selector{FieldSelector: "spec.unschedulable=false"}), By: abi.WatchByLabel, Key: "w"},
		}},
	}}
	p, err := OfManifest(m, []string{"x", "z"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range slices.Concat(p.Followed, p.Written) {
		got = append(got, s.String())
	}
	want := []string{
		"example.dev/v1 Widget (namespaces x, z)",
		"v1 Node (namespaces x, z; fieldSelector spec.unschedulable=false)",
		"v1 Pod (namespaces x, z; labelSelector thole.dev/managed-by=p)",
		"v1 Pod (namespaces x, z; metadata only)", // written: those without the label
		"v1 Secret (namespaces x, z; metadata only)",
	}
	if !slices.Equal(got, want) {
		t.Errorf("follows\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	m.Controllers[0].Reads = append(m.Controllers[0].Reads, selecting(pod, abi.Selector{MetadataOnly: true}))
	if p, err := OfManifest(m, []string{"x", "z"}); err != nil || len(p.Written) != 1 || p.Written[0].Kind.Kind != "Secret" {
		t.Errorf("of a kind that is followed as a whole written are %v, %v", p.Written, err)
	}
	a, b := p.Controllers[0], p.Controllers[1]
	if a.For.String() != "example.dev/v1 Widget (namespaces x, z; labelSelector shard=1)" || len(a.Reads[widget]) != 2 || !a.Owns[0].Managed {
		t.Errorf("a follows %v", a)
	}
	if b.For.String() != "example.dev/v1 Widget (namespaces x; labelSelector shard=1)" || len(b.Watches) != 1 {
		t.Errorf("b follows %v", b)
	}
}

func TestSelectorsThatCannotBeUsedAreRefusedByName(t *testing.T) {
	of := func(reads ...abi.Followed) *abi.Manifest {
		return &abi.Manifest{Name: "p", Controllers: []abi.Controller{{Name: "a", For: widget.All()}, {Name: "c", For: widget.All(), Reads: reads}}}
	}
	for _, test := range []struct {
		m    *abi.Manifest
		want string
	}{
		{of(selecting(pod, abi.Selector{LabelSelector: "a=b=c"})), `controller "c": v1 Pod: labelSelector "a=b=c"`},
		{of(selecting(pod, abi.Selector{FieldSelector: "spec"})), `controller "c": v1 Pod: fieldSelector "spec"`},
		{of(selecting(widget, abi.Selector{FieldSelector: "spec.a=b"})), `controller "c": example.dev/v1 Widget is followed by the fieldSelectors`},
		{of(selecting(pod, abi.Selector{Namespaces: []string{"other"}})), `controller "c": v1 Pod: the namespaces of the manifest (other) are none of those that the plugin may follow (ns)`},
	} {
		if _, err := OfManifest(test.m, []string{"ns"}); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("error %v, want %s", err, test.want)
		}
	}
	if _, err := OfManifest(of(selecting(widget, abi.Selector{FieldSelector: "metadata.name=a"})), nil); err != nil {
		t.Errorf("a selector that the host can compare: %v", err)
	}
}

func TestReadsOfManagedChildrenNeedNoSelector(t *testing.T) {
	m := &abi.Manifest{Name: "p", Managed: true, Controllers: []abi.Controller{{
		Name: "a", For: widget.All(), Owns: []abi.Followed{selecting(pod, abi.Selector{MetadataOnly: true})},
		Reads: []abi.Followed{selecting(pod, abi.Selector{LabelSelector: "app"})},
	}}}
	p, err := OfManifest(m, nil)
	if err != nil {
		t.Fatal(err)
	}
	reads := p.Controllers[0].Reads[pod]
	own := newLabelled(t, `{"thole.dev/managed-by":"p"}`)
	foreign := newLabelled(t, `{"thole.dev/managed-by":"q"}`)
	if s, err := reads.List(Read{}); err != nil || !s.Managed || s.Narrow(Read{}).Labels.String() != "thole.dev/managed-by=p" ||
		!slices.Equal(s.Narrow(Read{}).Part, []string{"metadata"}) {
		t.Errorf("%v, %v", s, err)
	}
	selector := Scope{Labels: mustParse(t, "app=x")}.Labels
	if s, err := reads.List(Read{Labels: selector}); err != nil || s.Managed {
		t.Errorf("a list that names what is read is of that: %v, %v", s, err)
	}
	if !reads.Has(own) || reads.Has(foreign) || !reads.HasManaged() || !reads.Selects() || !reads.IsMetadataOnly(own) {
		t.Errorf("%v", reads)
	}
	if _, err := reads.Get(Read{Part: []string{"spec"}}); err != nil {
		t.Errorf("the spec of what is read may be read: %v", err)
	}
	if _, err := reads[:1].Get(Read{Part: []string{"spec"}}); err == nil {
		t.Error("the spec of what is owned may not be read")
	}
}

// What the plugin reads beside it may have the same objects, or most of them.
func TestReadsThatAreLikeTheManagedChildrenChangeNothingForThem(t *testing.T) {
	const label = abi.LabelManagedBy
	for name, c := range map[string]struct{ primary, reads, owns abi.Selector }{
		"read with a wider selector":               {reads: abi.Selector{LabelSelector: label}},
		"primaries with a wider selector":          {primary: abi.Selector{LabelSelector: label}},
		"read with the same selector":              {reads: abi.Selector{LabelSelector: label + "=p"}},
		"primaries with the same selector":         {primary: abi.Selector{LabelSelector: label + "=p"}},
		"the same selector in another namespace":   {reads: abi.Selector{LabelSelector: label + "=p", Namespaces: []string{"b"}}, owns: abi.Selector{Namespaces: []string{"a"}}},
		"primaries of it in another namespace":     {primary: abi.Selector{LabelSelector: label + "=p", Namespaces: []string{"b"}}, owns: abi.Selector{Namespaces: []string{"a"}}},
		"metadata alone is read with the selector": {reads: abi.Selector{LabelSelector: label, MetadataOnly: true}},
	} {
		controller := abi.Controller{Name: "a", For: widget.All(), Owns: []abi.Followed{selecting(pod, c.owns)}}
		if c.primary.LabelSelector != "" {
			controller.For = selecting(pod, c.primary)
		} else {
			controller.Reads = []abi.Followed{selecting(pod, c.reads)}
		}
		p, err := OfManifest(&abi.Manifest{Name: "p", Managed: true, Controllers: []abi.Controller{controller}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		reads := p.Controllers[0].Reads[pod]
		if !reads.HasManaged() {
			t.Errorf("%s: a child without its label is not looked for", name)
		}
		if s, err := reads.List(Read{Namespace: "a"}); err != nil || s.Narrow(Read{}).Labels.String() != label+"=p" {
			t.Errorf("%s: a list without a selector is of %s, %v", name, s, err)
		}
	}
}

func newLabelled(t *testing.T, labels string) *object.Object {
	o, err := object.Parse([]byte(`{"metadata":{"name":"x","labels":`+labels+`}}`), pod)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestFieldsThatTheServerSelectsAreNotComparedAgain(t *testing.T) {
	s, err := Of(selecting(pod, abi.Selector{FieldSelector: "spec.nodeName=a,metadata.name=x"}))
	if err != nil {
		t.Fatal(err)
	}
	fields, err := fieldpath.ParseSelector("metadata.name=x,spec.nodeName=a,status.phase=Running")
	if err != nil {
		t.Fatal(err)
	}
	r := Read{Fields: fields}
	if err := s.CheckList(r); err != nil {
		t.Fatal(err)
	}
	if got := (Scope{Fields: s.Narrow(r).Fields}).FieldSelector(); got != "metadata.name=x,status.phase=Running" {
		t.Errorf("compared: %s", got)
	}
	if err := s.CheckList(Read{Fields: fields[:1]}); err == nil || !strings.Contains(err.Error(), "spec.nodeName=a") {
		t.Errorf("without the field: %v", err)
	}
}

func mustParse(t *testing.T, text string) labels.Selector {
	s, err := labels.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The API server gives some fields values that the objects do not show: a node that is
// not unschedulable has no such field, and metadata none of the spec.
func TestObjectsThatTheServerHasSelectedByAFieldAreInTheScope(t *testing.T) {
	node := abi.Kind{APIVersion: "v1", Kind: "Node"}
	m := &abi.Manifest{Name: "p", Controllers: []abi.Controller{{Name: "a", For: widget.All(), Reads: []abi.Followed{
		selecting(node, abi.Selector{FieldSelector: "spec.unschedulable=false,metadata.name=x"}),
	}}}}
	p, err := OfManifest(m, nil)
	if err != nil {
		t.Fatal(err)
	}
	parse := func(text string) *object.Object {
		o, err := object.Parse([]byte(text), node)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	x, y := parse(`{"metadata":{"name":"x"}}`), parse(`{"metadata":{"name":"y"}}`)
	reads := p.Controllers[0].Reads[node]
	if !reads.Has(x) || reads.IsMetadataOnly(x) {
		t.Error("the node is not in what is followed")
	}
	if reads.Has(y) {
		t.Error("a node with another name is in what is followed")
	}
	drained := parse(`{"metadata":{"name":"x"},"spec":{"unschedulable":true}}`)
	undrained := parse(`{"metadata":{"name":"x"},"spec":{"unschedulable":false}}`)
	s := reads[0]
	for name, got := range map[string]bool{
		"it is still what it was":        s.HasWritten(x, x),
		"it has the value":               s.HasWritten(undrained, nil),
		"it was not followed":            !s.HasWritten(x, nil),
		"the value has changed":          !s.HasWritten(drained, x),
		"the name is not that of others": !s.HasWritten(y, y),
	} {
		if !got {
			t.Errorf("not so: %s", name)
		}
	}
}

// Each watch takes memory and a connection's stream, also without objects.
func TestThePluginThatNeedsVeryManyWatchesIsRefused(t *testing.T) {
	plugin := func(kinds, namespaces int) *abi.Manifest {
		m := &abi.Manifest{Name: "p", Controllers: []abi.Controller{{Name: "a", For: widget.All()}}}
		var names []string
		for n := range namespaces {
			names = append(names, fmt.Sprint("ns", n))
		}
		for n := range kinds {
			m.Controllers[0].Reads = append(m.Controllers[0].Reads,
				selecting(abi.Kind{APIVersion: "v1", Kind: fmt.Sprint("K", n)}, abi.Selector{Namespaces: names}))
		}
		return m
	}
	if _, err := OfManifest(plugin(7, 64), nil); err != nil { // with the widgets 449
		t.Error(err)
	}
	if _, err := OfManifest(plugin(maxWatches-1, 0), nil); err != nil { // one more of the widgets
		t.Error(err)
	}
	_, err := OfManifest(plugin(8, 64), nil)
	if err == nil || !strings.Contains(err.Error(), "513 watches") {
		t.Errorf("error %v", err)
	}
	m := plugin(2, 0)
	m.Controllers[0].Writes = []abi.Kind{pod}
	allowed := make([]string, 129)
	for n := range allowed {
		allowed[n] = fmt.Sprint("ns", n)
	}
	if _, err := OfManifest(m, allowed); err == nil || !strings.Contains(err.Error(), "516 watches") {
		t.Errorf("namespaces of the policy: error %v", err)
	}
}

func TestListOfAllNamespacesHasWhatAnyEntryFollows(t *testing.T) {
	reads := func(all ...abi.Selector) (r Reads) {
		for _, s := range all {
			of, err := Of(selecting(pod, s))
			if err != nil {
				t.Fatal(err)
			}
			r = r.with(of)
		}
		return r
	}
	label := mustParse(t, "app=x")
	inA := abi.Selector{Namespaces: []string{"a"}, LabelSelector: "app=x"}
	inB := abi.Selector{Namespaces: []string{"b"}}
	metadata := abi.Selector{MetadataOnly: true}
	for _, test := range []struct {
		name  string
		reads Reads
		read  Read
		want  string
	}{
		{"two entries", reads(inA, inB), Read{Labels: label}, "v1 Pod (namespaces a, b)"},
		{"in the other order", reads(inB, inA), Read{Labels: label}, "v1 Pod (namespaces a, b)"},
		{"what one entry does not allow there", reads(inA, inB), Read{Namespace: "b"}, "v1 Pod (namespaces b)"},
		{"one namespace", reads(inA, inB), Read{Namespace: "a", Labels: label}, "v1 Pod (namespaces a; labelSelector app=x)"},
		{"metadata is less", reads(metadata, abi.Selector{LabelSelector: "app=x"}), Read{Labels: label}, "v1 Pod (labelSelector app=x)"},
		{"metadata is all that is followed", reads(metadata, abi.Selector{LabelSelector: "app=x"}), Read{}, "v1 Pod (metadata only)"},
		{"metadata of some", reads(inB, metadata), Read{}, "v1 Pod (metadata only)"},
	} {
		got, err := test.reads.List(test.read)
		if err != nil || got.String() != test.want {
			t.Errorf("%s: %s, want %s (%v)", test.name, got, test.want, err)
		}
	}
	if s, err := reads(inA, inB).List(Read{}); err == nil || !strings.Contains(err.Error(), "one of b only, and lack objects of v1 Pod (namespaces a; labelSelector app=x)") {
		t.Errorf("a list that would lack the objects of one entry: %s, %v", s, err)
	}
}

// A plugin that owns objects in every namespace and reads all of one must not be shown those
// of that namespace as all that there are.
func TestListOfAllNamespacesHasWhatThePluginOwns(t *testing.T) {
	m := &abi.Manifest{Name: "p", Managed: true, Controllers: []abi.Controller{{
		Name: "a", For: widget.All(), Owns: abi.AllOf(pod), Reads: []abi.Followed{selecting(pod, abi.Selector{Namespaces: []string{"x"}})},
	}}}
	p, err := OfManifest(m, nil)
	if err != nil {
		t.Fatal(err)
	}
	reads, own := p.Controllers[0].Reads[pod], mustParse(t, "thole.dev/managed-by=p,app")
	for _, test := range []struct {
		name, want string
		read       Read
	}{
		{"of the namespace that is read", "v1 Pod (namespaces x)", Read{Namespace: "x"}},
		{"of another namespace", "v1 Pod (labelSelector thole.dev/managed-by=p)", Read{Namespace: "y"}},
		{"of what is owned", "v1 Pod", Read{Labels: own}},
		{"of what is owned in a namespace", "v1 Pod (labelSelector thole.dev/managed-by=p)", Read{Namespace: "y", Labels: own}},
	} {
		if got, err := reads.List(test.read); err != nil || got.String() != test.want {
			t.Errorf("%s: %s, want %s (%v)", test.name, got, test.want, err)
		}
	}
	if s, err := reads.List(Read{}); err == nil || !strings.Contains(err.Error(), "lack objects of v1 Pod (labelSelector thole.dev/managed-by=p)") {
		t.Errorf("of everything: %s, %v", s, err)
	}
}
