package sdktest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
)

// reading returns the reads of a run of a controller that has an index of Child by data.zone, and a function that begins another run. There are the children c0
// to c4; those with an odd number are in zone b.
func reading(t *testing.T) (host func() asHost) {
	t.Helper()
	s := newScript()
	s.controller.Indexes = []abi.Index{{Name: "zone", Kind: child, Field: "data.zone"}}
	w := NewWith(t, s)
	w.Create(`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"namespace":"ns","name":"one"}}`)
	for i := range 5 {
		w.Create(fmt.Sprintf(`{"apiVersion":"v1","kind":"Child","metadata":{"name":"c%d","namespace":"ns"},"data":{"zone":"%c","n":%d}}`, i, 'a'+i%2, i))
	}
	return func() asHost {
		w.serial++ // as each request does
		return asHost{&Run{tb: t, world: w, serial: w.serial, primary: w.mustExist("read", theOne)}}
	}
}

func children() *abi.ListCall { return &abi.ListCall{APIVersion: "v1", Kind: "Child"} }

// names returns the names of the objects that a list returns, and its continue or code.
func names(t *testing.T, host asHost, call *abi.ListCall) string {
	t.Helper()
	text, code := host.List(abi.EncodeListCall(call))
	if code < 0 {
		return fmt.Sprint(code)
	}
	reply, err := abi.DecodeListReply(text)
	if err != nil || code != int64(len(text)) {
		t.Fatalf("%s: %d, %v", text, code, err)
	}
	var found []string
	for _, item := range reply.Items {
		o, err := parse(item)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, o.name)
	}
	call.Continue = reply.Continue
	return strings.Join(found, " ")
}

func TestContinueIsOfOneRunAndOneList(t *testing.T) {
	host := reading(t)
	run, call := host(), children()
	call.Limit, call.Fields = 2, []string{"/data/n"}
	if got := names(t, run, call); got != "c0 c1" || call.Continue == "" {
		t.Fatalf("the first page is %s, and continues with %q", got, call.Continue)
	}
	first := *call
	for range 2 { // it is valid as often as it is used
		again := first
		if got := names(t, run, &again); got != "c2 c3" || again.Continue == "" || again.Continue == first.Continue {
			t.Errorf("the second page is %s, and continues with %q", got, again.Continue)
		}
	}
	rest := first
	if rest.Limit = 0; names(t, run, &rest) != "c2 c3 c4" || rest.Continue != "" {
		t.Errorf("what is left continues with %q", rest.Continue)
	}
	for name, change := range map[string]func(*abi.ListCall){
		"namespace":      func(c *abi.ListCall) { c.Namespace = "ns" },
		"label selector": func(c *abi.ListCall) { c.LabelSelector = "!a" },
		"field selector": func(c *abi.ListCall) { c.FieldSelector = "data.zone!=x" },
		"fields":         func(c *abi.ListCall) { c.Fields = nil },
		"kind":           func(c *abi.ListCall) { c.APIVersion, c.Kind = thing.APIVersion, thing.Kind },
		"continue":       func(c *abi.ListCall) { c.Continue += "0" },
	} {
		other := first
		change(&other)
		if got := names(t, run, &other); got != "-5" {
			t.Errorf("with another %s: %s", name, got)
		}
	}
	next, same := host(), *children()
	same.Limit, same.Fields = 2, first.Fields
	names(t, next, &same)
	if other := first; names(t, next, &other) != "-5" {
		t.Error("the continue of an earlier run is valid")
	}
}

func TestPagesFollowSelectors(t *testing.T) {
	run, call := reading(t)(), children()
	call.FieldSelector, call.Limit = "data.zone=a", 2
	if got := names(t, run, call); got != "c0 c2" || call.Continue == "" {
		t.Errorf("%s, %q", got, call.Continue)
	}
	if got := names(t, run, call); got != "c4" || call.Continue != "" {
		t.Errorf("%s, %q", got, call.Continue)
	}
	call.Limit = 3
	if got := names(t, run, call); got != "c0 c2 c4" || call.Continue != "" {
		t.Errorf("a list of exactly limit objects continues: %s, %q", got, call.Continue)
	}
}

func TestFieldsOfAGetAreRead(t *testing.T) {
	get := abi.EncodeGetCall(&abi.GetCall{Ref: child.Ref("ns", "c0"), Fields: []string{"/data/n"}})
	if reply, code := reading(t)().Get(get); code < 0 || !strings.HasSuffix(string(reply), `"data":{"n":0}}`) {
		t.Errorf("get of fields: %s, %d", reply, code)
	}
}

func TestAListOfOwnedObjectsIsAsInAHost(t *testing.T) {
	host := reading(t)
	w := host().world
	uid := w.mustExist("own", theOne).meta.UID
	for name, controller := range map[string]bool{"c1": true, "c2": false, "c3": true} {
		w.Change(child.Ref("ns", name), fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":"example.com/v1","kind":"Thing","name":"one","uid":%q,"controller":%t}]}}`, uid, controller))
	}
	w.Change(child.Ref("ns", "c4"), `{"metadata":{"ownerReferences":[{"uid":"other","controller":true}]}}`)
	owned := children()
	owned.OwnedBy = abi.OwnedBySelf
	if got := names(t, host(), owned); got != "c1 c3" {
		t.Errorf("listed: %s", got)
	}
	run := host()
	owned.Limit = 1
	if first, second := names(t, run, owned), names(t, run, owned); first != "c1" || second != "c3" || owned.Continue != "" {
		t.Errorf("pages: %s, %s", first, second)
	}
	owned.Limit, owned.FieldSelector = 0, "data.zone=a"
	if got := names(t, host(), owned); got != "" {
		t.Errorf("with a field: %s", got)
	}
	others := children()
	others.OwnedBy = "others"
	if got := names(t, host(), others); got != fmt.Sprint(abi.CodeInvalid) {
		t.Errorf("of others: %s", got)
	}
	nobody := host()
	nobody.primary = &object{id: nobody.primary.id} // as that of a scan or a review
	if got := names(t, nobody, &abi.ListCall{APIVersion: "v1", Kind: "Child", OwnedBy: abi.OwnedBySelf}); got != fmt.Sprint(abi.CodeInvalid) {
		t.Errorf("of nobody: %s", got)
	}
}
