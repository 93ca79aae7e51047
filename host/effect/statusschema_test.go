package effect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/object"
)

// These tests run against a real API server, which checks what is written.

const (
	typeAndStatus = `"type":{"type":"string"},"status":{"type":"string"}`
	aString       = `{"type":"string"}`
	anInteger     = `{"type":"integer"}`
)

// conditionsOf returns the schema of a list of conditions; more is of the list.
func conditionsOf(members, required, more string) string {
	return `"conditions":{"type":"array",` + more + `"items":{"type":"object","required":[` + required + `],"properties":{` + members + `}}}`
}

var allMembers = typeAndStatus + `,"reason":` + aString + `,"message":` + aString + `,"observedGeneration":` + anInteger + `,"lastTransitionTime":{"type":"string","format":"date-time"}`

// misfits are kinds with statuses that do not have what the host writes.
var misfits = []struct {
	name   string
	status string // its schema
	plan   string // see planText
	host   string // what the host writes alone; "" for nothing
	guests string // what the guest writes; "" for {"phase":"Up"}
	both   string // what is then in the status beside that
	plain  bool   // without the subresource
}{
	{
		name:   "required member of the plugin",
		status: `{"type":"object","required":["phase"],"properties":{"phase":` + aString + `,"observedGeneration":` + anInteger + `,` + conditionsOf(allMembers, `"type"`, "") + `}}`,
		plan:   "Ready Reconciling Stalled observedGeneration after status.phase",
		both:   "Ready{lastTransitionTime message observedGeneration reason} Stalled{lastTransitionTime message observedGeneration reason} observedGeneration",
	},
	{
		name:   "as HTTPRoute",
		status: `{"type":"object","required":["parents"],"properties":{"phase":` + aString + `,"parents":{"type":"array","items":{"type":"object","required":["name"],"properties":{"name":` + aString + `}}}}}`,
		plan:   "left out status.conditions status.observedGeneration",
		guests: `{"parents":[{"name":"a"}]}`,
	},
	{
		name:   "required member with a default",
		status: `{"type":"object","required":["phase","conditions"],"properties":{"phase":{"type":"string","default":"Down"},` + conditionsOf(allMembers, `"type"`, "") + `}}`,
		plan:   "Ready Reconciling Stalled left out status.observedGeneration",
		host:   "Ready{lastTransitionTime message observedGeneration reason} Stalled{lastTransitionTime message observedGeneration reason} phase",
		both:   "Ready{lastTransitionTime message observedGeneration reason} Stalled{lastTransitionTime message observedGeneration reason}",
	},
	{
		name:   "enum of types",
		status: `{"type":"object","properties":{"phase":` + aString + `,` + conditionsOf(`"type":{"type":"string","enum":["Ready"]},"status":`+aString, `"type","status"`, "") + `}}`,
		plan:   "Ready left out status.conditions[1].type status.conditions[1].type status.observedGeneration",
		host:   "Ready{}",
		both:   "Ready{}",
	},
	{
		name:   "required member of conditions that the host does not know",
		status: `{"type":"object","properties":{"phase":` + aString + `,"observedGeneration":` + anInteger + `,` + conditionsOf(allMembers+`,"severity":`+aString, `"severity"`, "") + `}}`,
		plan:   "observedGeneration left out status.conditions[0].severity status.conditions[0].severity status.conditions[0].severity",
		host:   "observedGeneration",
		both:   "observedGeneration",
	},
	{
		name:   "members of other types",
		status: `{"type":"object","properties":{"phase":` + aString + `,"observedGeneration":` + aString + `,"lastHandledReconcileAt":` + anInteger + `,` + conditionsOf(typeAndStatus+`,"observedGeneration":`+aString+`,"lastTransitionTime":`+anInteger+`,"message":{"type":"array","items":`+aString+`}`, `"type"`, "") + `}}`,
		plan:   "Ready Reconciling Stalled left out status.observedGeneration",
		host:   "Ready{} Stalled{}",
		both:   "Ready{} Stalled{}",
	},
	{
		name:   "required member of another type",
		status: `{"type":"object","required":["observedGeneration"],"properties":{"phase":` + aString + `,"observedGeneration":` + aString + `,` + conditionsOf(allMembers, `"type"`, "") + `}}`,
		plan:   "Ready Reconciling Stalled after status.observedGeneration left out status.observedGeneration",
		guests: `{"observedGeneration":"one"}`,
		both:   "Ready{lastTransitionTime message observedGeneration reason} Stalled{lastTransitionTime message observedGeneration reason}",
	},
	{
		name:   "reasons that the host does not have",
		status: `{"type":"object","properties":{"phase":` + aString + `,` + conditionsOf(typeAndStatus+`,"reason":{"type":"string","enum":["Theirs"]},"message":{"type":"string","maxLength":2}`, `"type"`, "") + `}}`,
		plan:   "Ready Reconciling Stalled left out status.observedGeneration",
		host:   "Ready{message} Stalled{message}",
		both:   "Ready{message} Stalled{message}",
	},
	{
		name:   "required reasons that the host does not have",
		status: `{"type":"object","properties":{"phase":` + aString + `,` + conditionsOf(typeAndStatus+`,"reason":{"type":"string","pattern":"^[a-z]+$"}`, `"reason"`, "") + `}}`,
		plan:   "left out status.conditions[0].reason status.conditions[0].reason status.conditions[0].reason status.observedGeneration",
	},
	{
		name:   "few conditions",
		status: `{"type":"object","properties":{"phase":` + aString + `,` + conditionsOf(typeAndStatus, `"type"`, `"maxItems":1,`) + `}}`,
		plan:   "Ready left out status.conditions status.conditions status.observedGeneration",
		host:   "Ready{}",
		both:   "Ready{}",
	},
	{
		name:   "conditions by name",
		status: `{"type":"object","properties":{"phase":` + aString + `,"observedGeneration":` + anInteger + `,"conditions":{"type":"object","additionalProperties":` + aString + `}}}`,
		plan:   "observedGeneration left out status.conditions status.conditions status.conditions",
		host:   "observedGeneration",
		both:   "observedGeneration",
	},
	{
		name:   "conditions as text",
		status: `{"type":"object","properties":{"phase":` + aString + `,"conditions":{"type":"array","items":` + aString + `}}}`,
		plan:   "left out status.conditions status.conditions status.conditions status.observedGeneration",
	},
	{
		name:   "one of two members",
		status: `{"type":"object","oneOf":[{"required":["phase"]},{"required":["other"]}],"properties":{"phase":` + aString + `,"other":` + aString + `,"observedGeneration":` + anInteger + `}}`,
		plan:   `left out status.conditions "status"`,
		both:   "observedGeneration",
	},
	{
		name:   "everything is kept",
		status: `{"type":"object","x-kubernetes-preserve-unknown-fields":true}`,
		plan:   "Ready Reconciling Stalled observedGeneration lastHandledReconcileAt",
		host:   "Ready{lastTransitionTime message observedGeneration reason} Stalled{lastTransitionTime message observedGeneration reason} observedGeneration",
		both:   "Ready{lastTransitionTime message observedGeneration reason} Stalled{lastTransitionTime message observedGeneration reason} observedGeneration",
	},
	{
		name: "nothing is kept", status: `{"type":"object"}`, plan: "left out status.conditions status.observedGeneration", guests: `{}`,
	},
	{
		name: "text", status: aString, plan: "left out status.conditions status.observedGeneration", guests: `{}`,
	},
	{
		name:   "a rule for the status",
		status: `{"type":"object","x-kubernetes-validations":[{"rule":"has(self.phase)"}],"properties":{"phase":` + aString + `,"observedGeneration":` + anInteger + `}}`,
		plan:   "observedGeneration left out status.conditions",
		both:   "observedGeneration",
	},
	{
		name:   "a rule for conditions",
		status: `{"type":"object","properties":{"phase":` + aString + `,` + strings.Replace(conditionsOf(typeAndStatus, `"type"`, `"maxItems":9,`), `"items"`, `"x-kubernetes-validations":[{"rule":"self.all(c, c.type == 'Theirs')"}],"items"`, 1) + `}}`,
		plan:   "Ready Reconciling Stalled left out status.observedGeneration",
	},
	{
		name: "without the subresource", plain: true,
		status: `{"type":"object","required":["phase"],"properties":{"phase":` + aString + `,` + conditionsOf(allMembers, `"type","observedGeneration"`, "") + `}}`,
		plan:   "",
	},
}

