package sdktest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/sdk"
)

// worldFollowing returns a world of a controller that follows what change has set, and a
// function that begins another run for the object ns/one, for its reads.
func worldFollowing(t *testing.T, change func(*abi.Controller)) (*World, *script, func() asHost) {
	t.Helper()
	return worldOf(t, newScript(), change)
}

// worldManaging is [worldFollowing] for a plugin with managed children.
func worldManaging(t *testing.T, change func(*abi.Controller)) (*World, *script, func() asHost) {
	t.Helper()
	s := newScript()
	s.managed = true
	return worldOf(t, s, change)
}

func worldOf(t *testing.T, s *script, change func(*abi.Controller)) (*World, *script, func() asHost) {
	t.Helper()
	change(&s.controller)
	w := NewWith(t, s)
	w.Create(`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"namespace":"ns","name":"one","labels":{"shard":"a"}},"spec":{"a":1},"status":{"b":2}}`)
	return w, s, func() asHost {
		w.serial++
		w.labelChildren()
		return asHost{&Run{tb: t, world: w, primary: w.mustExist("read", theOne)}}
	}
}

// reads returns a controller of all namespaces with these entries of reads.
func reads(all ...abi.Selector) func(*abi.Controller) {
	return func(c *abi.Controller) {
		c.Owns = nil
		for i, s := range all {
			f := abi.Followed{Kind: child, Selector: s}
			if i == 0 {
				c.Reads = append(c.Reads, f)
			} else { // of one kind there is one entry of reads
				c.Watches = append(c.Watches, abi.Watch{Followed: f, By: abi.WatchByLabel, Key: fmt.Sprintf("k%d", i)})
			}
		}
	}
}

func labelled(namespace, name, labels string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Child","metadata":{"name":%q,"namespace":%q,"labels":{%s}},"data":{"of":%q}}`, name, namespace, labels, name)
}

// got returns the text of an object that a get returns, or its code.
func got(host asHost, ref sdk.Ref, fields ...string) string {
	text, code := host.Get(abi.EncodeGetCall(&abi.GetCall{Ref: ref, Fields: fields}))
	if code < 0 {
		return fmt.Sprint(code)
	}
	return string(text)
}

func TestReadsOutsideOfWhatIsFollowedAreDenied(t *testing.T) {
	const notFound, denied = "-1", "-2"
	shardA := abi.Selector{LabelSelector: "shard in (a,b)"}
	named := abi.Selector{FieldSelector: "metadata.name=in"}
	inNS := abi.Selector{Namespaces: []string{"ns", "other"}}
	for name, c := range map[string]struct {
		selectors []abi.Selector
		gets      map[string]string // what is returned of an object; "" for the object
		lists     map[string]string // names, or the code, by label selector | field selector | namespace
	}{
		"everything": {
			[]abi.Selector{{}},
			map[string]string{"ns/in": "", "ns/out": "", "far/in": "", "ns/none": notFound},
			map[string]string{"||": "in in out", "shard=c||": "out", "||far": "in"},
		},
		"namespaces": {
			[]abi.Selector{inNS},
			map[string]string{"ns/in": "", "far/in": denied, "far/none": denied, "ns/none": notFound, "other/none": notFound},
			map[string]string{"||": "in out", "||far": denied, "||ns": "in out", "||other": ""},
		},
		"a label selector": {
			[]abi.Selector{shardA},
			map[string]string{"ns/in": "", "far/in": "", "ns/out": denied, "ns/none": denied},
			map[string]string{"||": denied, "shard||": denied, "shard=a||": "in in", "shard in (b)||": "", "shard=c||": denied, "shard in (a,b),!x||": "in in", "other=a||": denied},
		},
		"a field selector": {
			[]abi.Selector{named},
			map[string]string{"ns/in": "", "ns/out": denied, "ns/none": denied},
			map[string]string{"||": denied, "|metadata.name=in|": "in in", "|metadata.name==in,metadata.namespace=ns|": "in", "|metadata.name!=in|": denied, "|metadata.name=out|": denied},
		},
		"both": {
			[]abi.Selector{{Namespaces: []string{"ns"}, LabelSelector: "shard=a", FieldSelector: "metadata.name=in"}},
			map[string]string{"ns/in": "", "far/in": denied, "ns/out": denied},
			map[string]string{"shard=a||": denied, "|metadata.name=in|": denied, "shard=a|metadata.name=in|": "in", "shard=a|metadata.name=in|far": denied},
		},
		"either of two": {
			[]abi.Selector{shardA, {Namespaces: []string{"ns"}}},
			map[string]string{"ns/in": "", "far/in": "", "ns/out": "", "far/out": denied, "ns/none": notFound, "far/none": denied},
			map[string]string{"||": denied, "shard=a||": "in in", "||ns": "in out", "||far": denied},
		},
		"some of two namespaces": {
			[]abi.Selector{{Namespaces: []string{"far"}, LabelSelector: "shard"}, {Namespaces: []string{"ns"}}},
			map[string]string{"far/in": "", "ns/out": ""},
			map[string]string{"||": denied, "shard||": "in in out", "||ns": "in out", "||far": denied, "shard||far": "in"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, _, host := worldFollowing(t, reads(c.selectors...))
			w.CrossNamespace()
			w.Create(labelled("ns", "in", `"shard":"a"`))
			w.Create(labelled("far", "in", `"shard":"a"`))
			w.Create(labelled("ns", "out", `"shard":"c"`))
			for at, want := range c.gets {
				namespace, name, _ := strings.Cut(at, "/")
				if have := got(host(), child.Ref(namespace, name)); have != want && (want != "" || !strings.Contains(have, `"data":{"of":"`+name)) {
					t.Errorf("get %s: %s, want %s", at, have, want)
				}
			}
			for text, want := range c.lists {
				parts := strings.Split(text, "|")
				call := children()
				call.LabelSelector, call.FieldSelector, call.Namespace = parts[0], parts[1], parts[2]
				if have := names(t, host(), call); have != want {
					t.Errorf("list %s: %s, want %s", text, have, want)
				}
			}
		})
	}
}

