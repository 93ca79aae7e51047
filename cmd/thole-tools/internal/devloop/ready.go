package devloop

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/runner"
)

// sampleState is how far the objects of sample.yaml have come.
type sampleState struct {
	objects   map[string]*sampleObject    // by kind, namespace and name
	primaries map[string]schema.GroupKind // of the plugin, by the name of the controller
	ready     map[schema.GroupKind]bool   // kinds in whose objects the host always writes the condition Ready
	complete  bool                        // all were Ready since the last apply
	suggested bool                        // commands were suggested

	waits      bool      // sample.yaml is to be applied
	registered time.Time // since when the API server has the webhooks for which it waits; zero before
}

// sampleObject is an object of sample.yaml.
type sampleObject struct {
	wanted  *object
	applied time.Time
	latest  *object // as it was last seen; nil: not yet
	ran     bool    // a run of it has ended
	reached bool    // the last run has succeeded
	ready   bool    // it was Ready since it was applied
}

func newSampleState() sampleState {
	return sampleState{objects: map[string]*sampleObject{}, primaries: map[string]schema.GroupKind{}, ready: map[schema.GroupKind]bool{}}
}

// watchSample follows the kind of an object of sample.yaml that is about to be
// applied, so that what happens to it is seen from the beginning.
func (s *session) watchSample(ctx context.Context, o *object) {
	if err := untilServed(ctx, func(context.Context) error { _, err := s.client.resourceOf(o); return err }); err != nil {
		return // the apply reports it
	}
	s.watch.primaries.add(o.GroupVersionKind().GroupKind())
	s.followKind(ctx, o.GroupVersionKind())
	s.sample.objects[named(o)] = &sampleObject{wanted: o, applied: time.Now()}
	s.sample.complete = false
}

// relevant returns the objects of the sample that the plugin reconciles, ordered by
// name.
func (s *sampleState) relevant() (all []*sampleObject) {
	kinds := slices.Collect(maps.Values(s.primaries))
	for _, name := range slices.Sorted(maps.Keys(s.objects)) {
		if o := s.objects[name]; slices.Contains(kinds, o.wanted.GroupVersionKind().GroupKind()) {
			all = append(all, o)
		}
	}
	return all
}

// noteRun records that a run has ended.
func (s *sampleState) noteRun(e events.RunEnded) {
	kind := s.primaries[e.Controller].Kind
	for name, o := range s.objects {
		if name == kind+" "+e.Object {
			o.ran, o.reached = true, e.Failure.Class == abi.ClassNone && e.Result != string(outcome.MetricRequeue)
		}
	}
}

// onSampleChange records the state of an object of the sample.
func (s *session) onSampleChange(at time.Time, c *objectChange) {
	if c.new != nil {
		if o := s.sample.objects[named(c.new)]; o != nil {
			o.latest = c.new
		}
	}
	s.checkSample(at)
}

// checkSample shows which objects of the sample have become Ready, and ends a
// session that waits for all of them.
func (s *session) checkSample(at time.Time) {
	all := s.sample.relevant()
	complete := len(all) > 0
	for _, o := range all {
		if o.latest != nil && o.ran && !o.ready && s.sample.isReady(o) {
			o.ready = true
			s.out.say("ready", good, "%s, %s after it was applied", named(o.latest), shortDuration(at.Sub(o.applied)))
		}
		complete = complete && o.ready
	}
	if !complete || s.sample.complete {
		return
	}
	s.sample.complete = true
	if s.Once {
		s.fail(errDone)
		return
	}
	if !s.sample.suggested {
		s.sample.suggested = true
		s.suggest(all)
	}
}

// isReady reports whether an object is Ready, for its present generation. Where the host does not
// always write the condition, the last run must have succeeded.
func (s *sampleState) isReady(o *sampleObject) bool {
	if !s.ready[o.latest.GroupVersionKind().GroupKind()] {
		return o.reached && isObserved(o.latest)
	}
	return isObserved(o.latest) && slices.ContainsFunc(conditions(o.latest), isReadyCondition)
}

// isObserved reports whether the status is about the present generation, if it states one.
func isObserved(o *object) bool {
	observed, found, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
	return !found || observed == o.GetGeneration()
}

// suggest shows commands to try next.
func (s *session) suggest(sample []*sampleObject) {
	o := sample[0].wanted
	where := ""
	if o.GetNamespace() != "" {
		where = " -n " + o.GetNamespace()
	}
	names := s.client.resourceNames()
	kind := names(o.GroupVersionKind())
	resources := []string{kind}
	for followed := range s.watch.kinds {
		if name := names(followed); followed != eventKind && !slices.Contains(resources, name) {
			resources = append(resources, name)
		}
	}
	slices.Sort(resources[1:])
	s.out.say("try", plain, "in the other terminal:")
	s.out.text("kubectl get " + strings.Join(resources, ",") + where + "\n" +
		"kubectl edit " + kind + " " + o.GetName() + where + "\n" +
		"kubectl delete " + kind + " " + o.GetName() + where)
}

// notReadyError explains why the sample is not Ready.
func (s *session) notReadyError() error {
	facts := []string{fmt.Sprintf("the sample is not Ready after %s", s.Timeout)}
	all := s.sample.relevant()
	for _, o := range all {
		if !o.ready {
			facts = append(facts, describeNotReady(o)...)
		}
	}
	switch {
	case s.sample.waits:
		facts = append(facts, sampleFile+" was not applied: it waits for the webhooks of the plugin")
	case len(s.sample.objects) == 0:
		facts = append(facts, "no object of "+sampleFile+" could be applied")
	case len(all) == 0 && len(s.sample.primaries) > 0:
		facts = append(facts, sampleFile+" has no object of a kind that the plugin reconciles")
	}
	for _, p := range s.host.Plugins() {
		facts = append(facts, describePlugin(p))
	}
	return errors.New(strings.Join(facts, "\n    "))
}

func describeNotReady(o *sampleObject) (facts []string) {
	if o.latest == nil {
		return []string{named(o.wanted) + " was not seen yet"}
	}
	for _, c := range conditions(o.latest) {
		facts = append(facts, strings.TrimSuffix(named(o.latest)+" has "+conditionText(c)+": "+oneLine(c.Message), ": "))
	}
	switch {
	case len(facts) > 0:
	case !o.ran:
		facts = []string{named(o.latest) + " has no condition: it was not reconciled"}
	case !o.reached:
		facts = []string{named(o.latest) + " has no condition: its last run has not succeeded"}
	}
	return facts
}

func describePlugin(p runner.PluginStatus) string {
	text := fmt.Sprintf("plugin %s is %s", p.Name, p.State)
	if problem := p.Problem(); problem != "" {
		text += ": " + problem
	}
	return text
}
