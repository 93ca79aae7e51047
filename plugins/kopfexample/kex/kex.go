// Package kex has what both variants of the plugin kopfexample share: the types of a KopfExample
// and its Pods, and what the document leaves out, the creation and the termination of Pods. The
// functions of the document itself are in the main package of each variant.
package kex

import (
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/handlers"
)

// Kind is that of the parents, and PodKind that of their children.
var (
	Kind    = sdk.Kind{APIVersion: "kopf.dev/v1", Kind: "KopfExample"}
	PodKind = sdk.Kind{APIVersion: "v1", Kind: "Pod"}
)

// ParentLabel is the label of a Pod with the name of its parent.
const ParentLabel = "parent-kex"

// A KopfExample keeps as many Pods as its spec states.
//
// +kubebuilder:resource:shortName=kex
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="Actual",type=integer,JSONPath=`.status.replicas`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
type KopfExample = sdk.Object[Spec, Status]

// Spec is the desired state.
type Spec struct {
	// How many Pods there are to be.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=200
	// +kubebuilder:default=1
	Replicas *int `json:"replicas,omitempty"`
	// The image of their only container; registry.k8s.io/pause:3.10 if absent.
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image,omitempty"`
}

// Desired returns how many Pods there are to be.
func (s Spec) Desired() int {
	if s.Replicas == nil {
		return 1
	}
	return *s.Replicas
}

// Status is the actual state. Written by the controller.
type Status struct {
	// How many Pods there were when they were last counted.
	Replicas int `json:"replicas"`
}

// Call is one call of a handler.
type Call = handlers.Call[Spec, Status]

// Names returns the names of the Pods that were found in an index, in order.
func Names(items []sdk.IndexItem) (names []string) {
	for _, item := range items {
		names = append(names, item.Name)
	}
	return names
}

// Spawn creates Pods with the first names that are free. A repeated run chooses the same ones.
func Spawn(c *Call, n int, pods []string) {
	for i := 0; n > 0; i++ {
		name := c.Name + "-" + strconv.Itoa(i)
		if slices.Contains(pods, name) {
			continue
		}
		c.Apply(newPod(c, name))
		n--
	}
}

// Terminate deletes Pods that are chosen at random. The choice is that of the object and its
// generation, so that a repeated run makes it again, and does not delete others.
func Terminate(c *Call, n int, pods []string) {
	seed := fnv.New64a()
	_, _ = seed.Write([]byte(c.UID))
	random := rand.New(rand.NewPCG(seed.Sum64(), uint64(c.Generation)))
	random.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
	for _, name := range pods[:min(n, len(pods))] {
		c.Delete(PodKind.Ref(c.Namespace, name))
	}
}

// Pod has the fields of a Pod that the plugins use.
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

func newPod(c *Call, name string) Pod {
	image := c.Spec.Image
	if image == "" {
		image = "registry.k8s.io/pause:3.10"
	}
	return Pod{
		TypeMeta: PodKind.Type(),
		Metadata: sdk.ObjectMeta{Name: name, Labels: map[string]string{ParentLabel: c.Name}},
		Spec:     PodSpec{Containers: []Container{{Name: "main", Image: image}}},
	}
}
