package effect

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// keepMetadata lets the store keep only the metadata of these kinds.
func (s *store) keepMetadata(kinds ...object.Resource) {
	s.metadata = map[abi.Kind]bool{}
	for _, r := range kinds {
		s.metadata[r.Kind] = true
	}
}

var allResources = list(pod, configMap, secret, service, deployment, widget)

// As long as nobody changes what was applied, no request is sent: neither after a
// restart nor after others have changed other fields and the status.
func TestUnchangedObjectsOfWhichOnlyMetadataIsKeptCostNoRequest(t *testing.T) {
	for _, owned := range []bool{true, false} {
		for _, restart := range []bool{true, false} {
			t.Run(fmt.Sprintf("owned %v, restart %v", owned, restart), func(t *testing.T) {
				w := newCluster(t)
				w.store.keepMetadata(allResources...)
				target := w.owner(allResources, nil)
				if !owned {
					target.Controller = controller(nil, allResources)
				}
				w.intents(target, allKinds)
				if restart {
					w.start()
				}
				seeAll(w)
				w.FindShared(target.Controller)
				run := func() {
					t.Helper()
					seeAll(w)
					w.wire.take()
					w.intents(target, allKinds)
					w.expectSent()
				}
				run()
				w.edit(pod, "web", "status", `{"status":{"phase":"Running"}}`)
				w.edit(deployment, "d", "status", `{"status":{"replicas":1,"observedGeneration":1}}`)
				w.edit(widget, "part", "status", `{"status":{"note":"theirs"}}`)
				run()
				w.edit(configMap, "c", "", `{"data":{"theirs":"1"},"metadata":{"labels":{"theirs":"1"}}}`)
				w.edit(deployment, "d", "", `{"spec":{"paused":true}}`)
				w.edit(service, "svc", "", `{"metadata":{"annotations":{"theirs":"1"}}}`)
				run()
				run()
			})
		}
	}
}

func TestDriftOfObjectsOfWhichOnlyMetadataIsKeptIsRepaired(t *testing.T) {
	for name, c := range map[string]struct {
		resource object.Resource
		name     string
		edit     string
	}{
		"a value":                           {configMap, "c", `{"data":{"k":"theirs"}}`},
		"a removed value":                   {configMap, "c", `{"data":null}`},
		"a value of a Secret":               {secret, "s", `{"data":{"k":"dGhlaXJz"}}`},
		"a label":                           {pod, "web", `{"metadata":{"labels":{"app":"theirs"}}}`},
		"an element of an associative list": {deployment, "d", `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"theirs"}]}}}}`},
		"an addition to an atomic map":      {service, "svc", `{"spec":{"selector":{"theirs":"1"}}}`},
		"an addition to an atomic list":     {widget, "part", `{"spec":{"parts":[{"a":"1","b":"theirs"}]}}`},
		"a removed field":                   {widget, "part", `{"spec":{"size":null}}`},
		"the annotation":                    {configMap, "c", `{"metadata":{"annotations":null}}`},
		"managedFields":                     {configMap, "c", `{"metadata":{"managedFields":[{}]},"data":{"k":"theirs"}}`},
	} {
		for _, owned := range []bool{true, false} {
			for _, restart := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s, owned %v, restart %v", name, owned, restart), func(t *testing.T) {
					w := newCluster(t)
					w.store.keepMetadata(allResources...)
					target := w.owner(allResources, nil)
					if !owned {
						target.Controller = controller(nil, allResources)
					}
					w.intents(target, allKinds)
					seeAll(w)
					w.intents(target, allKinds) // at the version that the store has
					before := w.live(c.resource, c.name)
					w.edit(c.resource, c.name, "", c.edit)
					seeAll(w)
					if restart {
						w.start()
					}
					conflict := !owned
					_, failure := w.PerformIntents(t.Context(), target, allKinds)
					switch {
					case failure != nil && conflict && failure.Reason == reasonFieldConflict: // noticed, and not taken by force
						return
					case failure != nil:
						t.Fatalf("%+v", failure)
					}
					got := w.live(c.resource, c.name)
					if field(got, "spec") != field(before, "spec") || field(got, "data") != field(before, "data") || fmt.Sprint(got.Labels) != fmt.Sprint(before.Labels) {
						t.Errorf("got %s, before %s", got.Raw, before.Raw)
					}
					seeAll(w)
					w.FindShared(target.Controller)
					w.wire.take()
					w.intents(target, allKinds)
					w.expectSent()
				})
			}
		}
	}
}

