package sdktest

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/functionindexes"
	"github.com/thole-dev/thole/abi/webhooks"
	"github.com/thole-dev/thole/sdk"
)

// reviewing is a script that validates, mutates and converts as the test has set.
type reviewing struct {
	*script
	validate, mutate func(q *webhooks.ReviewRequest, host Host) (abi.Code, *webhooks.ReviewResult)
	convert          func(q *webhooks.ConvertRequest) (abi.Code, *webhooks.ConvertResult)
	err              error
	text             []byte // instead of each result
}

func (s *reviewing) Validate(request []byte, host Host) (abi.Code, []byte, error) {
	return s.review(s.validate, request, host)
}

func (s *reviewing) Mutate(request []byte, host Host) (abi.Code, []byte, error) {
	return s.review(s.mutate, request, host)
}

func (s *reviewing) review(f func(*webhooks.ReviewRequest, Host) (abi.Code, *webhooks.ReviewResult), request []byte, host Host) (abi.Code, []byte, error) {
	q, err := webhooks.DecodeReviewRequest(request)
	if err != nil || s.err != nil {
		return 0, nil, errors.Join(err, s.err)
	}
	if s.text != nil {
		return 0, s.text, nil
	}
	code, result := f(q, host)
	return code, webhooks.EncodeReviewResult(result), nil
}

func (s *reviewing) Convert(request []byte) (abi.Code, []byte, error) {
	q, err := webhooks.DecodeConvertRequest(request)
	if err != nil || s.err != nil {
		return 0, nil, errors.Join(err, s.err)
	}
	if s.text != nil {
		return 0, s.text, nil
	}
	code, result := s.convert(q)
	return code, webhooks.EncodeConvertResult(result), nil
}

func allows(*webhooks.ReviewRequest, Host) (abi.Code, *webhooks.ReviewResult) {
	return abi.CodeOK, &webhooks.ReviewResult{Allowed: true}
}

// replaces returns a function that replaces a text in the object.
func replaces(old, with string) func(*webhooks.ReviewRequest, Host) (abi.Code, *webhooks.ReviewResult) {
	return func(q *webhooks.ReviewRequest, _ Host) (abi.Code, *webhooks.ReviewResult) {
		return abi.CodeOK, &webhooks.ReviewResult{Allowed: true, Object: []byte(strings.Replace(string(q.Object), old, with, 1))}
	}
}

const aThing = `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"namespace":"ns","name":"new"},"spec":{"a":1}}`

// reviewWorld returns a world with one object, for a controller that reviews and converts everything,
// and allows it.
func reviewWorld(tb testing.TB) (*World, *reviewing) {
	tb.Helper()
	s := &reviewing{script: newScript(), validate: allows, mutate: allows}
	s.convert = func(q *webhooks.ConvertRequest) (abi.Code, *webhooks.ConvertResult) {
		_, version, _ := strings.Cut(q.APIVersion, "/")
		from := "v1"
		if version == "v1" {
			from = "v2"
		}
		return abi.CodeOK, &webhooks.ConvertResult{Object: []byte(strings.Replace(string(q.Object), "example.com/"+from, q.APIVersion, 1))}
	}
	all := webhooks.Webhooks{Validate: []webhooks.Operation{webhooks.OperationCreate, webhooks.OperationUpdate, webhooks.OperationDelete}, Convert: true}
	all.Mutate = all.Validate[:2]
	s.controller.Sections = []abi.Section{all.Section(), keysOf("children")}
	w := NewWith(tb, s)
	w.Create(strings.Replace(aThing, `"new"`, `"one"`, 1))
	return w, s
}

// keysOf returns the section of a controller with an index of children by a function.
func keysOf(name string) abi.Section {
	all := []functionindexes.Index{{Name: name, Kind: child}}
	return abi.Section{Name: functionindexes.Name, Value: functionindexes.Encode(all)}
}