func TestOfMetadataOnlyNothingElseIsRead(t *testing.T) {
	only := abi.Selector{MetadataOnly: true}
	w, _, host := worldFollowing(t, reads(only))
	w.Create(labelled("ns", "a", `"shard":"a"`))
	const metadata = `{"apiVersion":"v1","kind":"Child","metadata":{`
	if have := got(host(), child.Ref("ns", "a")); !strings.HasPrefix(have, metadata) || strings.Contains(have, "data\":{\"of") || !strings.Contains(have, "resourceVersion") {
		t.Errorf("get: %s", have)
	}
	for fields, ok := range map[string]bool{
		"metadata": true, "/metadata/labels/shard": true, "/metadata": true, "/kind": true,
		"/data": false, "spec": false, "/metadatas": false, "/metadata/name /data/of": false,
	} {
		if have := got(host(), child.Ref("ns", "a"), strings.Fields(fields)...); (have != "-2") != ok {
			t.Errorf("fields %s: %s", fields, have)
		}
	}
	text, _ := host().List(abi.EncodeListCall(children()))
	if !strings.Contains(string(text), metadata) || strings.Contains(string(text), `"of"`) {
		t.Errorf("list: %s", text)
	}

	// Whatever another entry follows may be read.
	w, _, host = worldFollowing(t, reads(only, abi.Selector{LabelSelector: "shard=a"}))
	w.Create(labelled("ns", "a", `"shard":"a"`))
	w.Create(labelled("ns", "b", `"shard":"b"`))
	if a, b := got(host(), child.Ref("ns", "a")), got(host(), child.Ref("ns", "b")); !strings.Contains(a, `"of":"a"`) || strings.Contains(b, `"of"`) || b == "-2" {
		t.Errorf("one of two entries has the whole object: %s, %s", a, b)
	}
	if a, b := got(host(), child.Ref("ns", "a"), "/data/of"), got(host(), child.Ref("ns", "b"), "/data/of"); !strings.Contains(a, `"of":"a"`) || b != "-2" {
		t.Errorf("a field: %s, %s", a, b)
	}
}

