package sdk_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/internal/guest"
	"github.com/thole-dev/thole/sdk/sdktest"
)

// nodes returns a world with nodes n0 to n4, of which those with an odd number are in zone
// b and have two taints.
func nodes(t *testing.T, reconcile func(*widget) (sdk.Action, error)) *sdktest.World {
	t.Helper()
	w := world(t, reconcile)
	for i := range 5 {
		zone, taints := "a", ""
		if i%2 == 1 {
			zone, taints = "b", `{"key":"dedicated"},{"key":"maintenance"}`
		}
		w.Create(fmt.Sprintf(`{"apiVersion":"v1","kind":"Node","metadata":{"name":"n%d","labels":{"n":"%d"}},
			"spec":{"zone":%q,"unschedulable":%v,"taints":[%s]},"status":{"capacity":%d}}`, i, i, zone, i == 4, taints, i))
	}
	return w
}

type node struct {
	Metadata sdk.ObjectMeta `json:"metadata"`
	Spec     struct {
		Zone string `json:"zone"`
	} `json:"spec"`
	Status struct {
		Capacity int `json:"capacity"`
	} `json:"status"`
}

func (n node) String() string { return fmt.Sprint(n.Metadata.Name, n.Spec.Zone, n.Status.Capacity) }

func TestFieldsReadsOnlyThese(t *testing.T) {
	nodes(t, doing(func(r *widget) {
		var n node
		err := r.Get(nodeKind.Ref("", "n3"), &n, sdk.Fields("/spec/zone"))
		if err != nil || n.String() != "n3b0" || n.Metadata.UID == "" || n.Metadata.ResourceVersion != "" || n.Metadata.Labels != nil {
			t.Errorf("get: %v, %+v", err, n)
		}
		var all []node
		err = r.List(sdk.Query{Kind: nodeKind, LabelSelector: "n in (1,2)"}, &all, sdk.Fields("/spec/zone"), sdk.Fields("metadata"))
		if err != nil || fmt.Sprint(all) != "[n1b0 n2a0]" || all[0].Metadata.Labels["n"] != "1" {
			t.Errorf("list: %v, %+v", err, all)
		}
		for _, bad := range []string{"", "zone", "/spec/~", strings.Repeat("/x", 129)} {
			if err := r.Get(nodeKind.Ref("", "n3"), &n, sdk.Fields(bad)); !errors.Is(err, sdk.ErrInvalid) {
				t.Errorf("fields %.10q: %v", bad, err)
			}
		}
	})).Reconcile(one).ExpectReady()
}

func TestFieldSelectorFindsByIndex(t *testing.T) {
	nodes(t, doing(func(r *widget) {
		for selector, want := range map[string]string{
			"spec.zone=b":                         "[n1b1 n3b3]",
			"spec.zone!=b,metadata.name!=n0":      "[n2a2 n4a4]",
			"spec.unschedulable=true":             "[n4a4]",
			"spec.taints[*].key=maintenance":      "[n1b1 n3b3]",
			"spec.taints[*].key=":                 "[n0a0 n2a2 n4a4]",
			"spec.zone=b,spec.taints[*].key!=new": "[n1b1 n3b3]",
			"metadata.namespace=":                 "[n0a0 n1b1 n2a2 n3b3 n4a4]",
		} {
			var found []node
			err := r.List(sdk.Query{Kind: nodeKind, FieldSelector: selector}, &found)
			if err != nil || fmt.Sprint(found) != want {
				t.Errorf("%s: %v, %v, want %s", selector, err, found, want)
			}
		}
		for _, q := range []sdk.Query{
			{Kind: nodeKind, FieldSelector: "status.capacity=1"},
			{Kind: configMap, FieldSelector: "spec.zone=b"},
			{Kind: nodeKind, FieldSelector: "spec.zone"},
			{Kind: nodeKind, FieldSelector: strings.Repeat("spec.zone=b,", 17)},
		} {
			var found []node
			if err := r.List(q, &found); !errors.Is(err, sdk.ErrInvalid) || !strings.Contains(err.Error(), " where "+q.FieldSelector) {
				t.Errorf("%s: %v, %v", q, err, found)
			}
		}
	})).Reconcile(one).ExpectReady()
}

func TestPagesListAllObjectsInOrder(t *testing.T) {
	nodes(t, doing(func(r *widget) {
		for limit := range 7 {
			var found []string
			for n, err := range sdk.Pages[node](r.Run, sdk.Query{Kind: nodeKind}, limit, sdk.Fields("/status/capacity")) {
				if err != nil {
					t.Fatal(err)
				}
				found = append(found, n.String())
			}
			if got := strings.Join(found, " "); got != "n00 n11 n22 n33 n44" {
				t.Errorf("limit %d: %s", limit, got)
			}
		}
	})).Reconcile(one).ExpectReady()
}

// counting counts the lists of a run, and the objects in their replies.
type counting struct {
	sdktest.Host
	calls, objects int
}

func (c *counting) List(call []byte) ([]byte, int64) {
	c.calls++
	reply, code := c.Host.List(call)
	if list, err := abi.DecodeListReply(reply); err == nil {
		c.objects += len(list.Items)
	}
	return reply, code
}

// natively is a runner of the registered controllers that counts lists.
type natively struct{ counted *counting }

func (natively) Describe() []byte { return abi.EncodeManifest(guest.Manifest()) }

func (n natively) Reconcile(request []byte, host sdktest.Host) (abi.Code, []byte, error) {
	n.counted.Host = host
	code, result := guest.Reconcile(n.counted, request)
	return code, result, nil
}

func TestPagesReadNoFurtherThanTheLoop(t *testing.T) {
	for limit, want := range map[int]string{1: "2 2", 2: "1 2", 3: "1 3", 0: "1 5"} {
		c := &counting{}
		w := sdktest.NewWith(t, natively{c}, "widget")
		for i := range 5 {
			w.Create(fmt.Sprintf(`{"apiVersion":"v1","kind":"Node","metadata":{"name":"n%d"}}`, i))
		}
		w.Create(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"namespace":"default","name":"one"}}`)
		onReconcile = doing(func(r *widget) {
			for n, err := range sdk.Pages[node](r.Run, sdk.Query{Kind: nodeKind}, limit) {
				if err != nil || n.Metadata.Name == "n1" {
					break
				}
			}
		})
		w.Reconcile(one).ExpectReady()
		if got := fmt.Sprint(c.calls, c.objects); got != want {
			t.Errorf("limit %d: calls and objects are %s, want %s", limit, got, want)
		}
	}
}

func TestPagesEndWithAnError(t *testing.T) {
	w := nodes(t, doing(func(r *widget) {
		var errs []error
		for n, err := range sdk.Pages[node](r.Run, sdk.Query{Kind: secretKind}, 2) {
			if errs = append(errs, err); n.Metadata.Name != "" {
				t.Errorf("an object with an error: %v", n)
			}
		}
		if len(errs) != 1 || !errors.Is(errs[0], sdk.ErrDenied) {
			t.Errorf("the errors are %v", errs)
		}
	}))
	w.Reconcile(one).ExpectReady()
}
