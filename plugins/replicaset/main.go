// Command replicaset is a plugin: it does what the ReplicaSet controller of Kubernetes does, in a
// cluster where that does not run. A ReplicaSet has as many pods as its spec wants; it adopts pods that
// match its selector and have no controller, and releases those that do not match any more.
//
// It shows how a controller of a built-in kind is written: package children, a status that is the
// plugin's own, and pods whose template stays the JSON that it is.
package main

import (
	"errors"
	"strconv"

	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/children"
)

//go:generate go run github.com/thole-dev/thole/cmd/thole-tools generate

var (
	replicaSetKind = sdk.Kind{APIVersion: "apps/v1", Kind: "ReplicaSet"}
	podKind        = sdk.Kind{APIVersion: "v1", Kind: "Pod"}
)

func init() {
	sdk.Plugin("replicaset", "0.1.0")
	sdk.Register(sdk.Controller[Spec, Status]{
		Name:          "replicaset",
		For:           replicaSetKind,
		Owns:          []sdk.Kind{podKind},
		Reconcile:     reconcile,
		WhileDeleting: true,
		StatusOwner:   sdk.StatusOwnerGuest,
		Applied:       sdk.AppliedMemory,
	})
}

// main is not called.
func main() {}

type request = sdk.Request[Spec, Status]

// Spec is the part of a ReplicaSet's spec that the controller reads.
type Spec struct {
	Replicas        *int32             `json:"replicas"` // nil is 1
	MinReadySeconds int32              `json:"minReadySeconds"`
	Selector        *sdk.LabelSelector `json:"selector"`
	Template        Template           `json:"template"`
}

// Template is what pods are made from. Its spec stays as it is.
type Template struct {
	Metadata TemplateMeta `json:"metadata"`
	Spec     sdk.Raw      `json:"spec"`
}

// TemplateMeta is the metadata that pods get from their template.
type TemplateMeta struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	Finalizers  []string          `json:"finalizers"`
}

func reconcile(r *request) (sdk.Action, error) {
	if err := r.Spec.Selector.Validate(); err != nil {
		return sdk.Action{}, sdk.Stalled("InvalidSelector", errors.New("spec.selector."+err.Error()))
	}
	batch := takeBatch(r)
	pods, err := claim(r)
	if err != nil || pods.adopts || pods.more {
		return sdk.AwaitChange(), err // the pods that are claimed lead to the next run
	}
	if !r.Deleting() {
		if err := scale(r, pods, batch); err != nil {
			return sdk.Action{}, err
		}
	}
	if next := setStatus(r, pods); next > 0 {
		return sdk.RequeueAfter(next), nil
	}
	return sdk.AwaitChange(), nil
}

// podSet has the pods of a ReplicaSet that have not ended.
type podSet struct {
	active      []*Pod
	terminating []*Pod
	adopts      bool // this run adopts others
	claims      int  // how many pods are adopted and released
	more        bool // there are others to be claimed
}

// claim returns the pods of the ReplicaSet. It adopts pods that match the selector and have no
// controller, and releases pods that do not match. A ReplicaSet that is being deleted does neither.
//
// Each adoption fails alone, and a run that adopts does nothing else: until the adopted pods are the
// ReplicaSet's, it is not known how many are missing.
func claim(r *request) (podSet, error) {
	var own, matching []Pod
	query := sdk.Query{Kind: podKind, Namespace: r.Namespace}
	fields := sdk.Fields("metadata", "/spec/nodeName", "/status/phase", "/status/conditions", "/status/containerStatuses")
	if err := r.List(query, &own, children.OwnedBySelf(), fields); err != nil {
		return podSet{}, err
	}
	query.LabelSelector = r.Spec.Selector.Text()
	if err := r.List(query, &matching, fields); err != nil {
		return podSet{}, err
	}
	var all podSet
	for i := range own {
		pod := &own[i]
		switch {
		case pod.ended() || !isOwn(r, pod):
		case r.Spec.Selector.Matches(pod.Metadata.Labels):
			all.add(pod)
		case !pod.Metadata.Deleting() && !r.Deleting():
			all.claim(func() { children.Release(r.Run, pod.ref()) })
		}
	}
	for i := range matching {
		pod := &matching[i]
		if pod.ended() || pod.Metadata.Deleting() || pod.controlled() || r.Deleting() {
			continue
		}
		all.claim(func() {
			alone(toAdopt, i).Adopt(r.Run, pod.ref())
			all.adopts = true
		})
	}
	return all, nil
}