func TestPrimaryIsRunWhileItIsFollowed(t *testing.T) {
	w, s, _ := worldFollowing(t, func(c *abi.Controller) {
		c.For.Selector = abi.Selector{LabelSelector: "shard=a", MetadataOnly: true}
	})
	w.Reconcile("ns/one").ExpectNoWrites()
	if o := string(s.request.Object); strings.Contains(o, "spec") || strings.Contains(o, "status") || !strings.Contains(o, `"shard":"a"`) {
		t.Errorf("the request has %s", o)
	}
	s.result.Status = []byte(`{"x":1}`)
	w.Reconcile("ns/one").ExpectClass(abi.ClassABI).ExpectNoWrites()
	s.result.Status = nil
	s.result.Conditions = []abi.Condition{{Type: "Ready"}}
	w.Reconcile("ns/one").ExpectClass(abi.ClassABI).ExpectNoWrites()
	s.result.Conditions = nil
	s.result.Patch = []byte(`{"spec":{"a":2},"metadata":{"labels":{"shard":"b"}}}`)
	w.Settle("ns/one").ExpectWrites("finalizer", "patch")
	var after struct{ Spec, Status map[string]int }
	if w.Get(theOne, &after); after.Spec["a"] != 2 || after.Status["b"] != 2 || len(after.Status) != 1 {
		t.Errorf("the object is %+v", after)
	}
}

func TestManagedChildrenAreLabelledAndFollowedByThat(t *testing.T) {
	for name, c := range map[string]struct {
		change        func(*abi.Controller)
		list, foreign string // what a list of all returns, and a get of the unlabelled one
		adopts        bool
	}{
		"owned":               {func(*abi.Controller) {}, "early mine", "of", false},
		"and read as a whole": {func(c *abi.Controller) { c.Reads = abi.AllOf(child) }, "early foreign mine theirs", "of", true},
		"and read in part": {func(c *abi.Controller) {
			c.Reads = []abi.Followed{{Kind: child, Selector: abi.Selector{LabelSelector: "x"}}}
		}, "early mine", "of", false},
		"and read in another namespace": {func(c *abi.Controller) {
			c.Reads = []abi.Followed{{Kind: child, Selector: abi.Selector{Namespaces: []string{"far"}}}}
		}, "early mine", "of", false},
		"of which metadata is owned": {func(c *abi.Controller) { c.Owns[0].MetadataOnly = true }, "early mine", "metadata", false},
	} {
		t.Run(name, func(t *testing.T) {
			w, s, host := worldManaging(t, c.change)
			uid := get(t, w, theOne).Metadata.UID
			w.Create(fmt.Sprintf(`{"apiVersion":"v1","kind":"Child","metadata":{"name":"early","namespace":"ns","ownerReferences":[{"uid":%q,"controller":true}]}}`, uid))
			w.Create(labelled("ns", "foreign", ``))
			w.Create(labelled("ns", "theirs", `"thole.dev/managed-by":"another"`))
			s.wants(`{"apiVersion":"v1","kind":"Child","metadata":{"name":"mine","labels":{"thole.dev/managed-by":"guest","a":"b"}},"data":{"of":"x"}}`)
			w.Reconcile("ns/one").ExpectReady()
			for _, name := range []string{"mine", "early"} {
				if labels := get(t, w, child.Ref("ns", name)).Metadata.Labels; labels[abi.LabelManagedBy] != "plug" {
					t.Errorf("%s has the labels %v", name, labels)
				}
			}
			if have := names(t, host(), children()); have != c.list {
				t.Errorf("a list returns %s, want %s", have, c.list)
			}
			if have := got(host(), child.Ref("ns", "foreign")); !strings.Contains(have, `"`+c.foreign+`":`) || strings.Contains(have, `"of"`) != (c.foreign == "of") {
				t.Errorf("a get of an object without the label returns %s", have)
			}
			if have := got(host(), child.Ref("ns", "none")); have != "-1" {
				t.Errorf("a get of nothing returns %s", have)
			}

			s.wants(`{"apiVersion":"v1","kind":"Child","metadata":{"name":"foreign"},"data":{"of":"y"}}`)
			w.Reconcile("ns/one").ExpectClass(abi.ClassDenied)
			s.result.Apply[0].Adopt = true
			run := w.Reconcile("ns/one")
			if c.adopts {
				run.ExpectReady()
			} else if run.ExpectClass(abi.ClassDenied); run.Reason != "NotAdopted" || !strings.HasSuffix(run.Message, "name the kind in Reads of the controller") {
				t.Errorf("adoption: %s, %s", run.Reason, run.Message)
			}

			w.Change(child.Ref("ns", "mine"), `{"metadata":{"labels":{"thole.dev/managed-by":null}}}`)
			s.wants(`{"apiVersion":"v1","kind":"Child","metadata":{"name":"mine"},"data":{"of":"x"}}`)
			if run := w.Reconcile("ns/one").ExpectReady(); !slices.Contains(run.Writes, "apply v1 Child ns/mine") {
				t.Errorf("a label that was removed is not set again: %q", run.Writes)
			}
			w.Reconcile("ns/one").ExpectReady().ExpectNoWrites()
		})
	}
}

