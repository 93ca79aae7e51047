package scope

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"pgregory.net/rapid"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/host/object"
)

var pod = abi.Kind{APIVersion: "v1", Kind: "Pod"}

var (
	keys       = []string{"a", "b"}
	values     = []string{"", "1", "2"}
	names      = []string{"x", "y"}
	namespaces = []string{"n", "m", "o"}
)

// objects are those with every namespace, name and set of labels.
var objects = func() (all []*object.Object) {
	for _, namespace := range namespaces {
		for _, name := range names {
			for _, a := range append(values, "none") {
				for _, b := range append(values, "none") {
					all = append(all, newObject(namespace, name, labels.Set{"a": a, "b": b}))
				}
			}
		}
	}
	return all
}()

func newObject(namespace, name string, set labels.Set) *object.Object {
	text := ""
	for _, key := range keys {
		if set[key] != "none" {
			text += fmt.Sprintf(",%q:%q", key, set[key])
		}
	}
	o, err := object.Parse(fmt.Appendf(nil, `{"metadata":{"namespace":%q,"name":%q,"labels":{"z":""%s}}}`, namespace, name, text), pod)
	if err != nil {
		panic(err)
	}
	return o
}

var drawRequirement = rapid.Custom(func(t *rapid.T) labels.Requirement {
	operator := rapid.SampledFrom([]selection.Operator{
		selection.Exists, selection.DoesNotExist, selection.Equals, selection.DoubleEquals, selection.NotEquals,
		selection.In, selection.NotIn, selection.GreaterThan, selection.LessThan,
	}).Draw(t, "operator")
	var operands []string
	switch operator {
	case selection.Exists, selection.DoesNotExist:
	case selection.In, selection.NotIn:
		operands = rapid.SliceOfNDistinct(rapid.SampledFrom(values), 1, 3, rapid.ID).Draw(t, "values")
	case selection.GreaterThan, selection.LessThan:
		operands = []string{"1"}
	default:
		operands = []string{rapid.SampledFrom(values).Draw(t, "value")}
	}
	r, err := labels.NewRequirement(rapid.SampledFrom(keys).Draw(t, "key"), operator, operands)
	if err != nil {
		t.Fatal(err)
	}
	return *r
})

var drawLabels = rapid.Custom(func(t *rapid.T) labels.Selector {
	all := rapid.SliceOfN(drawRequirement, 0, 3).Draw(t, "requirements")
	if len(all) == 0 {
		return nil
	}
	return labels.NewSelector().Add(all...)
})

var drawFields = rapid.Custom(func(t *rapid.T) fieldpath.Selector {
	text := rapid.SampledFrom([]string{"", "metadata.name=x", "metadata.name!=x", "metadata.namespace=n", "metadata.name=x,metadata.namespace!=m"}).Draw(t, "fields")
	s, err := fieldpath.ParseSelector(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
})

var drawScope = rapid.Custom(func(t *rapid.T) Scope {
	s := Scope{Kind: pod, Labels: drawLabels.Draw(t, "labels"), Fields: drawFields.Draw(t, "fields"), MetadataOnly: rapid.Bool().Draw(t, "metadata")}
	if some := rapid.SliceOfNDistinct(rapid.SampledFrom(namespaces), 0, 3, rapid.ID).Draw(t, "namespaces"); len(some) > 0 {
		s.Namespaces = slices.Sorted(slices.Values(some))
	}
	return s
})

func TestSelectorThatIsImpliedSelectsAllTheSame(t *testing.T) {
	implied := 0
	rapid.Check(t, func(t *rapid.T) {
		narrow, wide := drawLabels.Draw(t, "narrow"), drawLabels.Draw(t, "wide")
		if !implies(narrow, wide) {
			return
		}
		implied++
		for _, o := range objects {
			if (Scope{Labels: narrow}).Has(o) && !(Scope{Labels: wide}).Has(o) {
				t.Fatalf("%v is selected by %v and not by %v, which it implies", o.Labels, narrow, wide)
			}
		}
	})
	if implied == 0 {
		t.Error("no selector implied another one")
	}
}

func TestImpliesKnowsTheUsualCases(t *testing.T) {
	for narrow, wide := range map[string]string{
		"a=1": "a", "a in (1,2)": "a", "a=2,b=1": "b=1", "a==1": "a=1", "a=1,b": "a in (1,2)",
		"a in (1)": "a!=2", "!a": "a!=1", "a notin (1,2)": "a!=1", "a>1": "a", "b,a=1": "a=1,b",
	} {
		n, _ := labels.Parse(narrow)
		w, _ := labels.Parse(wide)
		if !implies(n, w) {
			t.Errorf("%q implies %q", narrow, wide)
		}
		if implies(w, n) && narrow != "a==1" && narrow != "b,a=1" {
			t.Errorf("%q does not imply %q", wide, narrow)
		}
	}
}

func TestCoveredScopeIsFoundInTheWiderOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawScope.Draw(t, "a"), drawScope.Draw(t, "b")
		both := Join(a, b)
		if !both.Covers(a) || !both.Covers(b) || !a.Covers(a) {
			t.Fatalf("%s joined with %s is %s", a, b, both)
		}
		for _, pair := range [][2]Scope{{both, a}, {both, b}, {a, b}, {a, a}} {
			wide, narrow := pair[0], pair[1]
			if !wide.Covers(narrow) {
				continue
			}
			rest := narrow.Without(wide)
			if rest.MetadataOnly != (narrow.MetadataOnly && !wide.MetadataOnly) {
				t.Fatalf("the rest of %s in %s is %s", narrow, wide, rest)
			}
			for _, o := range objects {
				if narrow.Has(o) != (wide.Has(o) && rest.Has(o)) {
					t.Fatalf("%s %v: in %s %v, in %s %v, in the rest %v", o.Key(), o.Labels, narrow, narrow.Has(o), wide, wide.Has(o), rest.Has(o))
				}
			}
		}
	})
}

