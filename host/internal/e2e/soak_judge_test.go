package e2e

import (
	"strings"
	"testing"
)

// TestTheWitnessSeesMixedGenerations: what it must say of histories of one
// object.
func TestTheWitnessSeesMixedGenerations(t *testing.T) {
	one, two := stamp{"version-000001", "", "a"}, stamp{"version-000002", "", "a"}
	changed, noted := stamp{"version-000001", "", "b"}, stamp{"version-000001", "n", "a"}
	for name, c := range map[string]struct {
		children, statuses []seen
		wrong              string // "" if nothing is
	}{
		"two versions, one after the other":        {[]seen{{1, one}, {3, two}}, []seen{{2, one}, {4, two}}, ""},
		"a status before its child":                {[]seen{{1, one}, {4, two}}, []seen{{2, one}, {3, two}}, "status at 3 is of version-000002"},
		"a child of the version before":            {[]seen{{1, one}}, []seen{{2, two}}, "status at 2 is of version-000002"},
		"a child of another text":                  {[]seen{{1, one}}, []seen{{2, changed}}, `the child at 1 of version-000001 "" "a"`},
		"a child of another policy":                {[]seen{{1, one}}, []seen{{2, noted}}, "status at 2"},
		"a child that was deleted":                 {[]seen{{1, one}, {2, stamp{}}}, []seen{{3, two}}, ""},
		"a child not seen yet":                     {[]seen{{9, two}}, []seen{{3, one}}, ""},
		"an old version after a new one":           {[]seen{{1, two}, {3, one}}, []seen{{2, two}, {4, one}}, "status at 4 is of version-000001"},
		"an old child after a new one":             {[]seen{{1, two}, {2, one}, {3, two}}, []seen{{4, two}}, "child at 2 is of version-000001"},
		"a child that nobody told in a status yet": {[]seen{{1, one}, {3, two}}, []seen{{2, one}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := soakObject{children: c.children, statuses: c.statuses}
			wrong := strings.Join(o.judge("object"), "\n")
			if (wrong == "") != (c.wrong == "") || !strings.Contains(wrong, c.wrong) {
				t.Errorf("it says %q, want %q", wrong, c.wrong)
			}
		})
	}
}

// TestTheWitnessSeesWhoIsBehind: which objects of a plugin it must name.
func TestTheWitnessSeesWhoIsBehind(t *testing.T) {
	good := stamp{"version-000002", "n", "text"}
	for name, c := range map[string]struct {
		object soakObject
		late   bool
	}{
		"as it should be":   {soakObject{spec: "text", wanted: "text", ready: true, status: good, child: good}, false},
		"of another plugin": {soakObject{plugin: 1}, false},
		"not Ready":         {soakObject{spec: "text", wanted: "text", status: good, child: good}, true},
		"without a child":   {soakObject{spec: "text", wanted: "text", ready: true, status: good}, true},
		"a change not seen": {soakObject{spec: "text", wanted: "next", ready: true, status: good, child: good}, true},
		"another policy":    {soakObject{spec: "text", wanted: "text", ready: true, status: stamp{good.version, "", good.text}, child: good}, true},
		"an old version":    {soakObject{spec: "text", wanted: "text", ready: true, status: stamp{"version-000001", "n", "text"}, child: good}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := soakWitness{objects: map[string]*soakObject{"object": &c.object}}
			if late, _, _ := w.behind(0, map[string]bool{good.version: true}, map[string]bool{good.note: true}); len(late) > 0 != c.late {
				t.Errorf("late are %v", late)
			}
		})
	}
}