// What an intent had in stringData, and has no more, goes from the object, with what others have put
// there. What it has is not written twice.
func TestStringDataFollowsTheIntent(t *testing.T) {
	secretWith := func(fields string) *abi.Result {
		return apply(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},%s}`, fields)
	}
	for _, metadataOnly := range []bool{true, false} {
		t.Run(fmt.Sprintf("metadata only %v", metadataOnly), func(t *testing.T) {
			w := newCluster(t)
			target := w.owner(list(secret), nil)
			if metadataOnly {
				w.store.keepMetadata(secret)
			}
			for _, c := range []struct{ fields, want string }{
				{`"stringData":{"old":"1","kept":"k"}`, `{"kept":"aw==","old":"MQ=="}`},
				{`"stringData":{"new":"1","kept":"k"}`, `{"kept":"aw==","new":"MQ=="}`},
				{`"stringData":{"new":"é\n"},"data":{"kept":"aw==","new":"AA=="}`, `{"kept":"aw==","new":"w6kK"}`},
				{`"stringData":{"none":null},"data":null`, ``},
				{`"data":{"a":"YQ=="},"stringData":null`, `{"a":"YQ=="}`},
				{`"type":"Opaque"`, ``},
			} {
				w.intents(target, secretWith(c.fields))
				if got := field(w.seen(secret, "s"), "data"); got != c.want && !(c.want == "" && got == "{}") {
					t.Errorf("%s: the Secret has %s, want %s", c.fields, got, c.want)
				}
				for range 2 {
					w.wire.take()
					w.intents(target, secretWith(c.fields))
					if sent := w.wire.take(); slices.ContainsFunc(sent, func(r request) bool { return r.method != http.MethodGet }) {
						t.Errorf("%s is written again: %v", c.fields, sent)
					}
					w.start() // without what is remembered
				}
			}
		})
	}
	w := newCluster(t)
	target := w.owner(list(secret), nil)
	for fields, want := range map[string]string{
		`"stringData":{"k":1}`:                    "stringData.k: expected a string",
		`"stringData":["k"]`:                      "stringData: expected an object",
		`"stringData":{"k":"1"},"data":"garbage"`: "data: expected an object",
	} {
		_, failure := w.PerformIntents(t.Context(), target, secretWith(fields))
		if failure == nil || failure.Class != abi.ClassABI || !strings.Contains(failure.Message, want) {
			t.Errorf("%s: %+v, want %q", fields, failure, want)
		}
	}
}

func TestDriftOfStringDataIsRepaired(t *testing.T) {
	in := apply(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"stringData":{"k":"v"}}`)
	for _, metadataOnly := range []bool{true, false} {
		for _, restart := range []bool{true, false} {
			t.Run(fmt.Sprintf("metadata only %v, restart %v", metadataOnly, restart), func(t *testing.T) {
				w := newCluster(t)
				target := w.owner(list(secret), nil)
				if metadataOnly {
					w.store.keepMetadata(secret)
				}
				w.intents(target, in)
				for range 2 {
					w.edit(secret, "s", "", `{"data":{"k":"dGhlaXJz"}}`)
					w.seen(secret, "s")
					if restart {
						w.start()
					}
					w.intents(target, in)
					if got := w.seen(secret, "s"); field(got, "data", "k") != `"dg=="` {
						t.Errorf("got %s", got.Raw)
					}
					w.wire.take()
					w.intents(target, in)
					w.expectSent()
				}
			})
		}
	}
}

// managedFields are kept up to a bound. Without them the server is asked, once for
// each change of the object.
func TestMetadataWithoutManagedFieldsIsReadOnceAVersion(t *testing.T) {
	w := newCluster(t)
	w.store.keepMetadata(configMap)
	target := w.owner(list(configMap), nil)
	w.intents(target, apply(configObject, "v"))
	for _, c := range []struct{ edit, want string }{
		{`{"metadata":{"labels":{"a":"1"}}}`, "GET"},
		{`{"metadata":{"labels":{"a":"2"}}}`, "GET"},
		{`{"data":{"k":"theirs"}}`, "GET PATCH"},
	} {
		w.edit(configMap, "c", "", c.edit)
		w.store.put(parse(t, string(w.live(configMap, "c").Raw))) // which has none
		w.wire.take()
		for _, want := range []string{c.want, ""} {
			w.intents(target, apply(configObject, "v"))
			if got := w.wire.methods(); got != want {
				t.Errorf("%s: sent %q, want %q", c.edit, got, want)
			}
			if want == "GET PATCH" {
				break
			}
		}
	}
}

// primaryMetadata returns a target of which only metadata is known, as it is now.
func (w *world) primaryMetadata(t Target) Target {
	w.Helper()
	return Target{Controller: t.Controller, Object: w.live(resourceOf(t.Object.Kind), t.Object.Name).Metadata()}
}

