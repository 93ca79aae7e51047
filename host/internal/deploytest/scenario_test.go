package deploytest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/tholetest"
)

// missingRight is a running host without one of its rights.
type missingRight struct {
	*testing.T
	grant
	*tholetest.Proxy
	host      *tholetest.Process
	restart   func()
	namespace string
	pm        string // the name of this scenario's PodManager
	mark      int    // of the log, before the right was removed
}

// A scenario shows that the host needs a right. Afterwards the right is granted again,
// and the PodManager must become healthy.
type scenario struct {
	prepare func(*missingRight) // before the right is removed
	provoke func(*missingRight) // makes the host use it
	// The host reports the missing right in the log, and in the plugin's state or in
	// the object's condition Ready, with the rule to add.
	inPlugins, inCondition bool
	notReady               bool                // /readyz?verbose has the missing right
	recovered              func(*missingRight) // checks more than the PodManager's health
}

// scenarios has a scenario for every right of the base.
var scenarios = map[string]scenario{
	"list podmanagers": {provoke: (*missingRight).startAndCreate, inPlugins: true},
	"list pods":        {provoke: (*missingRight).startAndCreate, inPlugins: true},
	// If the host may list, the plugin starts before the first watch is refused.
	"watch podmanagers": {provoke: (*missingRight).startAndCreate},
	"watch pods":        {provoke: (*missingRight).startAndCreate},

	"get podmanagers":          {provoke: (*missingRight).createAndInterfere},
	"patch podmanagers":        {provoke: (*missingRight).create, inCondition: true}, // the finalizer
	"patch podmanagers/status": {provoke: (*missingRight).create},
	"get pods":                 {provoke: (*missingRight).createWithoutReply, inCondition: true},
	"create pods":              {provoke: (*missingRight).create, inCondition: true},
	"patch pods":               {provoke: (*missingRight).create, inCondition: true},
	"delete pods":              {prepare: (*missingRight).createHealthy, provoke: (*missingRight).changeCommand, inCondition: true, recovered: (*missingRight).podIsReplaced},

	"create events": {provoke: (*missingRight).create, recovered: (*missingRight).nextEventIsWritten},
	// Without the first two it is not known who leads, without the others nobody does.
	"list leases":   {provoke: (*missingRight).startAndCreate, inPlugins: true, notReady: true},
	"watch leases":  {provoke: (*missingRight).startAndCreate, notReady: true},
	"get leases":    {provoke: (*missingRight).renewWithoutReply, notReady: true},
	"create leases": {provoke: (*missingRight).startWithoutLeases, notReady: true},
	"update leases": {provoke: (*missingRight).startAndCreate, notReady: true},
	"patch leases":  {prepare: (*missingRight).createHealthy, provoke: (*missingRight).forgetWhatRuns, recovered: (*missingRight).tellsWhatRuns},

	"get secrets":    {prepare: (*missingRight).createHealthy, provoke: (*missingRight).damageTheModule, recovered: (*missingRight).keepsTheModule},
	"create secrets": {prepare: (*missingRight).createHealthy, provoke: (*missingRight).loseTheModule, recovered: (*missingRight).keepsTheModule},
	"update secrets": {prepare: (*missingRight).createHealthy, provoke: (*missingRight).damageTheModule, recovered: (*missingRight).keepsTheModule},

	"patch events": {prepare: (*missingRight).createHealthy, provoke: (*missingRight).losePod, recovered: (*missingRight).lossIsCounted},
}

// startAndCreate restarts the host: the API server does not check the right of a
// running watch again.
func (s *missingRight) startAndCreate() {
	s.restart()
	s.create()
}

// startWithoutLeases starts the host where there has been none.
func (s *missingRight) startWithoutLeases() {
	s.stop()
	removeLeases(s.T)
	s.startAndCreate()
}

// renewWithoutReply loses the reply to a renewal. The host then reads the Lease, because the
// watch may not show it yet.
func (s *missingRight) renewWithoutReply() {
	s.setRules("update leases lost times=1")
	s.create()
}

// forgetWhatRuns removes what the host has written on its Lease.
func (s *missingRight) forgetWhatRuns() {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, tells)
	for _, l := range leases(s.T) {
		if _, err := admin.CoordinationV1().Leases(system).Patch(s.Context(), l.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			s.Fatal(err)
		}
	}
}

