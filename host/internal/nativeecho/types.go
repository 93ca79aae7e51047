package main

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// groupVersion is that of Echo, whose CRD is in host/internal/e2e/testdata/echo.
var groupVersion = schema.GroupVersion{Group: "e2e.thole.dev", Version: "v1"}

// Echo is the primary kind.
type Echo struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   EchoSpec   `json:"spec"`
	Status EchoStatus `json:"status"`
}

// EchoSpec is text to copy, and text that makes the object larger.
type EchoSpec struct {
	Revision int     `json:"revision"`
	Text     string  `json:"text"`
	Entries  []Entry `json:"entries,omitempty"`
}

// Entry is a name with a value.
type Entry struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// EchoStatus has the revision of the spec that the ConfigMap shows.
type EchoStatus struct {
	Revision           int                `json:"revision,omitempty"`
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

// EchoList is a list of Echoes.
type EchoList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []Echo `json:"items"`
}

// newScheme returns a scheme with the kinds of this program, without the other kinds
// of Kubernetes.
func newScheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	s.AddKnownTypes(groupVersion, &Echo{}, &EchoList{})
	metav1.AddToGroupVersion(s, groupVersion)
	return s, corev1.AddToScheme(s)
}

// DeepCopyObject copies an Echo as the code of controller-gen does.
func (e *Echo) DeepCopyObject() runtime.Object { return e.DeepCopy() }

// DeepCopy copies an Echo.
func (e *Echo) DeepCopy() *Echo {
	c := *e
	e.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	c.Spec.Entries = slices.Clone(e.Spec.Entries)
	c.Status.Conditions = slices.Clone(e.Status.Conditions)
	return &c
}

// DeepCopyObject copies a list.
func (l *EchoList) DeepCopyObject() runtime.Object {
	c := *l
	l.ListMeta.DeepCopyInto(&c.ListMeta)
	c.Items = make([]Echo, len(l.Items))
	for i := range l.Items {
		c.Items[i] = *l.Items[i].DeepCopy()
	}
	return &c
}