// planText returns a plan as text, with the paths of what is left out alone.
func planText(plan StatusPlan) string {
	parts := plan.Conditions
	if plan.ObservedGeneration {
		parts = append(parts, "observedGeneration")
	}
	if plan.HandledRequest {
		parts = append(parts, "lastHandledReconcileAt")
	}
	if len(plan.Needs) > 0 {
		parts = append(append(parts, "after"), plan.Needs...)
	}
	if len(plan.LeftOut) > 0 {
		parts = append(parts, "left out")
	}
	for _, why := range plan.LeftOut {
		path, _, _ := strings.Cut(strings.TrimPrefix(why, "the schema has no "), " ")
		parts = append(parts, path)
	}
	return strings.Join(parts, " ")
}

// statusText returns the conditions of a status with the names of their members, and the names of the other members.
func statusText(t *testing.T, o *object.Object, guests string) string {
	t.Helper()
	var parts []string
	conditions, err := readConditions(statusOf(o))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range conditions {
		parts = append(parts, c.Type+"{"+strings.Join(slices.DeleteFunc(names(t, c.raw), func(n string) bool { return n == "type" || n == "status" }), " ")+"}")
	}
	for _, name := range names(t, statusOf(o)) {
		if name != "conditions" && !strings.Contains(guests, `"`+name+`"`) {
			parts = append(parts, name)
		}
	}
	return strings.Join(parts, " ")
}

