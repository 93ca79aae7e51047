// Package author has the fragments of docs/how-to/author.md, in its order. Each is in a
// controller of its own, whose function writes what the fragment has found.
package author

import (
	"errors"

	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/kubernetes/configmap"
	"github.com/thole-dev/thole/sdk/kubernetes/deployment"
	"github.com/thole-dev/thole/sdk/kubernetes/job"
	"github.com/thole-dev/thole/sdk/kubernetes/pod"
)

// This file has what the fragments presuppose.

type (
	request = sdk.Request[Spec, Status]
	// ConfigMap has all fields.
	ConfigMap = configmap.ConfigMap

	// Spec has the fields that the fragments read, and what a function shall do.
	Spec struct {
		Do       string             `json:"do,omitempty"`
		Title    string             `json:"title,omitempty"`
		Image    string             `json:"image,omitempty"`
		Zone     string             `json:"zone,omitempty"`
		Replicas int                `json:"replicas,omitempty"`
		Sites    []string           `json:"sites,omitempty"`
		Selector *sdk.LabelSelector `json:"selector,omitempty"`
		Interval sdk.Duration       `json:"interval,omitzero"`
		Start    sdk.Time           `json:"start,omitempty"`
	}
	// Status has the fields that the fragments write, and what they have found.
	Status struct {
		Found        []string `json:"found,omitempty"`
		Nodes        []string `json:"nodes,omitempty"`
		Phase        string   `json:"phase,omitempty"`
		ContainerID  string   `json:"containerId,omitempty"`
		Replicas     int      `json:"replicas,omitempty"`
		Scaled       int      `json:"scaled,omitempty"`
		LastExitCode int      `json:"lastExitCode,omitempty"`
	}

	// Pod, PodSpec and PodStatus have the fields that the fragments read.
	Pod struct {
		sdk.TypeMeta
		Metadata sdk.ObjectMeta `json:"metadata"`
		Spec     PodSpec        `json:"spec,omitzero"`
		Status   PodStatus      `json:"status,omitzero"`
	}
	PodSpec struct {
		NodeName string `json:"nodeName,omitempty"`
	}
	PodStatus struct {
		Phase string `json:"phase,omitempty"`
		PodIP string `json:"podIP,omitempty"`
	}

	// Secret has the part that is read of one.
	Secret struct {
		Metadata sdk.ObjectMeta `json:"metadata"`
	}

	// Seen is the state of the daemon.
	Seen struct {
		Pods int `json:"pods"`
	}
	// ContainerStopped is the data of an event.
	ContainerStopped struct {
		ExitCode int `json:"exitCode"`
	}
)

var (
	siteKind   = sdk.Kind{APIVersion: "example.com/v1", Kind: "Site"}
	labKind    = sdk.Kind{APIVersion: "example.com/v1", Kind: "Lab"}
	record     = sdk.Kind{APIVersion: "example.com/v1", Kind: "Record"}
	nodeKind   = sdk.Kind{APIVersion: "v1", Kind: "Node"}
	secretKind = sdk.Kind{APIVersion: "v1", Kind: "Secret"}
	podKind    = pod.Kind
	jobKind    = job.Kind
	configMap  = configmap.Kind

	errQuota = errors.New("the quota is used up")
)

// register adds a controller, whose fragments do not have these fields.
func register(kind sdk.Kind, name string, reconcile func(*request) (sdk.Action, error), c sdk.Controller[Spec, Status]) {
	c.For, c.Name, c.Reconcile = kind, name, reconcile
	sdk.Register(c)
}

// found adds texts to the status.
func found(r *request, texts ...string) { r.Status.Found = append(r.Status.Found, texts...) }

// foundPods adds the names of pods to the status, with what was read of them.
func foundPods(r *request, pods ...Pod) {
	for _, p := range pods {
		found(r, p.Metadata.Name+" "+p.Spec.NodeName+" "+p.Status.Phase)
	}
}

// nothing writes nothing.
func nothing(*request) (sdk.Action, error) { return sdk.AwaitChange(), nil }

func newPod(name string) pod.Pod {
	p := pod.New(name)
	p.Spec.Containers = []pod.Container{{Name: "web", Image: "nginx"}}
	return p
}

func newJob(name string) job.Job {
	j := job.New(name)
	j.Spec.Template.Spec = pod.Spec{RestartPolicy: "Never", Containers: []pod.Container{{Name: "migrate", Image: "migrate"}}}
	return j
}

func deploymentOf(name string) deployment.Deployment {
	d := deployment.New(name)
	d.Spec.Template.Spec = newPod(name).Spec
	return d
}

func deploymentFor(name string, spec Spec) deployment.Deployment {
	d := deploymentOf(name)
	d.Spec.Replicas = new(int32(spec.Replicas))
	return d
}
