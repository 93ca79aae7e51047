package sdk_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/internal/guest"
	"github.com/thole-dev/thole/sdk/sdktest"
)

// The run of this file's controller is set by the tests.

type lampState struct {
	Bulb string `json:"bulb,omitempty"`
}

type dimmer = sdk.Request[lampState, lampState]

var (
	dimmerKind = sdk.Kind{APIVersion: "receive.example.com/v1", Kind: "Dimmer"}
	onDimmer   func(*dimmer)
)

// dimmersByBulb keeps a Dimmer by the bulb of its spec, in lower case.
var dimmersByBulb = sdk.IndexBy("dimmers-by-bulb", dimmerKind, func(x *sdk.Indexing) error {
	var d struct {
		Spec lampState `json:"spec"`
	}
	err := x.Object(&d)
	x.Add(strings.ToLower(d.Spec.Bulb), nil)
	return err
})

func init() {
	sdk.Register(sdk.Controller[lampState, lampState]{
		Name: "dimmer", For: dimmerKind, CloudEvents: true,
		Indexes: []sdk.Index{dimmersByBulb, {Name: "bulb", Kind: dimmerKind, Field: "status.bulb"}},
		Receives: []sdk.Receive{
			{Type: "dimmer.pressed"},
			{Type: "bulb.broken", Resolve: &sdk.Resolve{Index: "bulb", From: "data.bulbs[*]"}},
			{DataSchema: "https://example.com/bulb", Resolve: &sdk.Resolve{Index: "dimmers-by-bulb", From: "subject"}},
		},
		Reconcile: func(r *dimmer) (sdk.Action, error) {
			onDimmer(r)
			return sdk.AwaitChange(), nil
		},
	})
}

// dimming returns a world with the Dimmers a/one and a/two, which have the bulbs b1 and b2.
func dimming(t *testing.T, do func(*dimmer)) *sdktest.World {
	t.Helper()
	onDimmer = do
	w := sdktest.New(t, "dimmer")
	for i, name := range []string{"one", "two"} {
		w.Create(fmt.Sprintf(`{"apiVersion":"receive.example.com/v1","kind":"Dimmer","metadata":{"namespace":"a","name":%q},`+
			`"spec":{"bulb":"B%[2]d"},"status":{"bulb":"b%[2]d"}}`, name, i+1))
	}
	return w
}

// cloudEvent returns an event with further attributes.
func cloudEvent(kind, more string) string {
	return `{"specversion":"1.0","id":"1","source":"test","type":"` + kind + `"` + more + `}`
}

func TestEventRunsTheObjectsThatItIsFor(t *testing.T) {
	for name, c := range map[string]struct {
		event string
		want  []string
	}{
		"by subject":                         {cloudEvent("dimmer.pressed", `,"subject":"a/two"`), []string{"a/two"}},
		"subject of an absent object":        {cloudEvent("dimmer.pressed", `,"subject":"a/three"`), nil},
		"subject without a namespace":        {cloudEvent("dimmer.pressed", `,"subject":"two"`), nil},
		"no subject":                         {cloudEvent("dimmer.pressed", ``), nil},
		"another type":                       {cloudEvent("dimmer.released", `,"subject":"a/two"`), nil},
		"by an index of a field":             {cloudEvent("bulb.broken", `,"data":{"bulbs":["b2"]}`), []string{"a/two"}},
		"several values, several objects":    {cloudEvent("bulb.broken", `,"data":{"bulbs":["b2","b1"]}`), []string{"a/one", "a/two"}},
		"no value":                           {cloudEvent("bulb.broken", `,"data":{"bulbs":[]},"subject":"a/one"`), nil},
		"by an index of keys and dataschema": {cloudEvent("any", `,"dataschema":"https://example.com/bulb","subject":"b1"`), []string{"a/one"}},
		"another dataschema":                 {cloudEvent("any", `,"dataschema":"https://example.com/lamp","subject":"b1"`), nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := dimming(t, func(*dimmer) {})
			if got := w.Receive(c.event); !slices.Equal(got, c.want) {
				t.Errorf("it is for %q, want %q", got, c.want)
			}
		})
	}
}

func TestRunHasTheEventsUntilOneHasEndedWell(t *testing.T) {
	var ids []string
	fail, signalled := true, false
	w := dimming(t, func(r *dimmer) {
		ids = nil
		for e := range r.Received() {
			ids = append(ids, e.ID)
		}
		signalled = slices.Contains(r.Reasons, abi.ReasonSignal)
		if fail {
			r.Apply(func() {})
		}
	})
	w.Receive(cloudEvent("dimmer.pressed", `,"subject":"a/one"`))
	w.Receive(strings.Replace(cloudEvent("dimmer.pressed", `,"subject":"a/one"`), `"id":"1"`, `"id":"2"`, 1))
	expect := func(want ...string) {
		t.Helper()
		if w.Reconcile("a/one"); !slices.Equal(ids, want) {
			t.Errorf("the run has the events %q, want %q", ids, want)
		}
	}
	expect("1", "2")
	if !signalled {
		t.Error("a signal is no reason of the run")
	}
	fail = false
	expect("1", "2")
	expect()
	w.Receive(cloudEvent("dimmer.pressed", `,"subject":"a/two"`))
	expect()
}

