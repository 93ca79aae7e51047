// Command podmanager is a plugin: a PodManager owns one Pod, keeps it as its spec
// describes, and records in its status when the Pod was created.
//
// It is the example of the document kube-rs-reconciler. Each step is idempotent and
// independent of the others: it does not assume that another step has happened in the
// same run, nor why the run happens.
package main

import (
	"errors"
	"hash/fnv"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/thole-dev/thole/sdk"
)

//go:generate go run github.com/thole-dev/thole/cmd/thole-tools generate crd

func init() {
	sdk.Plugin("podmanager", "0.1.0")
	sdk.Register(sdk.Controller[Spec, Status]{
		Name:        "podmanager",
		For:         sdk.Kind{APIVersion: "example.thole.dev/v1", Kind: "PodManager"},
		Owns:        []sdk.Kind{podKind},
		Reconcile:   reconcile,
		Cleanup:     cleanup,
		ErrorPolicy: errorPolicy,
		Warm:        []sdk.Value{Pod{}},
	})
}

// A PodManager owns one Pod with its own name, keeps it as spec describes, and records when it was created.
//
// +kubebuilder:resource:shortName=pm,categories=thole
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.spec.image`
// +kubebuilder:printcolumn:name="Pod",type=string,JSONPath=`.status.podName`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.podPhase`
// +kubebuilder:printcolumn:name="Pod-Created",type=date,JSONPath=`.status.podCreated`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type PodManager = sdk.Object[Spec, Status]

// Spec is the desired Pod. A changed image or label updates the Pod in place; a changed command, args or env replaces it.
type Spec struct {
	// The image of the Pod's only container. The controller checks that it is an image name and reports a wrong one in the conditions.
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image"`
	// The entrypoint; the image's own if empty.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=4096
	// +listType=atomic
	Command []string `json:"command,omitempty"`
	// The arguments; the image's own if command and args are empty.
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=4096
	// +listType=atomic
	Args []string `json:"args,omitempty"`
	// Variables in the container's environment.
	// +kubebuilder:validation:MaxItems=256
	// +listType=map
	// +listMapKey=name
	Env []EnvVar `json:"env,omitempty"`
	// Labels of the Pod, besides app.kubernetes.io/managed-by.
	// +kubebuilder:validation:MaxProperties=64
	Labels map[string]LabelValue `json:"labels,omitempty"`
}

// EnvVar is a variable in the container's environment.
type EnvVar struct {
	// The variable's name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z][-._a-zA-Z0-9]*$`
	Name string `json:"name"`
	// The variable's value; empty if absent.
	// +kubebuilder:validation:MaxLength=32768
	Value string `json:"value,omitempty"`
}

