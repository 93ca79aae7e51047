package host

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/certificates"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/devcluster"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/rights"
	"github.com/thole-dev/thole/host/serve"
	"github.com/thole-dev/thole/host/status"
	"github.com/thole-dev/thole/host/webhook"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// gates are plugins that review what they are told to, in two replicas of a host.
type gates struct {
	*testing.T
	*runningHost              // the first replica
	second       *runningHost // which has the same directory of plugins
	cluster      *rest.Config
	objects      dynamic.Interface
	wasm         []byte
	audit        string // the audit log of the API server
	replica      func(change func(*config.Config)) *runningHost
	names        atomic.Int64

	mu       sync.Mutex
	warnings []string // since they were taken last
}

// HandleWarningHeader implements [rest.WarningHandler].
func (g *gates) HandleWarningHeader(_ int, _, text string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.warnings = append(g.warnings, text)
}

// takeWarnings returns the warnings of the last requests, one a line.
func (g *gates) takeWarnings() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	text := strings.Join(g.warnings, "\n")
	g.warnings = nil
	return text
}

// gate returns the resource of the objects of a plugin, a or b.
func gate(plugin, version string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "test.thole.dev", Version: version, Resource: "gate" + plugin + "s"}
}

var (
	validatingConfigurations = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"}
	mutatingConfigurations   = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"}
)

// service stands for a Service: each connection is one to the first replica that is ready and takes it.
type service struct {
	net.Listener
	mu       sync.Mutex
	replicas []*Host
	wasReady map[*Host]time.Time
	open     sync.WaitGroup
}

func startService(t *testing.T) *service {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &service{Listener: l, wasReady: map[*Host]time.Time{}}
	s.open.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.open.Go(func() { s.forward(c) })
		}
	})
	t.Cleanup(func() { l.Close(); s.open.Wait() }) // the replicas have ended their connections
	return s
}

func (s *service) add(replica *Host) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replicas = append(s.replicas, replica)
}

func (s *service) forward(from net.Conn) {
	defer from.Close()
	s.mu.Lock()
	replicas := slices.Clone(s.replicas)
	s.mu.Unlock()
	for _, replica := range replicas {
		if !s.takes(replica) {
			continue
		}
		to, err := net.Dial("tcp", replica.webhooks.server.Address())
		if err != nil {
			continue
		}
		defer to.Close()
		go func() { _, _ = io.Copy(to, from); to.Close() }()
		_, _ = io.Copy(from, to)
		return
	}
}

// takes reports whether a replica is given connections: like a kubelet by default, the service waits for some
// failures in a row. Connections that a replica refuses are given to another one at once.
func (s *service) takes(replica *Host) bool {
	now := ready(replica)
	s.mu.Lock()
	defer s.mu.Unlock()
	if now {
		s.wasReady[replica] = time.Now()
	}
	return time.Since(s.wasReady[replica]) < 3*time.Second
}

// ready reports what /readyz does.
func ready(h *Host) bool {
	return !slices.ContainsFunc(h.readiness(), func(c serve.Check) bool { return c.Ready() != nil })
}

func startGates(t *testing.T, validity time.Duration) *gates {
	t.Helper()
	g := &gates{T: t, audit: filepath.Join(t.TempDir(), "audit.log")}
	cluster := devcluster.Start(t, "--audit-log", g.audit)
	g.cluster = rest.CopyConfig(cluster.Config)
	g.cluster.QPS, g.cluster.WarningHandler = -1, g
	g.objects = dynamic.NewForConfigOrDie(g.cluster)
	service, host := startService(t), g.asHost(cluster.Config)
	g.replica = func(change func(*config.Config)) *runningHost {
		r := start(t, host, func(c *config.Config) {
			c.Allow = config.Allow{Entries: map[string]rights.Entries{config.EveryPlugin: rights.Everything()}, Webhooks: []string{config.EveryPlugin}}
			c.Webhook = config.Webhook{
				Listen: "127.0.0.1:0", URL: "https://" + service.Addr().String(), Secret: config.WebhookSecret{Namespace: "default"}, Validity: config.Duration{Duration: validity},
			}
			c.LeaderElection = config.LeaderElection{LeaderElect: true, ResourceNamespace: "default", Shards: 1}
			change(c)
		})
		service.add(r.host)
		return r
	}
	g.runningHost = g.replica(func(*config.Config) {})
	g.second = g.replica(func(c *config.Config) { c.Plugins = g.dir })
	g.wasm = wasmbuild.Build(t, wasmbuild.TinyGo, "host/testdata/gate")
	return g
}