func TestEventIsReadFromItsSignal(t *testing.T) {
	const all = `{"data":{"a":[1,"é"]},"specversion":"1.0","type":"t\u0041","source":"s","id":"i","subject":"a/one","time":"2026-01-02T03:04:05Z",` +
		`"dataschema":"d","datacontenttype":"application/json","traceparent":"x","partition":7}`
	want := sdk.ReceivedEvent{
		ID: "i", Source: "s", Type: "tA", Subject: "a/one", Time: "2026-01-02T03:04:05Z",
		DataSchema: "d", DataContentType: "application/json", Data: []byte(`{"a":[1,"é"]}`),
	}
	binary := want
	binary.Data, binary.DataContentType = []byte{0, 255, '"'}, "image/png"
	empty := sdk.ReceivedEvent{ID: "1", Source: "test", Type: "t"}
	for name, c := range map[string]struct {
		signal string
		want   *sdk.ReceivedEvent
	}{
		"every attribute": {all, &want},
		"base64":          {strings.NewReplacer(`"data":{"a":[1,"é"]}`, `"data_base64":"AP8i"`, "application/json", "image/png").Replace(all), &binary},
		"no data":         {cloudEvent("t", ``), &empty},
		"null attributes": {cloudEvent("t", `,"subject":null,"time":null,"data_base64":null`), &empty},

		"a signal of a daemon":         {`{"count":3}`, nil},
		"a number":                     {`7`, nil},
		"a text":                       {`"specversion"`, nil},
		"null":                         {`null`, nil},
		"an array":                     {`[` + all + `]`, nil},
		"nothing":                      {``, nil},
		"another version":              {strings.Replace(all, `"1.0"`, `"0.3"`, 1), nil},
		"a version that is no text":    {strings.Replace(all, `"1.0"`, `1.0`, 1), nil},
		"no id":                        {strings.Replace(all, `"id":"i",`, ``, 1), nil},
		"an empty source":              {strings.Replace(all, `"source":"s"`, `"source":""`, 1), nil},
		"no type":                      {`{"specversion":"1.0","id":"i","source":"s"}`, nil},
		"an attribute that is no text": {cloudEvent("t", `,"subject":5`), nil},
		"base64 that is none":          {cloudEvent("t", `,"data_base64":"%%"`), nil},
		"half a text":                  {all[:len(all)-1], nil},
		"more than one text":           {all + `{}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := &sdk.Run{Signals: [][]byte{[]byte(c.signal)}}
			var got []sdk.ReceivedEvent
			for e := range r.Received() {
				got = append(got, e)
			}
			if c.want == nil && len(got) > 0 || c.want != nil && fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", []sdk.ReceivedEvent{*c.want}) {
				t.Errorf("the events are %+v", got)
			}
		})
	}
}

func TestReceivedEventsCanBeLeftEarly(t *testing.T) {
	event := []byte(cloudEvent("t", ``))
	r := &sdk.Run{Signals: [][]byte{[]byte(`1`), event, event}}
	n := 0
	for range r.Received() {
		n++
		break
	}
	if n != 1 {
		t.Errorf("%d events", n)
	}
}

func TestReadingAnEventAllocatesNoCopyOfIt(t *testing.T) {
	event := []byte(cloudEvent("t", `,"subject":"a/one","data":"`+strings.Repeat("x", 10_000)+`"`))
	r := &sdk.Run{Signals: [][]byte{event, event, event, event}}
	sum := 0
	allocations := testing.AllocsPerRun(20, func() {
		for e := range r.Received() {
			sum += len(e.Data)
		}
	})
	if allocations > 16 || sum == 0 {
		t.Errorf("%g allocations for 4 events", allocations)
	}
}

func TestNeedsReconciliationComparesGenerations(t *testing.T) {
	var needs []bool
	w := dimming(t, func(r *dimmer) { needs = append(needs, r.NeedsReconciliation()) })
	ref := dimmerKind.Ref("a", "one")
	w.Reconcile("a/one") // a new object
	w.Reconcile("a/one") // its generation is observed
	w.Change(ref, `{"metadata":{"labels":{"a":"b"}},"status":{"bulb":"b9"}}`)
	w.Reconcile("a/one") // a change of the label and the status
	w.Change(ref, `{"spec":{"bulb":"b3"}}`)
	w.Reconcile("a/one") // a change of the spec
	w.Reconcile("a/one")
	w.Change(ref, `{"status":{"observedGeneration":null}}`)
	w.Reconcile("a/one") // somebody has removed it
	if want := []bool{true, false, false, true, false, true}; !slices.Equal(needs, want) {
		t.Errorf("the runs need reconciliation: %v, want %v", needs, want)
	}
}

func TestControllerWithoutEventsHasNone(t *testing.T) {
	for _, c := range guest.Manifest().Controllers {
		if named := c.Name == "dimmer"; (c.Section("cloudEvents") != nil) != named || (c.Section("receives") != nil) != named {
			t.Errorf("controller %s: cloudEvents %t, receives %s", c.Name, c.Section("cloudEvents") != nil, c.Section("receives"))
		}
	}
}
