package author

import (
	"errors"
	"fmt"
	"time"

	"github.com/thole-dev/thole/sdk"
)

// Watch something for an object, Look for the objects that are due, Count objects by a field, Talk
// to another system, Publish and receive events, Review requests to the API server.

func init() {
	register(siteKind, "daemon", noteSeen,
		sdk.Controller[Spec, Status]{
			Reads:   []sdk.Kind{podKind},
			Indexes: []sdk.Index{bySite},
			Daemon: sdk.Daemon(func(d *sdk.DaemonStep[Spec, Status], seen *Seen) error {
				if d.Stopping() {
					return nil
				}
				pods, err := d.Lookup(sdk.IndexQuery{Index: "by-site", Key: d.Name})
				if err != nil {
					return err
				}
				if d.Woken(sdk.DaemonStart) || len(pods) != seen.Pods {
					seen.Pods = len(pods)
					d.Signal(seen)
				}
				d.Wait(sdk.ReadChange(), sdk.After(time.Minute))
				return nil
			}),
		})
	register(labKind, "scans", noteDue,
		sdk.Controller[Spec, Status]{
			Indexes: []sdk.Index{{Name: "phase", Kind: labKind, Field: "status.phase"}},
			Scans: []sdk.ScanFunc{
				sdk.Scan("due", 30*time.Second, func(s *sdk.Scanning) error {
					pending, err := sdk.Primaries[Spec, Status](s, sdk.Query{FieldSelector: "status.phase=Pending"})
					for _, o := range pending {
						if !o.Spec.Start.Time().After(s.Now) {
							s.Signal(o.Namespace, o.Name, "start")
						}
					}
					return err
				}),
				sdk.Scan("cleanup", 5*time.Minute, cleanup),
			},
			Gauges: []sdk.Gauge{{Index: "phase"}},
		})
	register(siteKind, "http", send,
		sdk.Controller[Spec, Status]{
			HTTP: []sdk.HTTPHost{{Host: "api.example.com", Methods: []string{"PUT", "DELETE"}}},
		})
	register(labKind, "events", receive,
		sdk.Controller[Spec, Status]{
			CloudEvents: true,
			Indexes:     []sdk.Index{{Name: "container-id", Kind: labKind, Field: "status.containerId"}},
			Receives: []sdk.Receive{
				{Type: "lab.requested"}, // subject is the namespace, a slash and the name of the object
				{Type: "container.stopped", Resolve: &sdk.Resolve{Index: "container-id", From: "data.containerId"}},
			},
		})
	register(siteKind, "reviews", nothing,
		sdk.Controller[Spec, Status]{
			Validate: sdk.Validate(func(r *sdk.Review, old, object *sdk.Object[Spec, Status]) error {
				if object.Deleting() {
					return nil
				}
				if old != nil && object.Spec.Zone != old.Spec.Zone {
					return sdk.Denied("Invalid", errors.New("spec.zone cannot be changed"))
				}
				if object.Spec.Replicas > 5 {
					r.Warn("more than 5 replicas are rarely of use")
				}
				return nil
			}),
			Mutate: sdk.Mutate(func(r *sdk.Review, old, object *sdk.Object[Spec, Status]) error {
				if !object.Deleting() && object.Spec.Replicas == 0 {
					object.Spec.Replicas = 1
				}
				return nil
			}),
		})
}

// noteSeen notes the values that the daemon has signalled.
func noteSeen(r *request) (sdk.Action, error) {
	for _, signal := range r.Signals {
		var seen Seen
		if err := sdk.Decode(signal, &seen); err != nil {
			return sdk.Action{}, err
		}
		r.Status.Replicas = seen.Pods
	}
	return sdk.AwaitChange(), nil
}

// noteDue notes what the scans have signalled.
func noteDue(r *request) (sdk.Action, error) {
	for _, signal := range r.Signals {
		found(r, string(signal))
	}
	return sdk.AwaitChange(), nil
}

// cleanup finds what is done.
func cleanup(s *sdk.Scanning) error {
	done, err := sdk.Primaries[Spec, Status](s, sdk.Query{FieldSelector: "status.phase=Done"})
	for _, o := range done {
		s.Signal(o.Namespace, o.Name, "cleanup")
	}
	return err
}

func send(r *request) (sdk.Action, error) {
	body := []byte(r.Spec.Title)
	answer, err := r.HTTP(sdk.HTTPRequest{
		Method: "PUT", URL: "https://api.example.com/sites/" + r.Name, Body: body,
		Headers: []sdk.HTTPHeader{{Name: "Content-Type", Value: "application/json"}},
	})
	switch {
	case err != nil:
		return sdk.Action{}, err // no answer: a timeout, no connection, a bad certificate
	case !answer.OK():
		return sdk.Action{}, sdk.RetryAfter(time.Minute, fmt.Errorf("status %d", answer.Status))
	}
	found(r, string(answer.Body))
	return sdk.AwaitChange(), nil
}

func receive(r *request) (sdk.Action, error) {
	for e := range r.Received() {
		var stopped ContainerStopped
		if err := sdk.Decode(e.Data, &stopped); err != nil {
			r.Log.Warn("ignored an event", "id", e.ID, "source", e.Source, "error", err)
			continue
		}
		r.Status.LastExitCode = stopped.ExitCode
	}
	return sdk.AwaitChange(), nil
}