// asHost returns the configuration of a user that has the rights of a host and no others.
func (g *gates) asHost(cluster *rest.Config) *rest.Config {
	g.Helper()
	client := kubernetes.NewForConfigOrDie(g.cluster)
	rule := func(group, resources, verbs string, names ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: strings.Fields(resources), Verbs: strings.Fields(verbs), ResourceNames: names}
	}
	rules := []rbacv1.PolicyRule{
		// For what the plugins do otherwise.
		rule("test.thole.dev", "*", "get list watch patch"), rule("", "configmaps", "get list watch"), rule("", "events", "create patch"), rule("coordination.k8s.io", "leases", "*"),
	}
	rules = append(rules, deployedRules(g, "webhook/rbac-webhook.yaml")...)
	for _, plugin := range []string{"a", "b"} { // as thole rbac prints them
		all := []abi.Operation{abi.OperationCreate}
		kind := abi.Kind{APIVersion: "test.thole.dev/v1", Kind: "Gate"}
		m := &abi.Manifest{Name: "gate-" + plugin, Controllers: []abi.Controller{{For: abi.Followed{Kind: kind}, Validate: all, Mutate: all, Convert: true}}}
		for _, r := range rights.WebhookRules(m, func(abi.Kind) (object.Resource, bool) { return object.Resource{GVR: gate(plugin, "v1")}, true }) {
			rules = append(rules, rule(r.Group, r.Resource, strings.Join(r.Verbs, " "), r.Name))
		}
	}
	grant(g, client, "host", userHost, rules...)
	host := rest.CopyConfig(cluster)
	host.Impersonate = rest.ImpersonationConfig{UserName: "host"}
	return host
}

// define creates the CRD of a plugin.
func (g *gates) define(plugin string) {
	g.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "gate", "crd.yaml"))
	if err != nil {
		g.Fatal(err)
	}
	path := filepath.Join(g.TempDir(), "crd.yaml")
	writeText(g.T, path, strings.NewReplacer("PLUGIN", plugin, "UPPER", strings.ToUpper(plugin)).Replace(string(text)))
	apply(g.T, g.objects.Resource(crds), path)
}

// module returns the module of a plugin in some revision.
func (g *gates) module(plugin string, revision int) []byte {
	m := bytes.ReplaceAll(g.wasm, []byte("gate-a"), []byte("gate-"+plugin))
	m = bytes.ReplaceAll(m, []byte("GateA"), []byte("Gate"+strings.ToUpper(plugin)))
	return bytes.ReplaceAll(m, []byte(revisionText(1)), []byte(revisionText(revision)))
}

// revisionText is what a revision warns with, as long as the one that it replaces.
func revisionText(revision int) string { return fmt.Sprintf("revision-%05d", revision) }

// run makes a plugin run with a policy, and waits until the API server asks it.
func (g *gates) run(plugin, policy string) {
	g.Helper()
	g.define(plugin)
	g.policy(plugin, policy)
	g.install("gate-"+plugin, g.module(plugin, 1))
	g.awaitRegistered(plugin)
}

func (g *gates) policy(plugin, text string) {
	writeText(g.T, filepath.Join(g.dir, "gate-"+plugin+".yaml"),
		"apiVersion: thole.dev/v1alpha1\nallow: [{groups: [''], kinds: [ConfigMap], verbs: [get, list, watch]}]\n"+text+"\n")
}

// awaitRegistered waits until an object that is denied cannot be created.
func (g *gates) awaitRegistered(plugin string) {
	g.Helper()
	await.Until(g.T, "the API server asks gate-"+plugin, func() bool {
		_, err := g.try(plugin, "deny at all")
		return err != nil && strings.Contains(err.Error(), "text: at all")
	})
	g.takeWarnings()
}

func gateObject(plugin, name, text string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "test.thole.dev/v1", "kind": "Gate" + strings.ToUpper(plugin),
		"metadata": map[string]any{"name": name, "namespace": "default"},
		"spec":     map[string]any{"text": text},
	}}
}

// try creates an object with a name of its own.
func (g *gates) try(plugin, text string) (*unstructured.Unstructured, error) {
	return g.create(plugin, fmt.Sprintf("o-%d", g.names.Add(1)), text)
}