// names returns the names of the members of an object.
func names(t *testing.T, object []byte) (all []string) {
	t.Helper()
	members, err := rawjson.Members(object)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range members {
		all = append(all, m.Name)
	}
	return slices.Sorted(slices.Values(all))
}

func TestWhatHasNoPlaceInAStatusNeverFailsARun(t *testing.T) {
	w := newCluster(t)
	stored := kind("misfit.thole.dev/v100", "Misfit", "misfits", true, true)
	versions := []string{misfitVersion("v100", `{"type":"object","x-kubernetes-preserve-unknown-fields":true}`, true)}
	for i, m := range misfits { // as versions of one kind, which is served sooner than many
		versions = append(versions, misfitVersion(fmt.Sprintf("v%d", i+1), m.status, !m.plain))
	}
	before, after, _ := strings.Cut(definition(stored, ""), `"versions":[`)
	w.defineOne(stored, before+`"versions":[`+strings.Join(versions, ",")+after[strings.LastIndex(after, "]"):])
	for i, m := range misfits {
		t.Run(m.name, func(t *testing.T) {
			w.T = t
			r := kind(fmt.Sprintf("misfit.thole.dev/v%d", i+1), "Misfit", "misfits", true, !m.plain)
			known = append(known, r)
			schema := schemaOf(t, m.status)
			c := &abi.Controller{Name: "main", For: r.Kind.All()}
			plan := PlanStatus(c, r, schema)
			if got := planText(plan); got != m.plan {
				t.Errorf("the plan is\n  %s\nwant\n  %s\nbecause %q", got, m.plan, plan.LeftOut)
			}
			w.store.schemas = func(context.Context, abi.Kind, time.Duration) (*object.Schema, error) { return schema, nil }
			w.writeMisfit(c, r, m.guests, m.host, m.both)
			w.store.schemas = nil // as it is while the schema is not published
			w.writeMisfit(c, r, m.guests, "*", "*")
		})
	}
}

// misfitDefinition returns a CustomResourceDefinition with a schema of the status.
func misfitDefinition(r object.Resource, status string) string {
	return strings.Replace(definition(r, ""), `"status":{"type":"object","properties":{}}`, `"status":`+status, 1)
}

func misfitVersion(name, status string, subresource bool) string {
	sub := "{}"
	if subresource {
		sub = `{"status":{}}`
	}
	return fmt.Sprintf(`{"name":%q,"served":true,"storage":%t,"subresources":%s,"schema":{"openAPIV3Schema":{"type":"object","properties":{"status":%s}}}}`,
		name, name == "v100", sub, status)
}

// writeMisfit writes the status of a run that failed, and then of one that did not, twice each. The texts are what the host has
// written, "*" for whatever has a place.
func (w *world) writeMisfit(c *abi.Controller, r object.Resource, guests, host, both string) {
	w.Helper()
	target := Target{Controller: c, Object: w.create(r, `{"metadata":{"generateName":"m-"}}`)}
	generation := target.Object.Generation
	want := Status{ObservedGeneration: &generation, Remove: []string{"Reconciling"}}
	for _, t := range []string{"Ready", "Stalled"} {
		want.Set = append(want.Set, abi.Condition{Type: t, Status: "True", Reason: "Because", Message: "m", ObservedGeneration: generation})
	}
	for step, expected := range []string{host, both} {
		if step == 1 {
			want.Patch = []byte(cmp.Or(guests, `{"phase":"Up"}`))
		}
		w.status(&target, want)
		w.wire.take()
		if got := statusText(w.T, target.Object, string(want.Patch)); expected != "*" && got != expected {
			w.Errorf("step %d: the host has written\n  %s\nwant\n  %s\nin %s", step, got, expected, field(target.Object, "status"))
		}
		for _, name := range names(w.T, []byte(cmp.Or(string(want.Patch), "{}"))) {
			if field(target.Object, "status", name) == "" {
				w.Errorf("step %d: the guest's %s is not written: %s", step, name, target.Object.Raw)
			}
		}
		w.now = w.now.Add(time.Minute)
		if _, wrote := w.status(&target, want); wrote || len(w.wire.take()) > 0 && expected != "*" {
			w.Errorf("step %d: sent the same again", step)
		}
	}
}