func TestListOfAllNamespacesHasWhatIsOwned(t *testing.T) {
	w, _, host := worldManaging(t, func(c *abi.Controller) {
		c.Reads = []abi.Followed{{Kind: child, Selector: abi.Selector{Namespaces: []string{"far"}}}}
	})
	w.CrossNamespace()
	w.Create(labelled("ns", "mine", `"thole.dev/managed-by":"plug"`))
	w.Create(labelled("far", "theirs", ``))
	for text, want := range map[string]string{"|": "-2", "|far": "theirs", "|ns": "mine", "thole.dev/managed-by=plug|": "mine"} {
		call := children()
		call.LabelSelector, call.Namespace, _ = strings.Cut(text, "|")
		if have := names(t, host(), call); have != want {
			t.Errorf("list %s: %s, want %s", text, have, want)
		}
	}
}

func TestObjectsThatAreNotOwnedAreNotLabelled(t *testing.T) {
	w, s, _ := worldManaging(t, func(*abi.Controller) {})
	s.wants(`{"apiVersion":"v1","kind":"Other","metadata":{"name":"o"}}`)
	w.Reconcile("ns/one").ExpectReady()
	if labels := get(t, w, other.Ref("ns", "o")).Metadata.Labels; labels != nil {
		t.Errorf("labels %v", labels)
	}
	w, s = scripted(t)
	s.wants(`{"apiVersion":"v1","kind":"Child","metadata":{"name":"c"}}`)
	w.Reconcile("ns/one").ExpectReady()
	if labels := get(t, w, child.Ref("ns", "c")).Metadata.Labels; labels != nil {
		t.Errorf("without managed: labels %v", labels)
	}
}

// TestChildrenAreLabelledBeforeTheFirstRunOnly: afterwards the host labels what it applies.
func TestChildrenAreLabelledBeforeTheFirstRunOnly(t *testing.T) {
	for managed, want := range map[bool]string{true: "plug", false: ""} {
		s := newScript()
		s.managed = managed
		w, _, host := worldOf(t, s, func(*abi.Controller) {})
		controlled := func(name, uid string, controller bool) {
			w.Create(fmt.Sprintf(`{"apiVersion":"v1","kind":"Child","metadata":{"name":%q,"namespace":"ns","ownerReferences":[{"uid":%q,"controller":%t}]}}`, name, uid, controller))
		}
		uid := get(t, w, theOne).Metadata.UID
		controlled("before", uid, true)
		controlled("theirs", "x", true)
		controlled("reference", uid, false)
		host()
		controlled("after", uid, true)
		host()
		for name, want := range map[string]string{"before": want, "theirs": "", "reference": "", "after": ""} {
			if have := get(t, w, child.Ref("ns", name)).Metadata.Labels[abi.LabelManagedBy]; have != want {
				t.Errorf("managed %t: %s is managed by %q, want %q", managed, name, have, want)
			}
		}
	}
}

// TestRequirementImpliesAnother compares every pair with what the two select.
func TestRequirementImpliesAnother(t *testing.T) {
	texts := []string{"", "a", "!a", "a=x", "a!=x", "a=y", "a in (x,y)", "a in (x)", "a notin (x,y)", "a notin (y)", "a=", "b=x", "a=x,b", "b,a=x"}
	worlds := []map[string]string{}
	for _, a := range []string{"-", "", "x", "y", "z"} {
		for _, b := range []string{"-", "x", "z"} {
			labels := map[string]string{"a": a, "b": b}
			for key, value := range labels {
				if value == "-" {
					delete(labels, key)
				}
			}
			worlds = append(worlds, labels)
		}
	}
	for _, narrow := range texts {
		for _, wide := range texts {
			n, _ := parseSelector(narrow)
			w, _ := parseSelector(wide)
			want := true
			for _, labels := range worlds {
				want = want && (!n.matches(labels) || w.matches(labels))
			}
			if got := n.implies(w); got != want {
				t.Errorf("%q implies %q: %t", narrow, wide, got)
			}
		}
	}
}
