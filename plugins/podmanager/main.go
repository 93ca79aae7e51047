// Command podmanager is a plugin: a PodManager owns one Pod, keeps it as its
// spec wants it, and notes in its status when the Pod was created.
//
// It is the example of the document kube-rs-reconciler. Each step looks at one
// property and is idempotent by itself; none assumes that another one was done
// in the same run, or why the run happens.
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

func init() {
	sdk.Plugin("podmanager", "0.1.0")
	sdk.Register(sdk.Controller[Spec, Status]{
		Name:      "podmanager",
		For:       sdk.Kind{APIVersion: "example.thole.dev/v1", Kind: "PodManager"},
		Owns:      []sdk.Kind{podKind},
		Reconcile: reconcile,
		Cleanup:   cleanup,
		Warm:      []any{Pod{}},
	})
}

// Spec is what the user wants.
type Spec struct {
	Image   string            `json:"image"`
	Command []string          `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Env     []EnvVar          `json:"env,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
}

// EnvVar is a variable in the container's environment.
type EnvVar struct {
	Name  string `json:"name"`
	Value string `json:"value,omitempty"`
}

// Status is what the user sees. Conditions and observedGeneration are the
// host's.
type Status struct {
	PodName    string   `json:"podName,omitempty"`
	PodCreated sdk.Time `json:"podCreated,omitempty"`
	PodPhase   string   `json:"podPhase,omitempty"`
}

type request = sdk.Request[Spec, Status]

func reconcile(r *request) (sdk.Action, error) {
	pod, err := currentPod(r)
	if err != nil {
		return sdk.Action{}, err
	}
	// What is there, whatever becomes of the rest of this run.
	r.Status = Status{}
	if pod.Metadata.ControlledBy(r.UID) {
		r.Status = Status{
			PodName:    pod.Metadata.Name,
			PodCreated: pod.Metadata.CreationTimestamp,
			PodPhase:   pod.Status.Phase,
		}
	}
	if r.Spec.Image == "" || strings.ContainsAny(r.Spec.Image, " \t\n") {
		return sdk.Action{}, sdk.Stalled("InvalidImage", errors.New("spec.image must name an image, without blanks"))
	}
	want := wantedPod(r)
	if err := makeWay(r, pod, want); err != nil {
		return sdk.Action{}, err
	}
	// Wanted in every run: the host knows when there is nothing to write.
	r.Apply(want)
	return sdk.AwaitChange(), nil
}

// makeWay returns nil if the Pod can become the wanted one in place, else what
// must happen first. A Pod that cannot is deleted, and the next one is left to
// the run that finds it gone.
func makeWay(r *request, pod, want *Pod) error {
	name := pod.Metadata.Name
	var why string
	switch {
	case !pod.exists():
		r.Event(sdk.Normal, "PodCreated", "created pod "+want.Metadata.Name+" with image "+r.Spec.Image)
		return nil
	case pod.Metadata.Deleting():
		return sdk.Waiting("PodTerminating", 0, errors.New("pod "+name+" is terminating, a new one follows"))
	case !pod.Metadata.ControlledBy(r.UID):
		return sdk.Stalled("PodNotOurs", errors.New("pod "+name+" belongs to somebody else: delete it, or rename the PodManager"))
	case pod.Metadata.Annotations[immutableAnnotation] != want.Metadata.Annotations[immutableAnnotation]:
		why = "its command, args or env are not those of the spec, and a pod cannot change them"
	case pod.Status.Phase == "Failed":
		why = "it has failed"
	default:
		return nil
	}
	r.Delete(pod.ref())
	return sdk.Waiting("ReplacingPod", 0, errors.New("pod "+name+" is replaced: "+why))
}

// cleanup ends the Pod before the PodManager goes, where garbage collection
// would end it some time later: who sees the PodManager gone can rely on it.
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
	return sdk.Waiting("PodTerminating", 5*time.Second, errors.New("waiting for pod "+pod.Metadata.Name+" to end"))
}

// Pod is a Pod, as far as this plugin cares.
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

// currentPod reads the Pod; one that does not exist is an empty one.
func currentPod(r *request) (*Pod, error) {
	pod := &Pod{}
	err := r.Get(podKind.Ref(r.Namespace, r.Name), pod)
	if errors.Is(err, sdk.ErrNotFound) {
		return &Pod{}, nil
	}
	return pod, err
}

func (p *Pod) exists() bool { return p.Metadata.UID != "" }

// ref names this very Pod, not a later one of its name.
func (p *Pod) ref() sdk.Ref {
	ref := podKind.Ref(p.Metadata.Namespace, p.Metadata.Name)
	ref.UID = p.Metadata.UID
	return ref
}

// wantedPod has the PodManager's name, so that there is never a second one.
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

// immutableAnnotation holds a digest of what a Pod cannot change. It is
// compared instead of the Pod's own fields, which admission may have added to.
const immutableAnnotation = "example.thole.dev/immutable"

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
