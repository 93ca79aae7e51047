package e2e

import (
	"strings"
	"testing"
)

func TestRecorderFindsMixedVersionsInTheHistoryOfAnObject(t *testing.T) {
	t.Parallel()
	one, two := stamp{"version-000001", "", "a"}, stamp{"version-000002", "", "a"}
	changed, noted := stamp{"version-000001", "", "b"}, stamp{"version-000001", "n", "a"}
	type history = []recordedStamp
	for name, c := range map[string]struct {
		children, statuses history
		problem            string // "" for none
	}{
		"two versions in order":           {history{{1, one}, {3, two}}, history{{2, one}, {4, two}}, ""},
		"status before its child":         {history{{1, one}, {4, two}}, history{{2, one}, {3, two}}, "status at 3 is of version-000002"},
		"child of the previous version":   {history{{1, one}}, history{{2, two}}, "status at 2 is of version-000002"},
		"child with another text":         {history{{1, one}}, history{{2, changed}}, `the child at 1 of version-000001 "" "a"`},
		"child with another policy":       {history{{1, one}}, history{{2, noted}}, "status at 2"},
		"deleted child":                   {history{{1, one}, {2, stamp{}}}, history{{3, two}}, ""},
		"child whose creation came later": {history{{9, two}}, history{{3, one}}, ""},
		"old version after a new one":     {history{{1, two}, {3, one}}, history{{2, two}, {4, one}}, "status at 4 is of version-000001"},
		"old child after a new one":       {history{{1, two}, {2, one}, {3, two}}, history{{4, two}}, "child at 2 is of version-000001"},
		"child whose status comes later":  {history{{1, one}, {3, two}}, history{{2, one}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := recordedObject{children: c.children, statuses: c.statuses}
			problems := strings.Join(o.check("object"), "\n")
			if (problems == "") != (c.problem == "") || !strings.Contains(problems, c.problem) {
				t.Errorf("got %q, want %q", problems, c.problem)
			}
		})
	}
}

func TestRecorderFindsOutdatedObjectsOfAPlugin(t *testing.T) {
	t.Parallel()
	good := stamp{"version-000002", "n", "text"}
	otherNote, oldVersion := stamp{"version-000002", "", "text"}, stamp{"version-000001", "n", "text"}
	for name, c := range map[string]struct {
		object   recordedObject
		outdated bool
	}{
		"as wanted":             {recordedObject{spec: "text", wanted: "text", ready: true, status: good, child: good}, false},
		"of another plugin":     {recordedObject{plugin: 1}, false},
		"not Ready":             {recordedObject{spec: "text", wanted: "text", status: good, child: good}, true},
		"without a child":       {recordedObject{spec: "text", wanted: "text", ready: true, status: good}, true},
		"change not reconciled": {recordedObject{spec: "text", wanted: "next", ready: true, status: good, child: good}, true},
		"another policy":        {recordedObject{spec: "text", wanted: "text", ready: true, status: otherNote, child: good}, true},
		"old version":           {recordedObject{spec: "text", wanted: "text", ready: true, status: oldVersion, child: good}, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := soakRecorder{objects: map[string]*recordedObject{"object": &c.object}}
			outdated, _, _ := r.outdated(0, map[string]bool{good.version: true}, map[string]bool{good.note: true})
			if len(outdated) > 0 != c.outdated {
				t.Errorf("outdated are %v", outdated)
			}
		})
	}
}