func TestReviewHasWhatAHostSends(t *testing.T) {
	w, s := reviewWorld(t)
	var seen []*webhooks.ReviewRequest
	s.validate = func(q *webhooks.ReviewRequest, _ Host) (abi.Code, *webhooks.ReviewResult) {
		seen = append(seen, q)
		return allows(q, nil)
	}
	w.As("ann", "a", "b")
	w.DryRun(true)
	w.Configure(map[string]int{"x": 1})
	w.Advance(time.Hour)
	w.ReviewCreate(aThing).ExpectAllowed()
	w.ReviewUpdate(theOne, `{"spec":{"a":2}}`).ExpectAllowed().ExpectObject(`{"spec":{"a":2}}`)
	w.ReviewDelete(theOne).ExpectAllowed()
	if !reflect.DeepEqual(seen[0].User, webhooks.User{Name: "ann", Groups: []string{"a", "b"}}) || !seen[0].DryRun || string(seen[0].Config) != `{"x":1}` || !seen[0].Now.Equal(w.Now()) {
		t.Errorf("the request is %+v", seen[0])
	}
	for i, want := range []struct{ operation, old, object string }{
		{"CREATE", "", `"a":1`}, {"UPDATE", `"a":1`, `"a":2`}, {"DELETE", `"a":1`, ""},
	} {
		q := seen[i]
		if string(q.Operation) != want.operation || (q.Old == nil) != (want.old == "") || (q.Object == nil) != (want.object == "") ||
			!strings.Contains(string(q.Old), want.old) || !strings.Contains(string(q.Object), want.object) {
			t.Errorf("%s has %s and %s", q.Operation, q.Old, q.Object)
		}
	}
	if seen[0].Seed == seen[1].Seed {
		t.Error("two reviews have the same seed")
	}
	if w.Exists(thing.Ref("ns", "new")) || !w.Exists(theOne) {
		t.Error("a review has stored something")
	}
	if o := get(t, w, theOne); o.Metadata.Generation != 1 {
		t.Error("a review has changed something")
	}
}

func TestValidateSeesWhatMutateHasChanged(t *testing.T) {
	w, s := reviewWorld(t)
	s.mutate = replaces(`"a":1`, `"a":5`)
	s.validate = func(q *webhooks.ReviewRequest, _ Host) (abi.Code, *webhooks.ReviewResult) {
		return abi.CodeOK, &webhooks.ReviewResult{
			Message: string(q.Object), Warnings: []string{"w"}, AuditAnnotations: []webhooks.AuditAnnotation{{Name: "n", Value: "v"}},
		}
	}
	r := w.ReviewCreate(aThing).ExpectDenied("Forbidden", `"a":5`).ExpectWarnings("w")
	if r.Audit["n"] != "v" || r.Object != nil {
		t.Errorf("it has the notes %q and the object %s", r.Audit, r.Object)
	}
	s.mutate = func(*webhooks.ReviewRequest, Host) (abi.Code, *webhooks.ReviewResult) {
		return abi.CodeOK, &webhooks.ReviewResult{Reason: "Invalid", Message: "no", Warnings: []string{"m"}}
	}
	w.ReviewCreate(aThing).ExpectDenied("Invalid", "no").ExpectWarnings("m") // and validate is not asked
	s.mutate = allows
	w.ReviewCreate(strings.Replace(aThing, `"name":"new"`, `"generateName":"new-"`, 1)).ExpectDenied("", "new-")
}

func TestFailedReviewHasItsClass(t *testing.T) {
	w, s := reviewWorld(t)
	s.validate = func(*webhooks.ReviewRequest, Host) (abi.Code, *webhooks.ReviewResult) {
		return abi.CodeStalled, &webhooks.ReviewResult{Error: &abi.Failure{Reason: "Odd", Message: "no luck"}}
	}
	if r := w.ReviewCreate(aThing).ExpectFailure(abi.ClassStalled, "Odd"); r.Message != "no luck" || r.Allowed || r.Object != nil {
		t.Errorf("it is %+v", r)
	}
	s.mutate = replaces(`"new"`, `"other"`)
	w.ReviewCreate(aThing).ExpectFailure(abi.ClassABI, "InvalidResult")
	s.mutate = allows
	for _, text := range []string{`garbage`, `{"allowed":true,"object":{}}`} {
		s.text = []byte(text)
		w.ReviewDelete(theOne).ExpectFailure(abi.ClassABI, "InvalidResult")
		w.Convert(aThing, "v2").ExpectFailure(abi.ClassABI, "InvalidResult")
	}
	s.err = errors.New("trapped")
	w.ReviewCreate(aThing).ExpectFailure(abi.ClassPanic, "")
	w.Convert(aThing, "v2").ExpectFailure(abi.ClassPanic, "")
}