func (g *gates) create(plugin, name, text string) (*unstructured.Unstructured, error) {
	return g.v1(plugin).Create(g.Context(), gateObject(plugin, name, text), metav1.CreateOptions{FieldManager: "test"})
}

func (g *gates) v1(plugin string) dynamic.ResourceInterface {
	return g.objects.Resource(gate(plugin, "v1")).Namespace("default")
}

func (g *gates) v2(plugin string) dynamic.ResourceInterface {
	return g.objects.Resource(gate(plugin, "v2")).Namespace("default")
}

// ok fails the test if err is not nil.
func (g *gates) ok(err error) {
	g.Helper()
	if err != nil {
		g.Fatal(err)
	}
}

func (g *gates) expectError(err error, parts ...string) {
	g.Helper()
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			g.Errorf("got %v, want %q", err, part)
		}
	}
}

// What is offered and not reviewed is told.
func TestWhatIsNotReviewedIsTold(t *testing.T) {
	m := &abi.Manifest{Controllers: []abi.Controller{{Validate: []abi.Operation{abi.OperationCreate}}}}
	log := &log{}
	logger := hclog.New(&hclog.LoggerOptions{Output: log})
	var none *webhooks
	none.observe(events.PluginStarted{Revision: events.Revision{Plugin: "quiet"}, Manifest: &abi.Manifest{}}, logger)
	none.observe(events.PluginStarted{Revision: events.Revision{Plugin: "p"}, Manifest: m}, logger)
	if text := log.String(); strings.Count(text, notServed) != 1 || !strings.Contains(text, "plugin=p") {
		t.Errorf("logged %s", text)
	}
	if none.problem("p", true) != notServed || none.problem("quiet", false) != "" {
		t.Error("without an address nothing is told")
	}
	w := &webhooks{registrar: webhook.NewRegistrar(webhook.RegistrarConfig{}), keeper: certificates.NewKeeper(certificates.KeeperConfig{Namespace: "n", Name: "s"})}
	if got := w.problem("p", true); !strings.HasPrefix(got, notRegistered+": ") || w.problem("quiet", false) != "" {
		t.Errorf("before there is a certificate the problem is %q", got)
	}
}

func TestReviewsOfTheAPIServerAreAnswered(t *testing.T) {
	g := startGates(t, time.Minute)
	g.run("a", "webhooks: {timeout: 10s}")
	g.run("b", "webhooks: {failurePolicy: Ignore, timeout: 10s}")
	sub := func(name string, f func(g *gates)) {
		t.Run(name, func(t *testing.T) {
			before := g.T
			g.T, g.runningHost.t, g.second.t = t, t, t
			defer func() { g.T, g.runningHost.t, g.second.t = before, before, before }()
			f(g)
		})
	}
	sub("ValidationDeniesWithReasonAndMessage", (*gates).testDenied)
	sub("WarningsAndAuditAnnotationsArePassedOn", (*gates).testWarnings)
	sub("MutationKeepsWhatItDoesNotChange", (*gates).testMutation)
	sub("EachReplicaReviews", (*gates).testReplicas)
	sub("ObjectsAreConverted", (*gates).testConversion)
	sub("SpinningValidatorHarmsNoOther", (*gates).testSpinning)
	sub("ChangedConfigurationIsRepaired", (*gates).testRepair)
	sub("RefusedMatchConditionIsShown", (*gates).testMatchConditions)
	sub("SwapsAndARotationUnderLoadFailNoRequest", (*gates).testSwap)
	sub("StopOfAReplicaUnderLoadFailsNoRequest", (*gates).testStop)
	sub("StartedHostConvertsWhatItsFirstListNeeds", (*gates).testStart)
	sub("RemovedPluginIsNotAskedAnyMore", (*gates).testRemoved)
}

func (g *gates) testDenied() {
	_, err := g.try("a", "deny too long")
	g.expectError(err, `admission webhook "main.gate-a.thole.dev" denied the request`, "text: too long")
	if !apierrors.IsInvalid(err) {
		g.Errorf("%v is not Invalid", err)
	}
	_, err = g.create("a", "kept", "keep")
	g.ok(err)
	err = g.v1("a").Delete(g.Context(), "kept", metav1.DeleteOptions{})
	g.expectError(err, "it is to be kept")
	if !apierrors.IsForbidden(err) {
		g.Errorf("%v is not Forbidden", err)
	}
	_, err = g.v1("a").Patch(g.Context(), "kept", types.MergePatchType, []byte(`{"spec":{"text":"deny updates"}}`), metav1.PatchOptions{})
	g.expectError(err, "text: updates")
}

