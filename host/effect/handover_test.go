package effect

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
)

// formerApply applies ConfigMap c as an earlier version of the host did: with one
// manager and one annotation for all primaries of the controller.
func (w *world) formerApply(t Target, in *abi.Result) {
	w.Helper()
	text := in.Apply[0].Object
	i, err := readIntent(text)
	if err != nil {
		w.Fatal(err)
	}
	body := i.body(location{Resource: configMap, key: w.key(configMap, "c")}, nil)
	d, err := sum(body)
	if err != nil {
		w.Fatal(err)
	}
	body, err = rawjson.MergePatch(body, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, w.formerAnnotation(t.Controller), d))
	if err != nil {
		w.Fatal(err)
	}
	if _, err := w.admin.patch(w.Context(), configMap, w.key(configMap, "c"), patch{patchType: types.ApplyPatchType, manager: w.manager(t.Controller), body: body}); err != nil {
		w.Fatal(err)
	}
	w.seen(configMap, "c")
}

// watchData follows ConfigMap c. The returned function stops that, and returns the
// data of all its versions.
func (w *world) watchData() func() []map[string]string {
	w.Helper()
	from := w.live(configMap, "c").ResourceVersion
	return func() (all []map[string]string) {
		w.Helper()
		w.edit(configMap, "c", "", `{"metadata":{"labels":{"last":"1"}}}`)
		stream, err := w.admin.rest.Get().AbsPath(configMap.Collection(w.ns)...).Param("watch", "1").Param("fieldSelector", "metadata.name=c").Param("resourceVersion", from).Stream(w.Context())
		if err != nil {
			w.Fatal(err)
		}
		defer func() { _ = stream.Close() }()
		for versions := json.NewDecoder(stream); ; {
			var event struct {
				Object struct {
					Metadata struct{ Labels map[string]string }
					Data     map[string]string
				}
			}
			if err := versions.Decode(&event); err != nil && err != io.EOF {
				w.Fatal(err)
			}
			all = append(all, event.Object.Data)
			if event.Object.Metadata.Labels["last"] != "" {
				return all
			}
		}
	}
}

func TestFormerManagerIsReplacedWithoutRemovingAValue(t *testing.T) {
	for _, order := range [][]int{{0, 1}, {1, 0}} {
		for _, foreign := range []bool{false, true} {
			t.Run(fmt.Sprintf("order %v, foreign fields %v", order, foreign), func(t *testing.T) {
				w := newCluster(t)
				p := w.sharers("one", "two")
				in := []*abi.Result{data("one=1", "same=x"), data("two=2", "same=x")}
				if foreign {
					w.create(configMap, `{"metadata":{"name":"c"},"data":{"theirs":"1"}}`)
				}
				w.formerApply(p[0], in[0])
				w.formerApply(p[1], in[1]) // takes the fields of the first away
				versions := w.watchData()
				for range 2 {
					for _, i := range order {
						w.succeed(p[i], in[i])
					}
				}
				for _, data := range versions() {
					if data["two"] != "2" || data["same"] != "x" || foreign && data["theirs"] != "1" {
						t.Errorf("a value was removed: %v", data)
					}
				}
				managers := w.managers()
				want := []string{w.sharedManager(p[0].Controller, p[0].Object.Key()), w.sharedManager(p[1].Controller, p[1].Object.Key())}
				slices.Sort(want)
				annotations := w.live(configMap, "c").Annotations
				if !slices.Equal(managers, want) || annotations[w.formerAnnotation(p[0].Controller)] != "" || sharers(annotations) != 2 {
					t.Fatalf("managers %q, annotations %v", managers, annotations)
				}

				w.start() // nothing is written after another restart
				w.FindShared(p[0].Controller)
				for i := range p {
					if writes := w.succeed(p[i], in[i]); len(writes) != 0 {
						t.Errorf("wrote %v", writes)
					}
				}
				w.succeed(p[1], &abi.Result{}) // its fields are its own
				if foreign {
					w.expectData("one=1", "same=x", "theirs=1")
				} else {
					w.expectData("one=1", "same=x")
				}
			})
		}
	}
}

// The intent has changed together with the host. The fields that it no longer has
// may belong to any primary, and stay.
func TestFormerManagerIsReplacedWhenTheIntentHasChanged(t *testing.T) {
	w := newCluster(t)
	p := w.sharers("one")[0]
	w.formerApply(p, data("a=1", "b=1"))
	versions := w.watchData()
	w.succeed(p, data("b=2"))
	for _, data := range versions() {
		if data["a"] != "1" {
			t.Errorf("a value was removed: %v", data)
		}
	}
	w.expectData("a=1", "b=2")
	if got := w.managers(); !slices.Equal(got, []string{w.sharedManager(p.Controller, p.Object.Key())}) {
		t.Errorf("managers %q", got)
	}
	w.succeed(p, data("b=3")) // no field is in conflict with the former manager
	w.expectData("a=1", "b=3")
}

func TestFormerManagerThatCameBackIsReplacedAgain(t *testing.T) {
	w := newCluster(t)
	p := w.sharers("one")[0]
	w.succeed(p, data("a=1", "b=1"))
	w.formerApply(p, data("a=1", "old=1")) // the host was rolled back for a while
	w.start()
	w.succeed(p, data("a=2"))
	w.expectData("a=2", "old=1")
	if got := w.managers(); !slices.Equal(got, []string{w.sharedManager(p.Controller, p.Object.Key())}) {
		t.Errorf("managers %q", got)
	}
	// Somebody has copied an object with its annotations: no manager has them.
	w.edit(configMap, "c", "", fmt.Sprintf(`{"metadata":{"annotations":{%q:"x"}}}`, w.formerAnnotation(p.Controller)))
	w.seen(configMap, "c")
	w.succeed(p, data("a=2"))
	if got := w.live(configMap, "c").Annotations; len(got) != 1 {
		t.Errorf("annotations %v", got)
	}
}

func TestFieldsStayWithAPrimaryWhenItsKindMovesBetweenOwnsAndWrites(t *testing.T) {
	w := newCluster(t)
	p := w.sharers("one")[0]
	owns := Target{Controller: controller(list(configMap), nil), Object: p.Object}
	for range 2 {
		w.succeed(owns, adopt(data("a=1", "owned=1")))
		w.expectData("a=1", "owned=1")
		if got := w.managers(); !slices.Equal(got, []string{"thole/demo/main"}) {
			t.Fatalf("managers %q", got)
		}
		w.succeed(p, data("a=2", "written=1"))
		w.expectData("a=2", "written=1")
		if got := w.managers(); !slices.Equal(got, []string{w.sharedManager(p.Controller, p.Object.Key())}) {
			t.Fatalf("managers %q", got)
		}
	}
	if got := w.live(configMap, "c").Annotations; len(got) != 1 {
		t.Errorf("annotations %v", got)
	}
}

func TestHandoverOfAnObjectThatHasChangedIsAConflict(t *testing.T) {
	w := newCluster(t)
	p := w.sharers("one")[0]
	w.formerApply(p, data("a=1"))
	w.wire.before = func(request) { // of metadata
		w.wire.before = func(request) {
			w.wire.before = func(request) { w.edit(configMap, "c", "", `{"data":{"x":"1"}}`) }
		}
	}
	_, failure := w.PerformIntents(t.Context(), p, data("a=1"))
	if failure == nil || !failure.Conflict {
		t.Fatalf("got %+v", failure)
	}
	w.seen(configMap, "c")
	w.succeed(p, data("a=1"))
	w.expectData("a=1", "x=1")
}