func TestReviewReadsInTheNamespaceOfTheObject(t *testing.T) {
	w, s := reviewWorld(t)
	w.Create(`{"apiVersion":"v1","kind":"Child","metadata":{"namespace":"ns","name":"c"}}`)
	codes := func(namespace string) (get, list, index int64) {
		s.validate = func(_ *webhooks.ReviewRequest, h Host) (abi.Code, *webhooks.ReviewResult) {
			_, get = h.Get(abi.EncodeGetCall(&abi.GetCall{Ref: child.Ref(namespace, "c")}))
			_, list = h.List(abi.EncodeListCall(&abi.ListCall{APIVersion: child.APIVersion, Kind: child.Kind, Namespace: namespace}))
			_, index = h.IndexGet(functionindexes.EncodeCall(&functionindexes.Call{Index: "children", Key: "k"}))
			h.Log(abi.LogInfo, []byte(`{"message":"read"}`))
			return abi.CodeOK, &webhooks.ReviewResult{Allowed: true}
		}
		w.ReviewCreate(aThing).ExpectAllowed().ExpectLog("read")
		return get, list, index
	}
	if get, list, index := codes(""); get <= 0 || list <= 0 || index != abi.CodeDenied {
		t.Errorf("the codes are %d, %d and %d", get, list, index)
	}
	if get, list, _ := codes("elsewhere"); get != abi.CodeDenied || list != abi.CodeDenied {
		t.Errorf("in another namespace the codes are %d and %d", get, list)
	}
}

func TestConversionIsChecked(t *testing.T) {
	w, s := reviewWorld(t)
	w.Convert(aThing, "v2").ExpectObject(`{"apiVersion":"example.com/v2","spec":{"a":1}}`)
	w.RoundTrip(aThing, "v2")
	s.convert = func(q *webhooks.ConvertRequest) (abi.Code, *webhooks.ConvertResult) {
		return abi.CodeOK, &webhooks.ConvertResult{Object: q.Object}
	}
	w.Convert(aThing, "v2").ExpectFailure(abi.ClassABI, "InvalidResult")
	s.convert = func(*webhooks.ConvertRequest) (abi.Code, *webhooks.ConvertResult) {
		return abi.CodeWaiting, &webhooks.ConvertResult{Error: &abi.Failure{Reason: "Odd"}}
	}
	w.Convert(aThing, "v2").ExpectFailure(abi.ClassWaiting, "Odd")
}

// tree has a field of every kind, and contains itself.
type tree struct {
	Text     string            `json:"text"`
	Number   int64             `json:"number"`
	Small    int8              `json:"small"`
	Natural  uint16            `json:"natural"`
	Share    float64           `json:"share"`
	Set      bool              `json:"set"`
	Pointer  *string           `json:"pointer"`
	List     []string          `json:"list"`
	Array    [2]int            `json:"array"`
	Map      map[string]int    `json:"map"`
	Any      any               `json:"any"`
	Inner    struct{ A int }   `json:"inner"`
	Time     sdk.Time          `json:"time"`
	Micro    sdk.MicroTime     `json:"micro"`
	Quantity sdk.Quantity      `json:"quantity"`
	Duration sdk.Duration      `json:"duration"`
	Port     sdk.IntOrString   `json:"port"`
	Raw      sdk.Raw           `json:"raw"`
	Trees    []tree            `json:"trees,omitempty"`
	Ignored  string            `json:"-"`
	Kinds    map[string][]tree `json:"kinds,omitempty"`
}

// TestRoundTripReportsEachField: for each field of an object there is a conversion that loses it.
func TestRoundTripReportsEachField(t *testing.T) {
	type spec struct {
		tree
		Trees, Kinds struct{} `json:"-"`
	}
	type small struct {
		Ready bool `json:"ready"`
	}
	var object []byte
	tb := &recorder{TB: t}
	w, s := reviewWorld(tb)
	there := s.convert
	s.convert = func(q *webhooks.ConvertRequest) (abi.Code, *webhooks.ConvertResult) {
		object = q.Object
		return there(q)
	}
	RoundTrip[spec, small](w, "v1", "v2")
	if tb.failures != nil {
		t.Fatalf("a conversion that loses nothing: %q", tb.failures)
	}
	paths := []string{
		"status.ready", "metadata.labels.label", "metadata.annotations.annotation", "spec.text", "spec.number", "spec.small", "spec.natural", "spec.share",
		"spec.set", "spec.pointer", "spec.list[1]", "spec.array[0]", "spec.any", "spec.inner.A", "spec.time", "spec.micro", "spec.quantity", "spec.duration",
		"spec.port", "spec.raw.raw",
	}
	for _, path := range paths {
		at := strings.FieldsFunc(path, func(r rune) bool { return strings.ContainsRune(".[]", r) })
		value := w.decoded(object)
		for _, name := range at {
			switch v := value.(type) {
			case map[string]any:
				value = v[name]
			case []any:
				value = v[name[0]-'0']
			}
		}
		if value == nil || empty(value) {
			t.Errorf("%s is not set: %s", path, object)
			continue
		}
		tb.failures = nil
		s.convert = func(q *webhooks.ConvertRequest) (abi.Code, *webhooks.ConvertResult) {
			code, result := there(q)
			if lost := strings.Replace(string(result.Object), text(value), `"lost"`, 1); strings.HasSuffix(q.APIVersion, "v2") {
				result.Object = []byte(lost)
			}
			return code, result
		}
		RoundTrip[spec, small](w, "v1", "v2")
		if len(tb.failures) != 1 || !strings.Contains(tb.failures[0], path+` has become "lost", was `+text(value)) && text(value) != "true" {
			t.Errorf("%s is lost, which is reported as %q", path, tb.failures)
		}
	}
}