func (g *gates) testWarnings() {
	g.takeWarnings()
	_, err := g.create("a", "audited", "warn mind the gap")
	g.ok(err)
	if got := g.takeWarnings(); got != "mind the gap" {
		g.Errorf("warnings %q", got)
	}
	await.Until(g.T, "the audit log has the annotation", func() bool {
		text, err := os.ReadFile(g.audit)
		return err == nil && bytes.Contains(text, []byte(`"main.gate-a.thole.dev/seen":"mind the gap"`))
	})
	_, err = g.try("a", "who")
	g.ok(err)
	if got := g.takeWarnings(); !strings.Contains(got, "system:masters") {
		g.Errorf("warnings %q do not have the groups of the user", got)
	}
	config := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "read"}, "data": map[string]any{"text": "this"},
	}}
	_, err = g.objects.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("default").Create(g.Context(), config, metav1.CreateOptions{})
	g.ok(err)
	await.Until(g.T, "the plugin reads the ConfigMap", func() bool {
		_, err := g.try("a", "read read")
		return err == nil && strings.Contains(g.takeWarnings(), "found this")
	})
}

func (g *gates) testMutation() {
	o := gateObject("a", "mutated", "some text")
	o.SetAnnotations(map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}"})
	o.Object["spec"].(map[string]any)["extra"] = map[string]any{"big": int64(9007199254740993), "deep": []any{map[string]any{"a/b~c": nil}}}
	got, err := g.v1("a").Create(g.Context(), o, metav1.CreateOptions{})
	g.ok(err)
	spec := got.Object["spec"].(map[string]any)
	extra := fmt.Sprint(spec["extra"])
	if spec["size"] != int64(9) || got.GetLabels()["gate"] != "som" || extra != "map[big:9007199254740993 deep:[map[a/b~c:<nil>]]]" ||
		got.GetAnnotations()["kubectl.kubernetes.io/last-applied-configuration"] != "{}" {
		g.Errorf("got %v", got.Object)
	}
	got, err = g.v1("a").Patch(g.Context(), "mutated", types.MergePatchType, []byte(`{"spec":{"size":0,"text":"plain"}}`), metav1.PatchOptions{})
	g.ok(err)
	if size := got.Object["spec"].(map[string]any)["size"]; size != int64(5) {
		g.Errorf("size %v", size)
	}
}