// The objects that a list finds are all in the scope, and those of the scope that it asks for
// are all found.
func TestListThatIsAllowedAsksForNoMoreThanIsFollowed(t *testing.T) {
	allowed := 0
	rapid.Check(t, func(t *rapid.T) {
		var all Reads
		for range rapid.IntRange(1, 3).Draw(t, "scopes") {
			all = all.with(drawScope.Draw(t, "scope"))
		}
		r := Read{Labels: drawLabels.Draw(t, "labels"), Fields: drawFields.Draw(t, "fields"), Namespace: rapid.SampledFrom(append(namespaces, "")).Draw(t, "namespace")}
		s, err := all.List(r)
		if err != nil {
			return
		}
		allowed++
		asked := Scope{Labels: r.Labels, Fields: r.Fields}
		if asked.Namespaces = s.Namespaces; r.Namespace != "" {
			asked.Namespaces = []string{r.Namespace}
		}
		narrowed := s.Narrow(r)
		for _, o := range objects {
			if (Scope{Labels: r.Labels, Fields: r.Fields}).Has(o) && all.Has(o) && !asked.Has(o) && (r.Namespace == "" || r.Namespace == o.Namespace) {
				t.Fatalf("%s %v is in %s, and is not in the list of %+v", o.Key(), o.Labels, all, r)
			}
			if asked.Has(o) && !all.Has(o) {
				t.Fatalf("%s %v is asked for by %+v and not in %s", o.Key(), o.Labels, r, all)
			}
			if !s.MetadataOnly && asked.Has(o) && all.IsMetadataOnly(o) {
				t.Fatalf("of %s %v only metadata may be read", o.Key(), o.Labels)
			}
			if asked.Has(o) != (Scope{Namespaces: asked.Namespaces, Labels: narrowed.Labels, Fields: narrowed.Fields}).Has(o) {
				t.Fatalf("%s %v: the list of %+v is answered otherwise by %+v", o.Key(), o.Labels, r, narrowed)
			}
		}
	})
	if allowed == 0 {
		t.Error("no list was allowed")
	}
}

// What an informer shows is not compared again, which would read packed objects.
func TestNothingIsLeftOfAScopeThatTheInformerHas(t *testing.T) {
	s := Scope{Kind: pod, Namespaces: []string{"a"}, Labels: mustParse(t, "app=x"), Fields: fieldpath.Selector{{Value: "y"}}, MetadataOnly: true}
	if rest := s.Without(s); rest.Namespaces != nil || rest.Selects() || rest.MetadataOnly {
		t.Errorf("%s is left", rest)
	}
	wider := Scope{Kind: pod, Labels: mustParse(t, "app")}
	if rest := s.Without(wider); rest.String() != s.String() {
		t.Errorf("%s is left of %s", rest, s)
	}
}