func TestDifferencesHavePaths(t *testing.T) {
	w, _ := reviewWorld(t)
	for _, c := range []struct {
		before, after string
		want          string
	}{
		{`{"a":1}`, `{"a":1}`, ``},
		{`{"a":{"b":[{"c":1}]}}`, `{"a":{"b":[{"c":2}]}}`, `a.b[0].c has become 2, was 1`},
		{`{"a":{"b":1}}`, `{"a":{}}`, `a.b is lost, was 1`},
		{`{"a":{"b":1}}`, `{}`, `a is lost, was {"b":1}`},
		{`{}`, `{"a":[1]}`, `a is new: [1]`},
		{`{"a":[1,2]}`, `{"a":[1]}`, `a has 1 entries, had 2`},
		{`{"a":{"x.y/z":1}}`, `{"a":{"x.y/z":2}}`, `a["x.y/z"] has become 2, was 1`},
		{`{"a":1}`, `{"a":"1"}`, `a has become "1", was 1`},
		{`{"a":1}`, `{"a":null}`, `a has become null, was 1`},
		{`{"a":9007199254740993}`, `{"a":9007199254740992}`, `a has become 9007199254740992, was 9007199254740993`},
		{`{"a":"","b":0,"c":false,"d":null,"e":{},"f":[],"g":{"h":""}}`, `{}`, ``},
		{`{}`, `{"a":"","b":0,"c":false,"d":null,"e":{},"f":[],"g":{"h":""}}`, ``},
		{`{"a":1,"b":2}`, `{"c":3}`, "a is lost, was 1\nb is lost, was 2\nc is new: 3"},
	} {
		var d differences
		d.compare("", w.decoded([]byte(c.before)), w.decoded([]byte(c.after)))
		if got := strings.Join(d, "\n"); got != c.want {
			t.Errorf("%s and %s differ by\n%s, expected\n%s", c.before, c.after, got, c.want)
		}
	}
}

func TestFilledValuesEndAtRecursion(t *testing.T) {
	var f filler
	var v tree
	f.fill("tree", reflect.ValueOf(&v).Elem(), 0)
	depth := 0
	for at := v.Trees; len(at) > 0; at = at[0].Trees {
		depth++
	}
	if depth == 0 || depth > deepest || v.Ignored != "" {
		t.Errorf("it is %d deep, and has %q", depth, v.Ignored)
	}
}