// testReplicas asks both replicas, of which one leads.
func (g *gates) testReplicas() {
	o, err := gateObject("a", "reviewed", "some text").MarshalJSON()
	g.ok(err)
	review := fmt.Sprintf(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE","namespace":"default","name":"reviewed",
		"kind":{"group":"test.thole.dev","version":"v1","kind":"GateA"},"resource":{"group":"test.thole.dev","version":"v1","resource":"gateas"},"object":%s}}`, o)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // the API server verifies it
	defer client.CloseIdleConnections()
	for _, replica := range []*Host{g.host, g.second.host} {
		await.Until(g.T, "a replica mutates", func() bool { // one may still compile the plugin
			answer, err := client.Post("https://"+replica.webhooks.server.Address()+"/mutate/gate-a/main", "application/json", strings.NewReader(review))
			g.ok(err)
			defer answer.Body.Close()
			text, _ := io.ReadAll(answer.Body)
			return strings.Contains(string(text), `"allowed":true`) && strings.Contains(string(text), `"patch":`)
		})
	}
	if g.host.replicas.leadsPlugin("gate-a") == g.second.host.replicas.leadsPlugin("gate-a") {
		g.Error("not one replica leads")
	}
}

func (g *gates) testConversion() {
	for i := range 20 {
		_, err := g.create("a", fmt.Sprintf("stored-%02d", i), "plain")
		g.ok(err)
	}
	_, err := g.create("a", "applied", "plain")
	g.ok(err)
	await.Until(g.T, "objects are converted", func() bool {
		list, err := g.v2("a").List(g.Context(), metav1.ListOptions{})
		if err != nil {
			return false
		}
		n := 0
		for _, o := range list.Items {
			message, _, _ := unstructured.NestedString(o.Object, "spec", "message")
			if strings.HasPrefix(o.GetName(), "stored-") && message == "plain" && o.GetAPIVersion() == "test.thole.dev/v2" {
				n++
			}
		}
		return n == 20
	})
	o := gateObject("a", "by-v2", "")
	o.SetAPIVersion("test.thole.dev/v2")
	o.Object["spec"] = map[string]any{"message": "byv2"}
	made, err := g.v2("a").Create(g.Context(), o, metav1.CreateOptions{})
	g.ok(err)
	stored, err := g.v1("a").Get(g.Context(), "by-v2", metav1.GetOptions{})
	g.ok(err)
	if text, _, _ := unstructured.NestedString(stored.Object, "spec", "text"); text != "byv2" || stored.GetUID() != made.GetUID() || stored.GetLabels()["gate"] != "byv" {
		g.Errorf("stored %v", stored.Object)
	}
	_, err = g.create("a", "stuck", "stuck")
	g.ok(err)
	_, err = g.v2("a").Get(g.Context(), "stuck", metav1.GetOptions{})
	g.expectError(err, `plugin "gate-a" controller "main": convert failed`, "default/stuck", "the text says so")
	g.ok(g.v1("a").Delete(g.Context(), "stuck", metav1.DeleteOptions{}))
}

// busy returns how many calls of a plugin execute.
func (g *gates) busy(plugin string) (n int) {
	for _, host := range []*Host{g.host, g.second.host} {
		n += host.guestStats()[plugin].Busy
	}
	return n
}

func (g *gates) testSpinning() {
	var spinning sync.WaitGroup
	defer spinning.Wait()
	var slow atomic.Int64
	for range 4 {
		spinning.Go(func() {
			began := time.Now()
			if _, err := g.try("a", "spin"); err == nil || !strings.Contains(err.Error(), "timeout") && !strings.Contains(err.Error(), "busy") {
				g.Errorf("a spinning validator allowed the request: %v", err)
			}
			slow.Store(max(slow.Load(), int64(time.Since(began))))
		})
	}
	await.Until(g.T, "they spin", func() bool { return g.busy("gate-a") > 0 })
	var took []time.Duration
	for range 30 {
		began := time.Now()
		_, err := g.try("b", "warn fine")
		g.ok(err)
		if took = append(took, time.Since(began)); len(took) == 1 && g.busy("gate-a") == 0 {
			g.Error("a review of another plugin has waited for those that spin")
		}
	}
	slices.Sort(took)
	g.Logf("beside four spinning reviews: median %s, slowest %s", took[len(took)/2], took[len(took)-1])
	if strings.Contains(g.takeWarnings(), "failed") {
		g.Error("a review of another plugin has failed")
	}
}

// expectRepaired deletes a configuration, and waits until it is back.
func (g *gates) expectRepaired() {
	g.Helper()
	configurations := g.objects.Resource(validatingConfigurations)
	before, err := configurations.Get(g.Context(), "thole-gate-a", metav1.GetOptions{})
	g.ok(err)
	g.ok(configurations.Delete(g.Context(), "thole-gate-a", metav1.DeleteOptions{}))
	await.Until(g.T, "the deleted configuration is back", func() bool {
		now, err := configurations.Get(g.Context(), "thole-gate-a", metav1.GetOptions{})
		return err == nil && now.GetUID() != before.GetUID()
	})
}

func (g *gates) testRepair() {
	g.expectRepaired()
	_, err := g.objects.Resource(mutatingConfigurations).Patch(g.Context(), "thole-gate-a", types.JSONPatchType,
		[]byte(`[{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}]`), metav1.PatchOptions{})
	g.ok(err)
	await.Until(g.T, "the changed configuration is repaired", func() bool {
		now, err := g.objects.Resource(mutatingConfigurations).Get(g.Context(), "thole-gate-a", metav1.GetOptions{})
		return err == nil && fmt.Sprint(now.Object["webhooks"].([]any)[0].(map[string]any)["failurePolicy"]) == "Fail"
	})
	g.patchCRD(`{"spec":{"conversion":{"strategy":"None","webhook":null}}}`)
	await.Until(g.T, "the conversion is repaired", func() bool { return g.strategy() == "Webhook" })
	g.patchCRD(`{"metadata":{"labels":{"thole.dev/host":"other"}},"spec":{"conversion":{"strategy":"None","webhook":null}}}`)
	await.Until(g.T, "the conversion of another host is shown", func() bool {
		return g.hasProblem("a", "CustomResourceDefinition gateas.test.thole.dev", "another host")
	})
	if got := g.strategy(); got != "None" {
		g.Errorf("the conversion of another host is now %s", got)
	}
	g.patchCRD(`{"metadata":{"labels":{"thole.dev/host":null}}}`)
	await.Until(g.T, "the conversion of no host is taken over", func() bool { return g.strategy() == "Webhook" })
	g.awaitRegistered("a")
}

// patchCRD changes the CustomResourceDefinition of plugin a.
func (g *gates) patchCRD(text string) {
	g.Helper()
	_, err := g.objects.Resource(crds).Patch(g.Context(), "gateas.test.thole.dev", types.MergePatchType, []byte(text), metav1.PatchOptions{})
	g.ok(err)
}

// strategy returns how the CustomResourceDefinition of plugin a is converted.
func (g *gates) strategy() string {
	crd, err := g.objects.Resource(crds).Get(g.Context(), "gateas.test.thole.dev", metav1.GetOptions{})
	g.ok(err)
	strategy, _, _ := unstructured.NestedString(crd.Object, "spec", "conversion", "strategy")
	return strategy
}

// hasProblem reports whether the replica that leads a plugin shows a problem with all parts.
func (g *gates) hasProblem(plugin string, parts ...string) bool {
	return slices.ContainsFunc(slices.Concat(g.host.Plugins(), g.second.host.Plugins()), func(s status.Plugin) bool {
		return s.Name == "gate-"+plugin && !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(s.WebhookProblem, part) })
	})
}

func (g *gates) testMatchConditions() {
	g.policy("b", "webhooks: {failurePolicy: Ignore, timeout: 10s, matchConditions: [{name: wrong, expression: object.}]}")
	await.Until(g.T, "the refusal is shown", func() bool {
		return g.hasProblem("b", "ValidatingWebhookConfiguration thole-gate-b", "matchConditions")
	})
	g.policy("b", "webhooks: {failurePolicy: Ignore, timeout: 10s, matchConditions: [{name: text, expression: \"object == null || object.spec.text != 'deny passed over'\"}]}")
	await.Until(g.T, "the condition holds", func() bool {
		_, err := g.try("b", "deny passed over")
		return err == nil
	})
	_, err := g.try("b", "deny others")
	g.expectError(err, "text: others")
}

// load creates and deletes objects until stop is called, which returns how many requests there were.
// Each of them must succeed. see is called with the warnings.
func (g *gates) load(see func(string)) (stop func() int64) {
	done := make(chan struct{})
	var load sync.WaitGroup
	var requests atomic.Int64
	for range 4 {
		load.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				o, err := g.try("a", "revision")
				if err == nil {
					err = g.v1("a").Delete(g.Context(), o.GetName(), metav1.DeleteOptions{})
				}
				if err != nil {
					g.Errorf("a request has failed: %v", err)
				}
				requests.Add(2)
				for line := range strings.Lines(g.takeWarnings()) {
					see(strings.TrimSpace(line))
				}
			}
		})
	}
	return func() int64 {
		close(done)
		load.Wait()
		return requests.Load()
	}
}

// loadSize returns how many creations there are in testSwap at least, and for how long they go on:
// without SOAK the test is short.
func loadSize(t *testing.T) (creations int64, duration time.Duration) {
	t.Helper()
	text := os.Getenv("SOAK")
	if text == "" {
		return 0, 5 * time.Second
	}
	duration, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("SOAK: %v", err)
	}
	return 10_000, duration
}

// testSwap replaces the plugin every second, until the certificate has been rotated.
func (g *gates) testSwap() {
	creations, duration := loadSize(g.T)
	var seen sync.Map
	var created atomic.Int64
	stop := g.load(func(warning string) {
		seen.Store(warning, true)
		created.Add(1)
	})
	start, served, rotations := time.Now(), g.host.webhooks.keeper.Expires(), 0
	n := 2
	for time.Since(start) < duration || created.Load() < creations || rotations == 0 {
		began := time.Now()
		g.install("gate-a", g.module("a", n))
		await.Until(g.T, "the next revision answers", func() bool { _, ok := seen.Load(revisionText(n)); return ok })
		<-time.After(time.Until(began.Add(time.Second)))
		if now := g.host.webhooks.keeper.Expires(); now != served {
			served, rotations = now, rotations+1
		}
		n++
	}
	g.Logf("%d requests in %s, during %d swaps and %d rotations", stop(), time.Since(start).Round(time.Second), n-2, rotations)
}

func (g *gates) testStop() {
	var stopped atomic.Bool
	var after atomic.Int64
	stop := g.load(func(string) {
		if stopped.Load() {
			after.Add(1)
		}
	})
	<-time.After(200 * time.Millisecond) // some requests before
	began := time.Now()
	g.ok(g.end())
	took := time.Since(began)
	stopped.Store(true)
	await.Until(g.T, "the other replica answers", func() bool { return after.Load() > 20 })
	g.Logf("%d requests while a replica stopped, in %s", stop(), took)
}

// testStart starts a host while no other runs, and an object is stored in another version than the
// plugin follows.
func (g *gates) testStart() {
	patch := func(text string) {
		_, err := g.objects.Resource(crds).Patch(g.Context(), "gateas.test.thole.dev", types.JSONPatchType, []byte(text), metav1.PatchOptions{})
		g.ok(err)
	}
	store := func(v1, v2 bool) {
		patch(fmt.Sprintf(`[{"op":"replace","path":"/spec/versions/0/storage","value":%t},{"op":"replace","path":"/spec/versions/1/storage","value":%t}]`, v1, v2))
	}
	store(false, true)
	await.Until(g.T, "objects are stored in v2", func() bool {
		// Of a dry run nothing but the conversion to the version to store can fail: no watch gets the object.
		_, err := g.v1("a").Create(g.Context(), gateObject("a", "not-stored", "stuck"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil && strings.Contains(err.Error(), "convert failed")
	})
	_, err := g.create("a", "in-v2", "plain")
	g.ok(err)
	g.ok(g.second.end())
	// The API server opens its storage anew, as when it restarts, and has nothing converted.
	patch(`[{"op":"add","path":"/spec/versions/0/additionalPrinterColumns","value":[{"name":"T","type":"string","jsonPath":".spec.text"}]}]`)
	await.Until(g.T, "nobody converts", func() bool {
		_, err := g.v1("a").Get(g.Context(), "in-v2", metav1.GetOptions{})
		return err != nil
	})
	dir := g.dir
	g.second = g.replica(func(c *config.Config) { c.Plugins = dir })
	g.second.t = g.T
	await.Until(g.T, "the host is ready", func() bool { return ready(g.second.host) })
	if s, _ := g.second.host.catalog.Status("gate-a"); s.State == catalog.Waiting {
		g.Errorf("the host was not ready to convert before its plugin had failed to start: %s", s.LastError)
	}
	g.second.expectState("gate-a", func(s catalog.Status) bool { return s.State == catalog.Running })
	got, err := g.v1("a").Get(g.Context(), "in-v2", metav1.GetOptions{})
	g.ok(err)
	if text, _, _ := unstructured.NestedString(got.Object, "spec", "text"); text != "plain" {
		g.Errorf("got %v", got.Object)
	}
	store(true, false)
}

func (g *gates) testRemoved() {
	await.Until(g.T, "the other replica leads", func() bool { return g.second.host.replicas.leadsPlugin("gate-a") })
	g.expectRepaired()
	g.ok(os.Remove(filepath.Join(g.dir, "gate-a.wasm")))
	await.Until(g.T, "the configurations are deleted", func() bool {
		_, err := g.objects.Resource(validatingConfigurations).Get(g.Context(), "thole-gate-a", metav1.GetOptions{})
		_, other := g.objects.Resource(mutatingConfigurations).Get(g.Context(), "thole-gate-a", metav1.GetOptions{})
		return apierrors.IsNotFound(err) && apierrors.IsNotFound(other)
	})
	await.Until(g.T, "the API server does not ask any more", func() bool {
		_, err := g.try("a", "deny nobody")
		return err == nil
	})
	// What is stored must not be taken for another version of it: that fails loudly.
	_, err := g.v2("a").Get(g.Context(), "stored-00", metav1.GetOptions{})
	g.expectError(err, `plugin \"gate-a\" controller \"main\": convert failed`, "not in the plugin directory")
	g.second.expectState("gate-b", func(s catalog.Status) bool { return s.State == catalog.Running })
}