// schemaOf parses the schema of a status, which must be correct.
func schemaOf(t *testing.T, status string) *object.Schema {
	t.Helper()
	schema, err := object.ParseSchema([]byte(status))
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func TestAWriteOfTheStatusFindsThatTheSchemaHasChanged(t *testing.T) {
	w := newCluster(t)
	strict := schemaOf(t, `{"type":"object","required":["note"],"properties":{"note":`+aString+`}}`)
	loose := schemaOf(t, `{"type":"object","properties":{`+conditionsSchema+`}}`)
	became := func(before, after *object.Schema) {
		asked := false
		w.store.schemas = func(_ context.Context, _ abi.Kind, maxAge time.Duration) (*object.Schema, error) {
			asked = asked || maxAge <= misfitAge
			if asked {
				return after, nil
			}
			return before, nil
		}
	}
	target := w.owner(nil, nil)
	became(strict, loose)
	w.status(&target, ready("True", 1))
	if got := field(target.Object, "status"); !strings.Contains(got, `"Ready"`) || len(w.wire.take()) != 1 {
		t.Errorf("got %s", got)
	}

	const onlyReady = `{"type":"object","properties":{"note":` + aString + `,"conditions":{"type":"array","items":{"type":"object","properties":{"type":{"type":"string","enum":["Ready"]},"status":` + aString + `}}}}}`
	picky := kind("picky.thole.dev/v1", "Picky", "pickies", true, true)
	known = append(known, picky)
	w.defineOne(picky, misfitDefinition(picky, onlyReady))
	target = Target{Controller: &abi.Controller{Name: "main", For: picky.Kind.All()}, Object: w.create(picky, `{"metadata":{"name":"p"}}`)}
	became(loose, schemaOf(t, onlyReady))
	want := ready("True", 1)
	want.Set = append(want.Set, abi.Condition{Type: "Stalled", Status: "True", Reason: "Because"})
	w.status(&target, want)
	if got := statusText(t, target.Object, ""); got != "Ready{}" {
		t.Errorf("the host has written %s", got)
	}
}

func TestAConditionThatDoesNotHoldAnyMoreIsRemovedIfTheSchemaRefusesTheNewOne(t *testing.T) {
	w := newCluster(t)
	target := w.owner(nil, nil)
	w.store.schemas = func(context.Context, abi.Kind, time.Duration) (*object.Schema, error) {
		return schemaOf(t, `{"type":"object","properties":{`+conditionsOf(typeAndStatus+`,"reason":{"type":"string","enum":["Fine"]}`, `"reason"`, "")+`}}`), nil
	}
	want := ready("True", 1)
	want.Set[0].Reason = "Fine"
	w.status(&target, want)
	if got := statusText(t, target.Object, ""); got != "Ready{reason}" {
		t.Fatalf("the host has written %s", got)
	}
	w.status(&target, ready("False", 1))
	if got := field(target.Object, "status"); got != `{"conditions":[]}` {
		t.Errorf("left is %s", got)
	}
}

// A status that the plugin has got wrong is its own mistake, which the run reports.
func TestAStatusThatIsRefusedBecauseOfTheGuestFails(t *testing.T) {
	w := newCluster(t)
	schema := schemaOf(t, `{"type":"object","properties":{`+conditionsSchema+`}}`)
	for name, known := range map[string]*object.Schema{"with the schema": schema, "without": nil} {
		w.store.schemas = func(context.Context, abi.Kind, time.Duration) (*object.Schema, error) { return known, nil }
		target := Target{Controller: controller(nil, nil), Object: w.create(widget, `{"metadata":{"generateName":"w-"}}`)}
		want := ready("True", 1)
		want.Patch = []byte(`{"count":"many"}`)
		report, failure := w.WriteStatus(t.Context(), target, want)
		if failure == nil || failure.Reason != "Invalid" || !strings.Contains(failure.Message, "status.count") || strings.Contains(failure.Message, "conditions") || len(report.Writes) > 0 {
			t.Fatalf("%s: %+v, %+v", name, report, failure)
		}
		w.status(&target, ready("False", 1)) // of the run that has failed
		if got := field(target.Object, "status"); !strings.Contains(got, `"Ready"`) {
			t.Errorf("%s: got %s", name, got)
		}
	}
}
