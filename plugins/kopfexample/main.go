// Command kopfexample is a plugin: a KopfExample keeps as many Pods as its spec states.
//
// It is the example of the document kopf-reconciliation, with its three functions under
// their names: an index of the Pods by their parent, a timer that writes the actual number
// of Pods into the status, and an event handler that compares the two. What the document
// leaves out, the creation and the termination of Pods, is done.
package main

import (
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/handlers"
)

func init() {
	sdk.Plugin("kopfexample", "0.1.0")
	sdk.Managed() // follow the Pods of this plugin, and no others
	var h handlers.Handlers[Spec, Status]
	h.Timer(sdk.Timer{Name: "calculate-actual-state", Interval: 10 * time.Second}, calculateActualState)
	h.OnEvent("react-on-state-changes", reactOnStateChanges)
	sdk.Register(h.Controller(sdk.Controller[Spec, Status]{
		Name:    "kopfexample",
		For:     sdk.Kind{APIVersion: "kopf.dev/v1", Kind: "KopfExample"},
		Owns:    []sdk.Kind{podKind},
		Indexes: []sdk.Index{kexPods},
		Changes: sdk.ChangesMemory, // no handler needs what was handled
		Warm:    []any{Pod{}},
	}))
}

// Spec is the desired state.
type Spec struct {
	Replicas *int   `json:"replicas,omitempty"` // default 1
	Image    string `json:"image,omitempty"`    // default registry.k8s.io/pause:3.10
}

// Status is the actual state.
type Status struct {
	Replicas int `json:"replicas"`
}

type call = handlers.Call[Spec, Status]

// parentKex is the label of a Pod with the name of its parent.
const parentKex = "parent-kex"

// kexPods keeps the names of the Pods by their parents, so that no run lists Pods.
var kexPods = sdk.IndexBy("kex-pods", podKind, func(x *sdk.Indexing) error {
	var pod Pod
	if err := x.Object(&pod); err != nil {
		return err
	}
	if parent := pod.Metadata.Labels[parentKex]; parent != "" && !pod.Metadata.Deleting() {
		x.Add(parent, nil)
	}
	return nil
})

// podsOf returns the names of the running Pods of the object, in order.
func podsOf(c *call) (names []string, err error) {
	items, err := c.Lookup(sdk.IndexQuery{Index: kexPods.Name, Key: c.Name})
	for _, item := range items {
		names = append(names, item.Name)
	}
	return names, err
}

// calculateActualState regularly saves the actual state from the index.
func calculateActualState(c *call) error {
	pods, err := podsOf(c)
	if err == nil {
		c.Status.Replicas = len(pods)
	}
	return err
}

// reactOnStateChanges reacts to changes of the desired or the actual state. It waits for the
// timer while the index has what the status does not show yet: the difference would be made
// up for twice.
func reactOnStateChanges(c *call) error {
	pods, err := podsOf(c)
	if err != nil || c.Deleting() || len(pods) != c.Status.Replicas {
		return err
	}
	desired := 1
	if c.Spec.Replicas != nil {
		desired = *c.Spec.Replicas
	}
	if delta := desired - c.Status.Replicas; delta > 0 {
		spawn(c, delta, pods)
	} else if delta < 0 {
		terminate(c, -delta, pods)
	}
	return nil
}

// spawn creates Pods with the first names that are free. A repeated run chooses the same ones.
func spawn(c *call, n int, pods []string) {
	for i := 0; n > 0; i++ {
		name := c.Name + "-" + strconv.Itoa(i)
		if slices.Contains(pods, name) {
			continue
		}
		c.Apply(newPod(c, name))
		n--
	}
}

// terminate deletes Pods that are chosen at random. The choice is that of the object and its
// generation, so that a repeated run makes it again, and does not delete others.
func terminate(c *call, n int, pods []string) {
	seed := fnv.New64a()
	_, _ = seed.Write([]byte(c.UID))
	random := rand.New(rand.NewPCG(seed.Sum64(), uint64(c.Generation)))
	random.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
	for _, name := range pods[:min(n, len(pods))] {
		c.Delete(podKind.Ref(c.Namespace, name))
	}
}

// Pod has the fields of a Pod that this plugin uses.
type Pod struct {
	sdk.TypeMeta
	Metadata sdk.ObjectMeta `json:"metadata"`
	Spec     PodSpec        `json:"spec,omitzero"`
}

// PodSpec is the spec of a Pod.
type PodSpec struct {
	Containers []Container `json:"containers"`
}

// Container is a container of a Pod.
type Container struct {
	Name  string `json:"name"`
	Image string `json:"image"`
}

var podKind = sdk.Kind{APIVersion: "v1", Kind: "Pod"}

func newPod(c *call, name string) Pod {
	image := c.Spec.Image
	if image == "" {
		image = "registry.k8s.io/pause:3.10"
	}
	return Pod{
		TypeMeta: podKind.Type(),
		Metadata: sdk.ObjectMeta{Name: name, Labels: map[string]string{parentKex: c.Name}},
		Spec:     PodSpec{Containers: []Container{{Name: "main", Image: image}}},
	}
}

func main() {}
