package sdk_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/functionindexes"
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/internal/guest"
	"github.com/thole-dev/thole/sdk/sdktest"
)

var shop = sdk.Kind{APIVersion: "index.example.com/v1", Kind: "Shop"}

type shopPod struct {
	sdk.TypeMeta
	Metadata sdk.ObjectMeta `json:"metadata"`
}

type shopStatus struct {
	Pods  []string `json:"pods,omitempty"`
	Ports []int    `json:"ports,omitempty"`
}

var podsByShop = sdk.IndexBy("pods-by-shop", sdk.Kind{APIVersion: "v1", Kind: "Pod"}, func(x *sdk.Indexing) error {
	var pod shopPod
	if err := x.Object(&pod); err != nil {
		return err
	}
	switch shop := pod.Metadata.Labels["shop"]; shop {
	case "":
		return nil
	case "broken":
		return errors.New("a shop that is broken")
	default:
		x.Add(shop, 80)
		return nil
	}
})

func init() {
	sdk.Register(sdk.Controller[struct{}, shopStatus]{
		Name: "shop", For: shop, Reads: []sdk.Kind{podsByShop.Kind}, Indexes: []sdk.Index{podsByShop},
		Reconcile: func(r *sdk.Request[struct{}, shopStatus]) (sdk.Action, error) {
			items, err := r.Lookup(sdk.IndexQuery{Index: podsByShop.Name, Key: r.Name, Namespace: r.Annotations["in"]})
			if err != nil {
				return sdk.Action{}, err
			}
			r.Status = shopStatus{}
			for _, item := range items {
				var port int
				if err := sdk.Decode(item.Value, &port); err != nil {
					return sdk.Action{}, err
				}
				r.Status.Pods, r.Status.Ports = append(r.Status.Pods, item.Namespace+"/"+item.Name), append(r.Status.Ports, port)
			}
			return sdk.AwaitChange(), nil
		},
	})
}

func newShop(t *testing.T) (w *sdktest.World, expect func(pods ...string)) {
	w = sdktest.New(t, "shop")
	ref := w.Create(`{"apiVersion":"index.example.com/v1","kind":"Shop","metadata":{"name":"one","namespace":"a"}}`)
	return w, func(pods ...string) {
		t.Helper()
		w.Reconcile("a/one").ExpectSuccess()
		var got struct{ Status shopStatus }
		if w.Get(ref, &got); !slices.Equal(got.Status.Pods, pods) || len(got.Status.Ports) != len(pods) {
			t.Errorf("found %+v, want %q", got.Status, pods)
		}
	}
}

func shopPodOf(namespace, name, shop string) string {
	return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"` + name + `","namespace":"` + namespace + `","labels":{"shop":"` + shop + `"}}}`
}

func TestIndexesByFunctionsAreASectionOfTheManifest(t *testing.T) {
	m := guest.Manifest()
	for name, want := range map[string][2]string{
		"shop": {"[]", `[{"name":"pods-by-shop","apiVersion":"v1","kind":"Pod"}]`},
		"lab":  {"[{phase scan.example.com/v1 Lab status.phase}]", `[{"name":"pods-by-lab","apiVersion":"v1","kind":"Pod"}]`},
	} {
		c := m.Controllers[slices.IndexFunc(m.Controllers, func(c abi.Controller) bool { return c.Name == name })]
		if got := [2]string{fmt.Sprint(c.Indexes), string(c.Section(functionindexes.Name))}; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestObjectsAreFoundByTheKeysOfAnIndex(t *testing.T) {
	w, expect := newShop(t)
	expect()
	p := w.Create(shopPodOf("a", "p", "one"))
	q := w.Create(shopPodOf("a", "q", "one"))
	w.Create(shopPodOf("b", "r", "one"))
	w.Create(shopPodOf("a", "s", "two"))
	expect("a/p", "a/q")
	w.Change(p, `{"metadata":{"labels":{"shop":"two"}}}`)
	expect("a/q")
	w.Delete(q)
	expect()
	w.CrossNamespace()
	expect("b/r")
}

func TestAnObjectKeepsItsKeysWhileTheFunctionOfTheIndexFails(t *testing.T) {
	w, expect := newShop(t)
	p := w.Create(shopPodOf("a", "p", "one"))
	expect("a/p")
	w.Change(p, `{"metadata":{"labels":{"shop":"broken"}}}`)
	expect("a/p")
	w.Change(p, `{"metadata":{"labels":{"shop":"two"}}}`)
	expect()
}

func TestALookupOutsideOfTheNamespaceIsDenied(t *testing.T) {
	w, _ := newShop(t)
	w.Change(shop.Ref("a", "one"), `{"metadata":{"annotations":{"in":"b"}}}`)
	w.Reconcile("a/one").ExpectRetry("Denied")
}

func TestTwoIndexesOfOneNamePanic(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("the second one is accepted")
		}
	}()
	sdk.IndexBy("pods-by-shop", shop, func(*sdk.Indexing) error { return nil })
}