// LabelValue is the value of a label.
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$`
type LabelValue = string

// Status is the Pod that exists. Written by the controller.
type Status struct {
	// The Pod's name; absent while there is no Pod.
	PodName string `json:"podName,omitempty"`
	// When the Pod was created.
	PodCreated sdk.Time `json:"podCreated,omitempty"`
	// The Pod's phase.
	PodPhase string `json:"podPhase,omitempty"`
}

type request = sdk.Request[Spec, Status]

// reconcile applies the Pod of the spec and records the Pod that exists. It does the same in
// every run, whatever the reason for the run is.
func reconcile(r *request) (sdk.Action, error) {
	pod, err := currentPod(r)
	if err != nil {
		return sdk.Action{}, err
	}
	// The status is what this run has found, whatever the rest of it does.
	r.Status = Status{}
	if pod.Metadata.ControlledBy(r.UID) {
		r.Status = Status{
			PodName:    pod.Metadata.Name,
			PodCreated: pod.Metadata.CreationTimestamp,
			PodPhase:   pod.Status.Phase,
		}
	}
	if r.Spec.Image == "" || strings.ContainsAny(r.Spec.Image, " \t\n") {
		return sdk.Action{}, sdk.Stalled("InvalidImage", errors.New("spec.image must name an image, without white space"))
	}
	want := wantedPod(r)
	if err := prepare(r, pod, want); err != nil {
		return sdk.Action{}, err
	}
	// Applied in every run: the host does not write if nothing differs.
	r.Apply(want)
	return sdk.AwaitChange(), nil
}

// errorPolicy decides when a run is repeated that could not read what it needs. As
// kube-rs's own example does, it asks for a fixed time, but leaves an error that lasts
// to the backoff.
func errorPolicy(_ *request, err error, attempt int) error {
	if attempt <= 3 {
		return sdk.RetryAfter(5*time.Second, err)
	}
	return err
}

// prepare returns nil if the Pod can be created or updated in place, and otherwise an
// error with what must happen first. It deletes a Pod that cannot be updated; the run
// that finds it gone creates the next one.
func prepare(r *request, pod, want *Pod) error {
	name := pod.Metadata.Name
	var why string
	switch {
	case !pod.exists():
		r.Event(sdk.Normal, "PodCreated", "created pod "+want.Metadata.Name+" with image "+r.Spec.Image)
		return nil
	case pod.Metadata.Deleting():
		return sdk.Waiting("PodTerminating", 0, errors.New("pod "+name+" is terminating; a new one is created after it"))
	case !pod.Metadata.ControlledBy(r.UID):
		return sdk.Stalled("PodNotOurs", errors.New("pod "+name+" was not created by this PodManager: delete it, or rename the PodManager"))
	case pod.Metadata.Annotations[immutableAnnotation] != want.Metadata.Annotations[immutableAnnotation]:
		why = "its command, args or env differ from the spec, and cannot be changed in a pod"
	case pod.Status.Phase == "Failed":
		why = "it has failed"
	default:
		return nil
	}
	r.Delete(pod.ref())
	return sdk.Waiting("ReplacingPod", 0, errors.New("pod "+name+" is replaced: "+why))
}

// cleanup deletes the Pod before the PodManager is removed. Garbage collection would
// delete it some time later; this way the Pod is gone once the PodManager is.
func cleanup(r *request) error {
	pod, err := currentPod(r)
	if err != nil {
		return err
	}
	if !pod.exists() || !pod.Metadata.ControlledBy(r.UID) {
		r.Log.Info("cleaned up", "pod", r.Name)
		return nil
	}
	if !pod.Metadata.Deleting() {
		r.Delete(pod.ref())
	}
	return sdk.Waiting("PodTerminating", 5*time.Second, errors.New("waiting for pod "+pod.Metadata.Name+" to terminate"))
}

// Pod has the fields of a Pod that this plugin uses.
type Pod struct {
	sdk.TypeMeta
	Metadata sdk.ObjectMeta `json:"metadata"`
	Spec     PodSpec        `json:"spec"`
	Status   PodStatus      `json:"status,omitzero"`
}

// PodSpec is the spec of a Pod.
type PodSpec struct {
	Containers []Container `json:"containers"`
}

// Container is a container of a Pod.
type Container struct {
	Name    string   `json:"name"`
	Image   string   `json:"image"`
	Command []string `json:"command,omitempty"`
	Args    []string `json:"args,omitempty"`
	Env     []EnvVar `json:"env,omitempty"`
}

// PodStatus is the status of a Pod.
type PodStatus struct {
	Phase string `json:"phase,omitempty"`
}

var podKind = sdk.Kind{APIVersion: "v1", Kind: "Pod"}

// currentPod reads the Pod. It returns an empty one if it does not exist.
func currentPod(r *request) (*Pod, error) {
	pod := &Pod{}
	err := r.Get(podKind.Ref(r.Namespace, r.Name), pod)
	if errors.Is(err, sdk.ErrNotFound) {
		return &Pod{}, nil
	}
	return pod, err
}

func (p *Pod) exists() bool { return p.Metadata.UID != "" }

// ref returns a reference with the UID, which is not valid for a later Pod of that name.
func (p *Pod) ref() sdk.Ref {
	ref := podKind.Ref(p.Metadata.Namespace, p.Metadata.Name)
	ref.UID = p.Metadata.UID
	return ref
}

// wantedPod returns the Pod of the spec. It has the PodManager's name, so that there is
// never a second one.
func wantedPod(r *request) *Pod {
	labels := maps.Clone(r.Spec.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels["app.kubernetes.io/managed-by"] = "podmanager"
	return &Pod{
		TypeMeta: podKind.Type(),
		Metadata: sdk.ObjectMeta{
			Namespace: r.Namespace, Name: r.Name, Labels: labels,
			Annotations: map[string]string{immutableAnnotation: immutable(r.Spec)},
		},
		Spec: PodSpec{Containers: []Container{{
			Name: "main", Image: r.Spec.Image, Command: r.Spec.Command, Args: r.Spec.Args, Env: r.Spec.Env,
		}}},
	}
}

// immutableAnnotation has a digest of the fields that cannot be changed in a Pod. It is
// compared instead of the fields themselves, which admission may have changed.
const immutableAnnotation = "example.thole.dev/immutable"

// immutable returns the digest for immutableAnnotation.
func immutable(s Spec) string {
	digest := fnv.New64a()
	write := func(words ...string) {
		for _, w := range words {
			_, _ = digest.Write([]byte(strconv.Quote(w)))
		}
		_, _ = digest.Write([]byte{'\n'})
	}
	write(s.Command...)
	write(s.Args...)
	for _, e := range s.Env {
		write(e.Name, e.Value)
	}
	return strconv.FormatUint(digest.Sum64(), 16)
}

func main() {}
