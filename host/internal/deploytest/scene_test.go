package deploytest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/tholetest"
)

// scene is the host at work while a right is missing.
type scene struct {
	*testing.T
	grant
	*tholetest.Proxy
	host      *tholetest.Process
	restart   func()
	namespace string
	pm        string // the PodManager of this scene; each has a name of its own
	mark      int    // of the log, before the right was missed
}

// A scenario shows that the host needs a right. Afterwards the right is given
// back, and the PodManager must become healthy.
type scenario struct {
	prepare func(*scene) // before the right is taken away
	provoke func(*scene) // brings the host to need it
	// The refusal is told not only in the log: in the plugin's state, or as
	// the object's condition Ready, with the rule to add.
	inPlugins, inCondition bool
	recovered              func(*scene) // beside the PodManager's health
}

// scenarios has one for every right that the base gives.
var scenarios = map[string]scenario{
	"list podmanagers": {provoke: (*scene).startAndCreate, inPlugins: true},
	"list pods":        {provoke: (*scene).startAndCreate, inPlugins: true},
	// The plugin of a host that may list starts before the first watch is refused.
	"watch podmanagers": {provoke: (*scene).startAndCreate},
	"watch pods":        {provoke: (*scene).startAndCreate},

	"get podmanagers":          {provoke: (*scene).createAndInterfere},
	"patch podmanagers":        {provoke: (*scene).create, inCondition: true}, // the finalizer
	"patch podmanagers/status": {provoke: (*scene).create},
	"get pods":                 {provoke: (*scene).create, inCondition: true},
	"create pods":              {provoke: (*scene).create, inCondition: true},
	"patch pods":               {provoke: (*scene).create, inCondition: true},
	"delete pods":              {prepare: (*scene).createHealthy, provoke: (*scene).changeCommand, inCondition: true, recovered: (*scene).podIsReplaced},

	"create events": {provoke: (*scene).create, recovered: (*scene).anotherIsTold},
	"patch events":  {prepare: (*scene).createHealthy, provoke: (*scene).losePod, recovered: (*scene).lossIsCounted},
}

// startAndCreate starts the host anew: a watch that runs is not asked for its
// right again.
func (s *scene) startAndCreate() {
	s.restart()
	s.create()
}

func (s *scene) create() { podManager(s.T, s.namespace, s.pm) }

func (s *scene) createHealthy() {
	s.create()
	await.Until(s.T, "the PodManager is healthy", func() bool { return healthy(s.T, s.namespace, s.pm) })
	s.rest()
}

// rest waits for a run that writes nothing: a key that writes in five runs
// running is taken for one in a loop, and slowed.
func (s *scene) rest() {
	mark, asked := s.host.Log.Mark(), time.Time{}
	await.Until(s.T, "a run writes nothing", func() bool {
		if time.Since(asked) > time.Second { // the last one that was asked for may have written
			asked = time.Now()
			change(s.T, podManagers, s.namespace, s.pm, fmt.Sprintf(`{"metadata":{"labels":{"rest":"%d"}}}`, asked.UnixNano()))
		}
		return s.wroteNothing(mark)
	})
}

func (s *scene) wroteNothing(mark int) bool {
	runs := tholetest.With(s.host.Log.Since(mark), "reconciled", "object", s.namespace+"/"+s.pm)
	return slices.ContainsFunc(runs, func(line tholetest.Line) bool { return line["writes"] == 0.0 })
}

// createAndInterfere changes the object while the host writes its status.
func (s *scene) createAndInterfere() {
	s.Before(tholetest.Right{Verb: "patch", Group: podManagers.Group, Resource: "podmanagers/status"}, func() {
		change(s.T, podManagers, s.namespace, s.pm, `{"metadata":{"labels":{"somebody":"else"}}}`)
	})
	s.create()
}

func (s *scene) changeCommand() {
	change(s.T, podManagers, s.namespace, s.pm, `{"spec":{"command":["other"]}}`)
}

func (s *scene) podIsReplaced() {
	await.Until(s.T, "the Pod has the new command", func() bool {
		pod, err := admin.CoreV1().Pods(s.namespace).Get(s.Context(), s.pm, metav1.GetOptions{})
		return err == nil && slices.Equal(pod.Spec.Containers[0].Command, []string{"other"})
	})
}

// losePod makes the plugin say again what it has said before.
func (s *scene) losePod() {
	pod := get(s.T, pods, s.namespace, s.pm)
	remove(s.T, pods, s.namespace, s.pm)
	await.Until(s.T, "there is another Pod", func() bool {
		now := get(s.T, pods, s.namespace, s.pm)
		return now != nil && now.GetUID() != pod.GetUID() && healthy(s.T, s.namespace, s.pm)
	})
}

// lossIsCounted loses the Pod once more: the event that was refused is not
// sent again.
func (s *scene) lossIsCounted() {
	s.rest()
	s.losePod()
	s.told(s.pm, 2)
}

// anotherIsTold: the event that was refused is not sent again, the next one is.
func (s *scene) anotherIsTold() {
	s.pm += "-2"
	s.createHealthy()
	s.told(s.pm, 1)
}

// told waits for an event about a PodManager that was counted so often.
func (s *scene) told(pm string, count int32) {
	await.Until(s.T, fmt.Sprintf("an event about %s is counted %d times", pm, count), func() bool {
		events, err := admin.CoreV1().Events(s.namespace).List(s.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + pm})
		if err != nil {
			s.Fatal(err)
		}
		return slices.ContainsFunc(events.Items, func(e corev1.Event) bool { return e.InvolvedObject.Kind == "PodManager" && e.Count >= count })
	})
}

func (s *scene) play() {
	play, ok := scenarios[s.grant.String()]
	if !ok {
		s.Fatalf("no scenario needs the right to %s: write one, or leave the right out", s.Right)
	}
	if play.prepare != nil {
		play.prepare(s)
	}
	s.mark = s.host.Log.Mark()
	s.revoke(s.T)
	defer s.restore(s.T)
	play.provoke(s)
	missing := fmt.Sprintf("cannot %s resource %q in API group %q", s.Verb, s.Resource, s.Group)
	s.expectLogged(missing)
	if play.inPlugins {
		await.Until(s.T, "/plugins says why the plugin does not run: "+missing, func() bool {
			only := only(s.host)
			return only.State == "waiting" && strings.Contains(only.LastError, missing)
		})
	}
	if play.inCondition {
		s.expectCondition()
	}
	s.restore(s.T)
	await.Until(s.T, "the PodManager is healthy with the right back", func() bool { return healthy(s.T, s.namespace, s.pm) })
	if play.recovered != nil {
		play.recovered(s)
	}
}

func (s *scene) stop() {
	if err := s.host.Stop(); err != nil {
		s.Fatal(err)
	}
}

// expectLogged waits until the host names in its log what is missing.
func (s *scene) expectLogged(missing string) {
	s.Helper()
	await.Until(s.T, "the host says that it "+missing+"; is the right needed?", func() bool {
		return warns(s.host.Log.Since(s.mark), missing)
	})
}

// expectCondition waits until the object names the rule to add.
func (s *scene) expectCondition() {
	s.Helper()
	rule := fmt.Sprintf("{apiGroups: [%q], resources: [%q], verbs: [%q]}", s.Group, s.Resource, s.Verb)
	await.Until(s.T, "the condition Ready names the rule "+rule, func() bool {
		ready := condition(get(s.T, podManagers, s.namespace, s.pm), "Ready")
		message, _ := ready["message"].(string)
		return ready["status"] == "False" && strings.Contains(message, rule)
	})
}