func (s *missingRight) tellsWhatRuns() {
	await.Until(s.T, "the Lease has what runs", func() bool {
		return slices.ContainsFunc(leases(s.T), func(l coordinationv1.Lease) bool { return l.Annotations[tells] != "" })
	})
}

// keeps is the Secret with the last good module of the plugin podmanager.
const keeps = "thole-last-good-podmanager"

// loseTheModule deletes the Secret, and has the host look at it.
func (s *missingRight) loseTheModule() {
	if err := admin.CoreV1().Secrets(system).Delete(s.Context(), keeps, metav1.DeleteOptions{}); err != nil {
		s.Fatal(err)
	}
	s.forgetWhatRuns()
}

// damageTheModule empties the Secret, and has the host look at it.
func (s *missingRight) damageTheModule() {
	if _, err := admin.CoreV1().Secrets(system).Patch(s.Context(), keeps, types.MergePatchType, []byte(`{"data":null}`), metav1.PatchOptions{}); err != nil {
		s.Fatal(err)
	}
	s.forgetWhatRuns()
}

func (s *missingRight) keepsTheModule() {
	await.Until(s.T, "the Secret has the module", func() bool {
		secret, err := admin.CoreV1().Secrets(system).Get(s.Context(), keeps, metav1.GetOptions{})
		return err == nil && len(secret.Data) > 0
	})
}

// tells is the annotation of the plugin podmanager.
const tells = "plugins.thole.dev/podmanager"