// TestUnmetExpectationOfAReviewFailsTest calls every expectation such that it must fail.
func TestUnmetExpectationOfAReviewFailsTest(t *testing.T) {
	denies := func(s *reviewing) {
		s.validate = func(*webhooks.ReviewRequest, Host) (abi.Code, *webhooks.ReviewResult) {
			return abi.CodeOK, &webhooks.ReviewResult{Message: "no"}
		}
	}
	for name, check := range map[string]func(*World, *reviewing){
		"allowed":  func(w *World, s *reviewing) { denies(s); w.ReviewDelete(theOne).ExpectAllowed() },
		"denied":   func(w *World, _ *reviewing) { w.ReviewDelete(theOne).ExpectDenied("", "") },
		"reason":   func(w *World, s *reviewing) { denies(s); w.ReviewDelete(theOne).ExpectDenied("Invalid", "") },
		"message":  func(w *World, s *reviewing) { denies(s); w.ReviewDelete(theOne).ExpectDenied("", "yes") },
		"failed":   func(w *World, s *reviewing) { s.err = errors.New("trap"); w.ReviewDelete(theOne).ExpectDenied("", "") },
		"failure":  func(w *World, s *reviewing) { denies(s); w.ReviewDelete(theOne).ExpectFailure(abi.ClassRetry, "") },
		"warnings": func(w *World, _ *reviewing) { w.ReviewDelete(theOne).ExpectWarnings("w") },
		"object":   func(w *World, _ *reviewing) { w.ReviewCreate(aThing).ExpectObject(`{"spec":{"a":2}}`) },
		"deleted":  func(w *World, _ *reviewing) { w.ReviewDelete(theOne).ExpectObject(`{}`) },
		"log":      func(w *World, _ *reviewing) { w.ReviewDelete(theOne).ExpectLog("x") },
		"into":     func(w *World, _ *reviewing) { w.ReviewDelete(theOne).Into(new(string)) },
		"unstable": func(w *World, s *reviewing) { s.mutate = replaces(`"a":`, `"a":1`); w.ReviewCreate(aThing) },
		"mutate denies its result": func(w *World, s *reviewing) {
			change := replaces(`"a":1`, `"a":2`)
			s.mutate = func(q *webhooks.ReviewRequest, h Host) (abi.Code, *webhooks.ReviewResult) {
				if strings.Contains(string(q.Object), `"a":2`) {
					return abi.CodeOK, &webhooks.ReviewResult{}
				}
				return change(q, h)
			}
			w.ReviewCreate(aThing)
		},
		"missing object":  func(w *World, _ *reviewing) { w.ReviewDelete(thing.Ref("ns", "two")) },
		"other kind":      func(w *World, _ *reviewing) { w.ReviewCreate(strings.Replace(aThing, "Thing", "Child", 1)) },
		"no object":       func(w *World, _ *reviewing) { w.ReviewCreate(`[]`) },
		"other operation": func(w *World, _ *reviewing) { w.controller.Sections = nil; w.ReviewDelete(theOne) },
		"other runner":    func(w *World, s *reviewing) { w.runner = s.script; w.ReviewDelete(theOne) },

		"converted object":    func(w *World, _ *reviewing) { w.Convert(aThing, "v2").ExpectObject(`{"spec":{"a":2}}`) },
		"conversion":          func(w *World, s *reviewing) { s.err = errors.New("trap"); w.Convert(aThing, "v2").ExpectObject(`{}`) },
		"conversion succeeds": func(w *World, _ *reviewing) { w.Convert(aThing, "v2").ExpectFailure(abi.ClassRetry, "") },
		"no conversion":       func(w *World, s *reviewing) { w.controller.Sections = nil; w.Convert(aThing, "v2") },
		"round trip there":    func(w *World, s *reviewing) { s.err = errors.New("trap"); w.RoundTrip(aThing, "v2") },
		"round trip back": func(w *World, s *reviewing) {
			there := s.convert
			s.convert = func(q *webhooks.ConvertRequest) (abi.Code, *webhooks.ConvertResult) {
				if q.APIVersion == "example.com/v1" {
					return abi.CodeRetry, &webhooks.ConvertResult{}
				}
				return there(q)
			}
			w.RoundTrip(aThing, "v2")
		},
		"round trip without apiVersion": func(w *World, _ *reviewing) { w.RoundTrip(`{"apiVersion":1}`, "v2") },
	} {
		t.Run(name, func(t *testing.T) {
			tb := &recorder{TB: t}
			defer func() {
				if p := recover(); p != nil && p != any(tb) {
					panic(p)
				}
				if len(tb.failures) != 1 || strings.Contains(tb.failures[0], "%!") {
					t.Errorf("the failures are %q, expected one", tb.failures)
				}
			}()
			w, s := reviewWorld(tb)
			check(w, s)
		})
	}
}

func TestReviewedObjectIsRead(t *testing.T) {
	w, s := reviewWorld(t)
	s.mutate = replaces(`"a":1`, `"a":5`)
	var o struct {
		Metadata sdk.ObjectMeta `json:"metadata"`
		Spec     map[string]int `json:"spec"`
	}
	if w.ReviewCreate(aThing).ExpectAllowed().Into(&o); fmt.Sprint(o.Metadata.Name, o.Spec) != "newmap[a:5]" {
		t.Errorf("it is %+v", o)
	}
}