// isOwn reports whether the owner reference with the uid of the ReplicaSet has its kind and name, too.
// Kubernetes takes other pods for those of somebody else.
func isOwn(r *request, pod *Pod) bool {
	owner := pod.Metadata.ControllerRef()
	return owner != nil && owner.Kind == replicaSetKind.Kind && owner.Name == r.Name
}

// mostClaims is how many pods one run adopts and releases. With them, and burst creations with an Event each,
// a result has as many intents as a host takes by default. The run that follows goes on.
const mostClaims = 50

// claim adopts or releases a pod, unless the run has done so with as many as it may.
func (s *podSet) claim(pod func()) {
	if s.claims == mostClaims {
		s.more = true
		return
	}
	s.claims++
	pod()
}

func (s *podSet) add(pod *Pod) {
	if pod.Metadata.Deleting() {
		s.terminating = append(s.terminating, pod)
	} else {
		s.active = append(s.active, pod)
	}
}

// burst is how many pods one run creates or deletes. Their changes lead to the next run.
const burst = 100

// scale creates the pods that are missing, as many as the batch allows, or deletes those that are too many.
func scale(r *request, pods podSet, batch int) error {
	missing := wanted(r) - len(pods.active)
	if missing > 0 {
		return create(r, missing, batch)
	}
	if missing == 0 {
		return nil
	}
	ranked, err := rankForDeletion(r, pods.active)
	if err != nil {
		return err
	}
	for i, surplus := range ranked[:min(-missing, burst)] {
		pod := alone(toDelete, i)
		pod.Delete(r.Run, surplus.ref())
		pod.Event(r.Run, sdk.Normal, "SuccessfulDelete", "Deleted pod: "+surplus.Metadata.Name)
	}
	return nil
}

// create creates pods from the template.
func create(r *request, missing, batch int) error {
	size, err := podSize(r)
	if err != nil {
		return err
	}
	count := min(missing, batch, burst, max(1, mostBytes/size))
	for i := range count {
		name := podName(r)
		pod := alone(toCreate, i)
		pod.Apply(r.Run, newPod(r, name), children.Create())
		pod.Event(r.Run, sdk.Normal, "SuccessfulCreate", "Created pod: "+name)
	}
	if missing > count {
		r.SetMemo(2 * count)
	}
	return nil
}

// What is done with a pod; its group is named after it.
const (
	toAdopt  = "adopt"
	toCreate = "create"
	toDelete = "delete"
)

// alone returns the group for one pod. What is done with it fails alone: a quota that refuses one pod blocks
// neither the others nor the status, and an Event is about what was done.
func alone(verb string, i int) children.Group {
	return children.Group{Name: verb + "-" + strconv.Itoa(i)}
}

// wanted returns how many pods the spec wants.
func wanted(r *request) int {
	if r.Spec.Replicas == nil {
		return 1
	}
	return int(*r.Spec.Replicas)
}

// newPod returns a pod of the template.
func newPod(r *request, name string) *NewPod {
	template := &r.Spec.Template
	return &NewPod{
		TypeMeta: podKind.Type(),
		Metadata: NewPodMeta{
			Name: name, GenerateName: r.Name + "-", Labels: template.Metadata.Labels,
			Annotations: template.Metadata.Annotations, Finalizers: template.Metadata.Finalizers,
		},
		Spec: template.Spec,
	}
}

// NewPodMeta is the metadata of a pod to be created.
type NewPodMeta struct {
	Name         string            `json:"name"`
	GenerateName string            `json:"generateName"` // what its name begins with, for those who look for it
	Labels       map[string]string `json:"labels,omitempty"`
	Annotations  map[string]string `json:"annotations,omitempty"`
	Finalizers   []string          `json:"finalizers,omitempty"`
}

// NewPod is a pod to be created.
//
//thole:generate
type NewPod struct {
	sdk.TypeMeta
	Metadata NewPodMeta `json:"metadata"`
	Spec     sdk.Raw    `json:"spec"`
}
