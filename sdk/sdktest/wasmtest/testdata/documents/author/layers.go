package author

import (
	"time"

	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/handlers"
	"github.com/thole-dev/thole/sdk/kubernetes/deployment"
	"github.com/thole-dev/thole/sdk/operator"
)

// Handlers for single changes, Reconcilers and watchers, Own Pods without following all Pods.

func init() {
	var h handlers.Handlers[Spec, Status]
	h.OnCreate("dns", createRecord).Retries(5).Backoff(10 * time.Second)
	h.OnUpdate("rename", rename).Old("spec.title", handlers.Present)
	h.OnField("scale", "spec.replicas", scale).Labels("tier", handlers.Value("web"))
	h.OnDelete("dns-gone", deleteRecord)
	sdk.Register(h.Controller(sdk.Controller[Spec, Status]{Name: "site", For: siteKind, Owns: []sdk.Kind{deployment.Kind}}))
}

type call = handlers.Call[Spec, Status]

func scale(c *call) error {
	c.Log.Info("scaling", "from", c.OldValue, "to", c.NewValue)
	c.Apply(deploymentFor(c.Name, c.Spec))
	c.Status.Scaled = c.Spec.Replicas
	return nil
}

func createRecord(c *call) error {
	found(c.Request, c.Handler)
	return nil
}

func rename(c *call) error {
	for _, d := range c.Diff() {
		found(c.Request, string(d.Op)+" "+string(d.Old)+" "+string(d.New))
	}
	return nil
}

func deleteRecord(c *call) error {
	c.Event(sdk.Normal, "RecordDeleted", c.Name)
	return nil
}

func init() {
	var h handlers.Handlers[Spec, Status]
	h.Timer(sdk.Timer{Name: "count", Interval: 10 * time.Second}, func(c *call) error {
		pods, err := podsOf(c)
		c.Status.Replicas = len(pods)
		return err
	})
	h.OnField("replicas", "status.replicas", reachReplicas)
	h.OnField("wanted", "spec.replicas", reachReplicas)
	sdk.Register(h.Controller(sdk.Controller[Spec, Status]{Name: "replicas", For: siteKind, Reads: []sdk.Kind{podKind}}))
}

func podsOf(c *call) (pods []Pod, err error) {
	err = c.List(sdk.Query{Kind: podKind, LabelSelector: "site=" + c.Name}, &pods)
	return pods, err
}

func reachReplicas(c *call) error {
	found(c.Request, c.Handler+" "+string(c.OldValue)+" "+string(c.NewValue))
	return nil
}

func init() {
	w := operator.Watcher[Spec, Status]{Add: add, Update: update, Delete: remove, Opinionated: true}
	sdk.Register(w.Controller(sdk.Controller[Spec, Status]{Name: "site-watcher", For: siteKind}))
}

func add(r *request) error {
	found(r, "add "+r.Spec.Title)
	return nil
}

func update(old *sdk.Object[Spec, Status], r *sdk.Request[Spec, Status]) error {
	found(r, "update "+old.Spec.Title+" "+r.Spec.Title)
	return nil
}

func remove(r *request) error {
	r.Event(sdk.Normal, "Removed", r.Name)
	return nil
}

func init() {
	sdk.Plugin("web", "1.0.0")
	sdk.Managed()
	sdk.Register(controller)
}

var controller = sdk.Controller[Spec, Status]{
	Name: "managed",
	For:  siteKind,
	Owns: []sdk.Kind{podKind},
	Reconcile: func(r *request) (sdk.Action, error) {
		r.Apply(newPod(r.Name))
		return sdk.AwaitChange(), nil
	},
}