func TestPatchOfAPrimaryOfWhichOnlyMetadataIsKept(t *testing.T) {
	for name, c := range map[string]struct {
		resource object.Resource
		object   string
		patch    string
		theirs   string // undoes the patch
	}{
		"spec":                   {widget, `{"metadata":{"name":"p"},"spec":{"size":1}}`, `{"spec":{"size":2}}`, `{"spec":{"size":1}}`},
		"a removed field":        {widget, `{"metadata":{"name":"p"},"spec":{"size":1}}`, `{"spec":{"size":null}}`, `{"spec":{"size":1}}`},
		"the spec as a whole":    {widget, `{"metadata":{"name":"p"},"spec":{"size":1}}`, `{"spec":null}`, `{"spec":{"size":1}}`},
		"metadata":               {widget, `{"metadata":{"name":"p"}}`, `{"metadata":{"labels":{"a":"b"}}}`, `{"metadata":{"labels":{"a":"c"}}}`},
		"both":                   {widget, `{"metadata":{"name":"p"}}`, `{"metadata":{"labels":{"a":"b"}},"spec":{"size":2}}`, `{"spec":{"size":1}}`},
		"without a generation":   {configMap, `{"metadata":{"name":"p"},"data":{"k":"old"}}`, `{"data":{"k":"new"}}`, `{"data":{"k":"old"}}`},
		"removed, no generation": {configMap, `{"metadata":{"name":"p"},"data":{"k":"old"}}`, `{"data":null}`, `{"data":{"k":"old"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCluster(t)
			target := Target{Controller: &abi.Controller{Name: "main", For: c.resource.Kind.All()}, Object: w.create(c.resource, c.object)}
			run := func() (Report, string) {
				t.Helper()
				w.wire.take()
				report := w.intents(w.primaryMetadata(target), &abi.Result{Patch: []byte(c.patch)})
				return report, w.wire.methods()
			}
			report, sent := run()
			if sent != "PATCH" || len(report.Writes) != 1 || !report.Primary.MetadataOnly {
				t.Errorf("sent %s, reported %+v", sent, report)
			}
			want := w.live(c.resource, "p")
			if c.resource.Status {
				w.edit(c.resource, "p", "status", `{"status":{"note":"theirs"}}`)
			}
			if _, sent := run(); sent != "" {
				t.Errorf("the same patch sent %s", sent)
			}
			w.edit(c.resource, "p", "", c.theirs)
			if _, sent := run(); sent != "PATCH" {
				t.Errorf("after a change sent %q", sent)
			}
			got := w.live(c.resource, "p")
			if field(got, "spec") != field(want, "spec") || field(got, "data") != field(want, "data") || fmt.Sprint(got.Labels) != fmt.Sprint(want.Labels) {
				t.Errorf("got %s", got.Raw)
			}
			w.start() // without the record
			if _, sent := run(); (sent == "") != (name == "metadata") {
				t.Errorf("after a restart sent %q", sent)
			}
		})
	}
}

func TestAPrimaryOfWhichOnlyMetadataIsKeptHasNoStatusWritten(t *testing.T) {
	w := newCluster(t)
	target := w.primaryMetadata(w.owner(nil, nil))
	generation := target.Object.Generation
	report, failure := w.WriteStatus(t.Context(), target, Status{
		Patch: []byte(`{"note":"x"}`), Set: []abi.Condition{{Type: "Ready", Status: "True"}}, ObservedGeneration: &generation,
	})
	if failure != nil || len(report.Writes) != 0 {
		t.Errorf("got %+v, %+v", report, failure)
	}
	w.expectSent()
	report, failure = w.EnsureFinalizer(t.Context(), target)
	if failure != nil || report.Primary == nil || !report.Primary.MetadataOnly {
		t.Fatalf("got %+v, %+v", report, failure)
	}
	target.Object = report.Primary
	if _, failure = w.RemoveFinalizer(t.Context(), target); failure != nil || len(w.live(widget, "w").Finalizers) != 0 {
		t.Errorf("got %+v", failure)
	}
}

func TestADryRunShowsWhatIsKnownOfAnObject(t *testing.T) {
	w := newCluster(t)
	w.store.keepMetadata(configMap)
	target := w.owner(list(configMap), nil)
	w.intents(target, apply(configObject, "v"))
	w.seen(configMap, "c")
	w.start(func(c *Config) { c.DryRun = true })
	w.intents(target, apply(configObject, "v2"))
	if line := w.logs.Next(t); line.Message != "dry run: would change" || !strings.Contains(fmt.Sprint(line), AppliedAnnotation) || strings.Contains(fmt.Sprint(line), `"data"`) {
		t.Errorf("logged %v", line)
	}
	w.edit(configMap, "c", "", `{"data":{"k":"theirs"}}`)
	w.seen(configMap, "c")
	w.intents(target, apply(configObject, "v"))
	if line := w.logs.Next(t); line.Message != "dry run: may change" {
		t.Errorf("logged %v", line)
	}
}

func resourceOf(kind abi.Kind) object.Resource {
	r, _ := new(store).Resource(context.Background(), kind)
	return r
}
