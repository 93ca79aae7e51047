package handlers_test

import (
	"errors"
	"time"

	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/handlers"
)

type greetingSpec struct {
	Who string `json:"who"`
}

type greetingStatus struct {
	Greeted  string `json:"greeted,omitempty"`
	Visitors int    `json:"visitors,omitempty"`
}

type greeting = handlers.Call[greetingSpec, greetingStatus]

// greetings has the handlers of a plugin; see the package documentation for how they are
// registered.
func greetings() *handlers.Handlers[greetingSpec, greetingStatus] {
	var h handlers.Handlers[greetingSpec, greetingStatus]
	h.OnCreate("welcome", welcome).Retries(5).Backoff(10 * time.Second)
	h.OnUpdate("greet-again", greetAgain).Field("spec.who", handlers.Present)
	h.Timer(sdk.Timer{Name: "count", Interval: time.Minute}, count).Annotations("quiet", handlers.Absent)
	h.OnField("crowd", "status.visitors", crowd).When(func(c *greeting) bool { return c.Status.Visitors > 100 })
	return &h
}

func welcome(c *greeting) error {
	if c.Spec.Who == "" {
		return handlers.Permanent(errors.New("spec.who is empty"))
	}
	c.Status.Greeted = c.Spec.Who
	return nil
}

func greetAgain(c *greeting) error {
	for _, d := range c.Diff() {
		c.Log.Info("changed", "operation", string(d.Op), "old", d.Old, "new", d.New)
	}
	return welcome(c)
}

// count computes the actual state into the status, and crowd reacts to it in the same run.
func count(c *greeting) error {
	var visitors struct {
		Data map[string]string `json:"data"`
	}
	if err := c.Get(configMap.Ref(c.Namespace, c.Name), &visitors); err != nil && !errors.Is(err, sdk.ErrNotFound) {
		return err
	}
	c.Status.Visitors = len(visitors.Data)
	return nil
}

func crowd(c *greeting) error {
	c.Event(sdk.Normal, "Crowded", "more than 100 visitors")
	return nil
}

func Example() {
	h := greetings()
	sdk.Register(h.Controller(sdk.Controller[greetingSpec, greetingStatus]{
		Name:  "greeting",
		For:   sdk.Kind{APIVersion: "example.thole.dev/v1", Kind: "Greeting"},
		Reads: []sdk.Kind{configMap},
	}))
	// Output:
}