// leases returns those of the hosts.
func leases(t *testing.T) []coordinationv1.Lease {
	t.Helper()
	list, err := admin.CoordinationV1().Leases(system).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func removeLeases(t *testing.T) {
	t.Helper()
	if err := admin.CoordinationV1().Leases(system).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (s *missingRight) create() { podManager(s.T, s.namespace, s.pm) }

// createWithoutReply loses the reply to the creation of the Pod, which the host then
// reads, because its cache may not show it yet.
func (s *missingRight) createWithoutReply() {
	s.setRules("apply pods lost times=1")
	s.create()
}

func (s *missingRight) createHealthy() {
	s.create()
	await.Until(s.T, "the PodManager is healthy", func() bool { return healthy(s.T, s.namespace, s.pm) })
	s.awaitIdle()
}

// awaitIdle waits for a run that writes nothing and emits no Event: one that runs in
// a row emit is sent once.
func (s *missingRight) awaitIdle() {
	mark, triggered := s.host.Log.Mark(), time.Time{}
	await.Until(s.T, "a run writes nothing", func() bool {
		if time.Since(triggered) > time.Second { // the run that was triggered last may have written
			triggered = time.Now()
			change(s.T, podManagers, s.namespace, s.pm, fmt.Sprintf(`{"metadata":{"labels":{"idle":"%d"}}}`, triggered.UnixNano()))
		}
		return s.wroteNothing(mark)
	})
}

func (s *missingRight) wroteNothing(mark int) bool {
	runs := s.host.Log.Since(mark).Reconciled("object", s.namespace+"/"+s.pm)
	return slices.ContainsFunc(runs, func(line tholetest.Line) bool { return line["writes"] == 0.0 })
}

// createAndInterfere changes the object while the host writes its status.
func (s *missingRight) createAndInterfere() {
	s.setRules("patch podmanagers/status hang times=1")
	s.create()
	await.Until(s.T, "the host writes the status", func() bool { return s.Rules()[0].Applied == 1 })
	change(s.T, podManagers, s.namespace, s.pm, `{"metadata":{"labels":{"somebody":"else"}}}`)
	s.setRules("")
}

func (s *missingRight) setRules(text string) {
	if err := s.SetRules(text); err != nil {
		s.Fatal(err)
	}
}

func (s *missingRight) changeCommand() {
	change(s.T, podManagers, s.namespace, s.pm, `{"spec":{"command":["other"]}}`)
}

func (s *missingRight) podIsReplaced() {
	await.Until(s.T, "the Pod has the new command", func() bool {
		pod, err := admin.CoreV1().Pods(s.namespace).Get(s.Context(), s.pm, metav1.GetOptions{})
		return err == nil && slices.Equal(pod.Spec.Containers[0].Command, []string{"other"})
	})
}

// losePod deletes the Pod, so that the plugin emits the event of its creation again.
func (s *missingRight) losePod() {
	pod := get(s.T, pods, s.namespace, s.pm)
	remove(s.T, pods, s.namespace, s.pm)
	await.Until(s.T, "there is another Pod", func() bool {
		now := get(s.T, pods, s.namespace, s.pm)
		return now != nil && now.GetUID() != pod.GetUID() && healthy(s.T, s.namespace, s.pm)
	})
}

// lossIsCounted deletes the Pod once more, because the refused event is not sent again.
func (s *missingRight) lossIsCounted() {
	s.awaitIdle()
	s.losePod()
	s.awaitEvent(s.pm, 2)
}

// nextEventIsWritten waits for the event of another PodManager, because the refused
// one is not sent again.
func (s *missingRight) nextEventIsWritten() {
	s.pm += "-2"
	s.createHealthy()
	s.awaitEvent(s.pm, 1)
}

// awaitEvent waits for an event about a PodManager with at least that count.
func (s *missingRight) awaitEvent(pm string, count int32) {
	await.Until(s.T, fmt.Sprintf("an event about %s is counted %d times", pm, count), func() bool {
		events, err := admin.CoreV1().Events(s.namespace).List(s.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + pm})
		if err != nil {
			s.Fatal(err)
		}
		return slices.ContainsFunc(events.Items, func(e corev1.Event) bool { return e.InvolvedObject.Kind == "PodManager" && e.Count >= count })
	})
}

func (s *missingRight) run() {
	scenario, ok := scenarios[s.grant.String()]
	if !ok {
		s.Fatalf("no scenario needs the right to %s: write one, or remove the right", s.Right)
	}
	if scenario.prepare != nil {
		scenario.prepare(s)
	}
	s.mark = s.host.Log.Mark()
	s.revoke(s.T)
	defer s.restore(s.T)
	scenario.provoke(s)
	missing := fmt.Sprintf("cannot %s resource %q in API group %q", s.Verb, s.Resource, s.Group)
	s.expectLogged(missing)
	if scenario.inPlugins {
		await.Until(s.T, "/plugins has the reason why the plugin does not run: "+missing, func() bool {
			only := only(s.host)
			return only.State == "waiting" && strings.Contains(only.LastError, missing)
		})
	}
	if scenario.notReady {
		await.Until(s.T, "/readyz?verbose has the reason why the host cannot lead: "+missing, func() bool {
			status, body := s.host.Get("/readyz?verbose")
			return status == http.StatusServiceUnavailable && strings.Contains(body, missing)
		})
	}
	if scenario.inCondition {
		s.expectCondition()
	}
	s.restore(s.T)
	await.Until(s.T, "the PodManager is healthy after the right is granted again", func() bool { return healthy(s.T, s.namespace, s.pm) })
	if scenario.recovered != nil {
		scenario.recovered(s)
	}
}

func (s *missingRight) stop() {
	if err := s.host.Stop(); err != nil {
		s.Fatal(err)
	}
}

// expectLogged waits until the host logs that the right is missing.
func (s *missingRight) expectLogged(missing string) {
	s.Helper()
	await.Until(s.T, "the host logs "+missing+" (is the right needed?)", func() bool {
		lines := withField(s.host.Log.Since(s.mark), missing)
		return len(lines.With("@level", "warn")) > 0 || len(lines.With("@level", "error")) > 0
	})
}

// expectCondition waits until the object's condition Ready has the rule to add.
func (s *missingRight) expectCondition() {
	s.Helper()
	rule := fmt.Sprintf("{apiGroups: ['%s'], resources: ['%s'], verbs: ['%s']}", s.Group, s.Resource, s.Verb)
	await.Until(s.T, "the condition Ready names the rule "+rule, func() bool {
		ready := condition(get(s.T, podManagers, s.namespace, s.pm), "Ready")
		message, _ := ready["message"].(string)
		return ready["status"] == "False" && strings.Contains(message, rule)
	})
}
