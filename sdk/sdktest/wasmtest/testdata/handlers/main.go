// Command handlers is a plugin for tests that uses package handlers.
package main

import (
	"errors"
	"time"

	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/handlers"
)

//go:generate go run github.com/thole-dev/thole/cmd/thole-tools generate

// Spec is what the handlers react to.
type Spec struct {
	Title    string `json:"title,omitempty"`
	Replicas int    `json:"replicas,omitempty"`
	Fail     bool   `json:"fail,omitempty"`
}

// Status has what the handlers have done.
type Status struct {
	Calls    string `json:"calls,omitempty"`
	Replicas int    `json:"replicas,omitempty"`
}

type call = handlers.Call[Spec, Status]

func init() {
	var h handlers.Handlers[Spec, Status]
	h.OnCreate("create", note)
	h.OnUpdate("update", diff).Labels("tier", handlers.Value("web"))
	h.OnUpdate("fail", fail).Backoff(time.Minute).Retries(3)
	h.Timer(sdk.Timer{Name: "count", Interval: time.Minute}, count)
	h.OnField("scale", "status.replicas", note).When(func(c *call) bool { return c.Status.Replicas > 0 })
	h.OnEvent("event", broken)
	h.OnDelete("delete", note)
	sdk.Register(h.Controller(sdk.Controller[Spec, Status]{
		Name: "handlers", For: sdk.Kind{APIVersion: "example.com/v1", Kind: "Site"},
	}))
}

// note notes the name of the handler.
func note(c *call) error {
	c.Status.Calls += c.Handler + " "
	c.Log.Info("called", "handler", c.Handler)
	return nil
}

// diff notes what has changed.
func diff(c *call) error {
	if c.Old != nil {
		c.Status.Calls += c.Old.Spec.Title + "->" + c.Spec.Title + " "
	}
	for _, d := range c.Diff() {
		c.Status.Calls += string(d.Op)
		for _, name := range d.Path {
			c.Status.Calls += "." + name
		}
		c.Status.Calls += " "
	}
	return nil
}

// fail fails if the spec says so.
func fail(c *call) error {
	if c.Spec.Fail && c.Retry < 2 {
		return errors.New("as the spec says")
	}
	return note(c)
}

// count computes the actual state.
func count(c *call) error {
	c.Status.Replicas = c.Spec.Replicas
	return nil
}

func broken(*call) error { return errors.New("nobody minds") }

func main() {}
