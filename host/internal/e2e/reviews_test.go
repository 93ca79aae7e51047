package e2e

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/tholetest"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// reviewer is a replica of a host that serves reviews.
type reviewer struct {
	*process
	webhooks string // the address
	wasReady time.Time
}

// reviewService stands for a Service: each connection is one to the first replica that is ready and takes it.
type reviewService struct {
	net.Listener
	mu       sync.Mutex
	replicas []*reviewer
	open     sync.WaitGroup
}

func startReviewService(t *testing.T) *reviewService {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s := &reviewService{Listener: l}
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

func (s *reviewService) add(r *reviewer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replicas = append(s.replicas, r)
}

func (s *reviewService) forward(from net.Conn) {
	defer from.Close()
	s.mu.Lock()
	replicas := slices.Clone(s.replicas)
	s.mu.Unlock()
	for _, r := range replicas {
		if !s.takes(r) {
			continue
		}
		to, err := net.Dial("tcp", r.webhooks)
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
func (s *reviewService) takes(r *reviewer) bool {
	status, _ := r.Get("/readyz")
	s.mu.Lock()
	defer s.mu.Unlock()
	if status == http.StatusOK {
		r.wasReady = time.Now()
	}
	return time.Since(r.wasReady) < 3*time.Second
}

// reviews are two plugins that review what the text of their objects says: if a review of gate-a fails, the
// request is refused, and with gate-b it is allowed.
type reviews struct {
	*testing.T            // that of a part
	whole      *testing.T // at the end of which the replicas stop
	directory
	ns      string
	service *reviewService
	objects dynamic.Interface
	wasm    []byte
	names   atomic.Int64

	first, second, third *reviewer
	fourth               *reviewer                   // started when they have stopped
	clients              map[string]*tls.Certificate // of the third replica
	slow                 []*tls.Conn                 // clients of it that send nothing more
	kubeconfig           string                      // of the account of the replicas

	mu       sync.Mutex
	warnings []string // since they were taken last
}

// HandleWarningHeader implements [rest.WarningHandler].
func (r *reviews) HandleWarningHeader(_ int, _, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.warnings = append(r.warnings, text)
}

// takeWarnings returns the warnings of the last requests, one a line.
func (r *reviews) takeWarnings() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := strings.Join(r.warnings, "\n")
	r.warnings = nil
	return text
}

// gateOf returns the resource of the objects of gate-a or gate-b.
func gateOf(plugin string) schema.GroupVersionResource {
	return gates.GroupVersion().WithResource("gate" + plugin + "s")
}

// newReviews installs both plugins, each with an account of its own. The plugins and the host have the rights of the
// manifests and those that `thole rbac` prints. The plugins are removed before the hosts stop, so that nobody is asked
// about their objects any more.
func newReviews(t *testing.T) *reviews {
	t.Helper()
	r := &reviews{T: t, whole: t, directory: newDirectory(t), ns: namespace(t), service: startReviewService(t), wasm: wasmbuild.Build(t, wasmbuild.TinyGo, "host/testdata/gate")}
	config := rest.CopyConfig(cluster.Config)
	config.QPS, config.WarningHandler = -1, r
	r.objects = dynamic.NewForConfigOrDie(config)
	crd, err := os.ReadFile(filepath.Join("..", "..", "testdata", "gate", "crd.yaml"))
	must(t, err)
	r.kubeconfig = deployedHost(t, r.ns, "base/rbac-host.yaml", "webhooks/rbac-webhook.yaml")
	configFile := filepath.Join(t.TempDir(), "config.yaml")
	must(t, os.WriteFile(configFile, []byte(r.config()), 0o600))
	for _, plugin := range []string{"a", "b"} {
		applyCRD(t, strings.NewReplacer("PLUGIN", plugin, "UPPER", strings.ToUpper(plugin)).Replace(string(crd)))
		t.Cleanup(func() { r.removeGates(t, plugin) })
		r.setPolicy(plugin, "")
		r.installGate(plugin, 1)
		r.permit(t, r.ns, "gate-"+plugin, "--config", configFile)
	}
	return r
}

// removeGates removes the CustomResourceDefinition of a plugin that nobody converts any more.
func (r *reviews) removeGates(t *testing.T, plugin string) {
	t.Helper()
	name := gateOf(plugin).GroupResource().String()
	_, err := objects.Resource(crds).Patch(context.Background(), name, types.MergePatchType, []byte(`{"spec":{`+dropConversion+`}}`), metav1.PatchOptions{})
	must(t, err)
	removeCRD(t, name)
}

// setPolicy installs the policy of a plugin, with more fields of its webhooks.
func (r *reviews) setPolicy(plugin, more string) {
	r.Helper()
	webhooks := map[string]string{"a": "timeout: 10s", "b": "failurePolicy: Ignore, timeout: 3s, objectSelector: side notin (unseen)"}[plugin]
	r.installPolicy("gate-"+plugin, fmt.Sprintf("serviceAccount: %s/gate-%s\nallow: [{groups: [''], kinds: [ConfigMap], verbs: [get, list, watch]}]\nwebhooks: {%s%s}\n",
		r.ns, plugin, webhooks, more))
}

// config is the configuration of the replicas, without their webhooks.
func (r *reviews) config() string {
	return strings.Replace(allowAll, "allow: {", fmt.Sprintf("allow: {webhooks: [gate-a, gate-b], serviceAccounts: {'*': [%s/*]}, ", r.ns), 1)
}

// installGate installs a revision of a plugin, which warns with its number.
func (r *reviews) installGate(plugin string, revision int) {
	r.Helper()
	wasm := bytes.ReplaceAll(r.wasm, []byte("gate-a"), []byte("gate-"+plugin))
	wasm = bytes.ReplaceAll(wasm, []byte("GateA"), []byte("Gate"+strings.ToUpper(plugin)))
	r.install("gate-"+plugin, bytes.ReplaceAll(wasm, []byte(gateRevision(1)), []byte(gateRevision(revision))))
}

// gateRevision is what a revision warns with, as long as the one that it replaces.
func gateRevision(revision int) string { return fmt.Sprintf("revision-%05d", revision) }

// start starts a replica, with more fields of its configuration for webhooks.
func (r *reviews) start(more string) *reviewer {
	r.Helper()
	l, err := net.Listen("tcp", tholetest.RandomLoopback())
	must(r.T, err)
	must(r.T, l.Close())
	replica := &reviewer{webhooks: l.Addr().String()}
	config := r.config() + fmt.Sprintf("webhooks: {listen: '%s', url: 'https://%s', secret: {namespace: %s}, validity: %s%s}\n", replica.webhooks, r.service.Addr(), r.ns, certificateValidity, more)
	replica.process = start(r.whole, r.directory, r.ns, config, func(h *tholetest.Host) {
		h.Kubeconfig = r.kubeconfig
		h.Args = append(h.Args, "--host-identity=false", "--leader-elect", "--leader-elect-resource-namespace="+r.ns)
	})
	return replica
}

// certificateValidity is that of the certificates of the hosts, which are replaced after two thirds of it.
const certificateValidity = time.Minute

// create creates an object with a name of its own, and with a label.
func (r *reviews) create(plugin, text string, label ...string) (*unstructured.Unstructured, error) {
	o := gateObject(plugin, fmt.Sprintf("o-%d", r.names.Add(1)), text)
	for _, text := range label {
		name, value, _ := strings.Cut(text, "=")
		o.SetLabels(map[string]string{name: value})
	}
	return r.gatesOf(plugin, "v1").Create(r.Context(), o, metav1.CreateOptions{FieldManager: "test"})
}

func (r *reviews) expectRefused(plugin, text string, parts ...string) {
	r.Helper()
	_, err := r.create(plugin, text)
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			r.Errorf("%s: got %v, want %q", text, err, part)
		}
	}
}

// awaitAsked waits until the API server asks both plugins.
func (r *reviews) awaitAsked() {
	r.Helper()
	for _, plugin := range []string{"a", "b"} {
		await.Until(r.T, "the API server asks gate-"+plugin, func() bool {
			_, err := r.create(plugin, "deny at all")
			return err != nil && strings.Contains(err.Error(), "text: at all")
		})
	}
	r.takeWarnings()
}

// load creates and deletes objects with a text until stop is called. Each of the requests must succeed. see is called with
// the warnings.
func (r *reviews) load(text string, see func(string)) (stop func() int64) {
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
				o, err := r.create("a", text)
				if err == nil {
					err = r.gatesOf("a", "v1").Delete(r.Context(), o.GetName(), metav1.DeleteOptions{})
				}
				if err != nil {
					r.Errorf("a request has failed: %v", err)
					return
				}
				requests.Add(2)
				for line := range strings.Lines(r.takeWarnings()) {
					see(strings.TrimSpace(line))
				}
			}
		})
	}
	return sync.OnceValue(func() int64 {
		close(done)
		load.Wait()
		return requests.Load()
	})
}

// served returns the certificate that a replica serves.
func (r *reviews) served(replica *reviewer) *x509.Certificate {
	r.Helper()
	c := dialReviews(r.T, replica.webhooks, nil)
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0]
}

// dialReviews opens a connection for HTTP/1.1. Who serves there is known: the certificate is not verified.
func dialReviews(t *testing.T, address string, client *tls.Certificate) *tls.Conn {
	t.Helper()
	config := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}}
	if client != nil {
		config.Certificates = []tls.Certificate{*client}
	}
	c, err := tls.Dial("tcp", address, config)
	must(t, err)
	must(t, c.SetDeadline(time.Now().Add(await.Limit)))
	return c
}

// postReview sends a review to a replica, and returns the whole answer. length is announced, and may be larger.
func postReview(t *testing.T, c io.ReadWriter, path, body string, length int) string {
	t.Helper()
	_, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, length, body)
	must(t, err)
	text, err := io.ReadAll(c)
	must(t, err)
	return string(text)
}

// Two replicas of a host are behind a service, and a third one asks clients for a certificate.
func TestReviewsOfRequestsOfUsers(t *testing.T) {
	t.Parallel()
	r := newReviews(t)
	sub := func(name string, f func(*reviews)) {
		t.Run(name, func(t *testing.T) {
			r.T = t
			defer func() { r.T = nil }()
			f(r)
		})
	}
	file, known := newClients(t, "apiserver", "jane")
	r.clients = known
	r.first, r.second, r.third = r.start(""), r.start(""), r.start(fmt.Sprintf(", clientCA: %s, clientNames: [apiserver]", file))
	r.service.add(r.first)
	r.service.add(r.second)
	r.awaitAsked()
	sub("ReviewsAreAnsweredByThePlugin", (*reviews).testAnswers)
	sub("MutationKeepsWhatItDoesNotChange", (*reviews).testMutation)
	sub("EachReplicaReviews", (*reviews).testReplicas)
	sub("ObjectsAreConverted", (*reviews).testConversion)
	sub("FailuresAreAnsweredAsThePolicySays", (*reviews).testFailures)
	sub("SpinningValidatorHarmsNoOther", (*reviews).testSpinning)
	sub("ChangedConfigurationIsRepaired", (*reviews).testRepair)
	sub("RefusedMatchConditionIsShown", (*reviews).testMatchConditions)
	sub("WhatIsNoReviewIsRefused", (*reviews).testRefused)
	sub("ClientsHoldNoMoreThanTheyHaveSent", (*reviews).testBounds)
	sub("NoRequestFailsWhateverIsReplaced", (*reviews).testReplaced)
	sub("SlowClientsAreDisconnected", (*reviews).testSlow)
	sub("StartedHostConvertsWhatItsFirstListNeeds", (*reviews).testStart)
	sub("RemovedPluginsAreNotAsked", (*reviews).testRemoved)
	sub("KeysAreInNoLog", (*reviews).testKeys)
}

func (r *reviews) testFailures() {
	for _, text := range []string{"panic", "retry later", "rename", "spin"} {
		if text != "spin" { // until the deadline of its plugin
			r.expectRefused("a", text, `plugin "gate-a" controller "main": `)
		}
		r.takeWarnings()
		if _, err := r.create("b", text); err != nil {
			r.Errorf("%s: %v", text, err)
		}
		if got := r.takeWarnings(); !strings.Contains(got, `plugin "gate-b" controller "main": `) {
			r.Errorf("%s: warnings %q", text, got)
		}
	}
	r.expectRefused("a", "rename", `object.metadata.name: is "other"`)
	r.expectRefused("b", "deny this", `admission webhook "main.gate-b.thole.dev" denied the request`, "text: this")
	if _, err := r.create("b", "deny this", "side=unseen"); err != nil {
		r.Errorf("what the policy does not select: %v", err)
	}
}

// testReplaced replaces a plugin and the certificates, and stops a replica, while users create objects.
func (r *reviews) testReplaced() {
	var seen sync.Map
	see := func(warning string) { seen.Store(warning, true) }
	awaitSeen := func(revision int) {
		r.Helper()
		await.Until(r.T, fmt.Sprint("revision ", revision, " answers"), func() bool { _, found := seen.Load(gateRevision(revision)); return found })
	}
	stop := r.load("revision", see)
	defer stop()
	revision := 1
	next := func() {
		revision++
		r.installGate("a", revision)
		awaitSeen(revision)
	}
	until := time.Now().Add(soakSizeOf(r.T).duration)
	for before := r.served(r.first); revision < 4 || r.served(r.first).Equal(before) || time.Now().Before(until); {
		next()
	}
	r.Logf("%d requests during %d swaps and a rotation", stop(), revision-1)

	// Reviews are in progress whenever the plugin is replaced, and when the replica stops.
	stopWork := r.load("work", see)
	defer stopWork()
	next()
	next()
	r.first.stop()
	next()
	r.Logf("%d requests while a replica stopped", stopWork())
}

// testKeys looks for what the Secret of the certificates has in the logs of the hosts.
func (r *reviews) testKeys() {
	secret, err := clients.CoreV1().Secrets(r.ns).Get(r.Context(), "thole-webhook", metav1.GetOptions{})
	must(r.T, err)
	keys := 0
	for name, text := range secret.Data {
		for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
			if !strings.Contains(block.Type, "PRIVATE KEY") {
				continue
			}
			keys++
			line := strings.Split(string(pem.EncodeToMemory(block)), "\n")[1]
			for _, host := range []*reviewer{r.first, r.second, r.third, r.fourth} {
				if strings.Contains(host.Log.Tail(1<<20), line) {
					r.Errorf("the log has the key %s of the Secret", name)
				}
			}
		}
	}
	if keys == 0 {
		r.Error("the Secret has no key")
	}
}

// newClients writes an authority into a file, and returns certificates of clients that it has signed.
func newClients(t *testing.T, names ...string) (file string, all map[string]*tls.Certificate) {
	t.Helper()
	key := func() *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		must(t, err)
		return k
	}
	template := func(name string) *x509.Certificate {
		return &x509.Certificate{
			SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		}
	}
	authority, authorityKey := template("authority"), key()
	authority.IsCA, authority.BasicConstraintsValid = true, true
	der, err := x509.CreateCertificate(rand.Reader, authority, authority, authorityKey.Public(), authorityKey)
	must(t, err)
	file, all = filepath.Join(t.TempDir(), "ca.crt"), map[string]*tls.Certificate{}
	must(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	for _, name := range names {
		clientKey := key()
		der, err := x509.CreateCertificate(rand.Reader, template(name), authority, clientKey.Public(), authorityKey)
		must(t, err)
		all[name] = &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: clientKey}
	}
	return file, all
}

// admission is a review of an object of gate-a.
func (r *reviews) admission() string {
	return fmt.Sprintf(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE","namespace":%q,"name":"o",
		"kind":{"group":"test.thole.dev","version":"v1","kind":"GateA"},"resource":{"group":"test.thole.dev","version":"v1","resource":"gateas"},
		"object":{"apiVersion":"test.thole.dev/v1","kind":"GateA","metadata":{"name":"o","namespace":%[1]q},"spec":{"text":"some text"}}}}`, r.ns)
}

// ask sends a request to the third replica, and returns the answer.
func (r *reviews) ask(client *tls.Certificate, path, body string, length int) string {
	r.Helper()
	c := dialReviews(r.T, r.third.webhooks, client)
	defer c.Close()
	return postReview(r.T, c, path, body, length)
}

// isAllowed reports whether the third replica allows a review.
func (r *reviews) isAllowed() bool {
	r.Helper()
	return strings.Contains(r.ask(r.clients["apiserver"], "/validate/gate-a/main", r.admission(), len(r.admission())), `"allowed":true`)
}

func (r *reviews) testRefused() {
	_, strangers := newClients(r.T, "apiserver")
	if !r.isAllowed() {
		r.Fatal("a review is not allowed")
	}
	called := func() float64 { return r.third.Metrics().Sum("thole_webhook_requests_total", "result", "allowed") }
	before := called()
	const tooLarge = 8<<20 + 1
	replaced := func(old, by string) string {
		if !strings.Contains(r.admission(), old) {
			r.Fatalf("the review has no %s", old)
		}
		return strings.Replace(r.admission(), old, by, 1)
	}
	api, review := r.clients["apiserver"], r.admission()
	for name, c := range map[string]struct {
		client     *tls.Certificate
		path, body string
		length     int // that of the body, if it is 0
		want       []string
	}{
		"no certificate":                    {nil, "/validate/gate-a/main", review, 0, []string{"403", "has presented no certificate"}},
		"no certificate, mutation":          {nil, "/mutate/gate-a/main", review, 0, []string{"403", "has presented no certificate"}},
		"certificate of another authority":  {strangers["apiserver"], "/validate/gate-a/main", review, 0, []string{"403", "does not accept the client's certificate"}},
		"certificate with another name":     {r.clients["jane"], "/validate/gate-a/main", review, 0, []string{"403", "is not one of webhooks.clientNames"}},
		"another path":                      {api, "/main", review, 0, []string{"404"}},
		"not JSON":                          {api, "/validate/gate-a/main", "review", 0, []string{"400", "not a review in JSON"}},
		"a conversion":                      {api, "/validate/gate-a/main", replaced("AdmissionReview", "ConversionReview"), 0, []string{"400", "not an AdmissionReview"}},
		"an unknown operation":              {api, "/validate/gate-a/main", replaced("CREATE", "CONNECT"), 0, []string{"400", "request.operation"}},
		"a kind that nobody offers":         {api, "/validate/gate-a/main", replaced(`"version":"v1","kind":"GateA"},"resource"`, `"version":"v9","kind":"GateA"},"resource"`), 0, []string{"it reviews test.thole.dev/v1 GateA"}},
		"larger than 8 MiB":                 {api, "/validate/gate-a/main", "{", tooLarge, []string{"413", "larger than 8 MiB"}},
		"no such plugin, nothing is read":   {api, "/validate/none/main", "{", tooLarge - 1, []string{"500", "it is not in the plugin directory"}},
		"no such controller, nothing read":  {api, "/validate/gate-a/none", "{", tooLarge - 1, []string{"500", "has no such controller"}},
		"no certificate, nothing is read":   {nil, "/validate/gate-a/main", "{", tooLarge - 1, []string{"403"}},
		"conversion for none, nothing read": {nil, "/convert/none/main", "{", tooLarge - 1, []string{"500", "it is not in the plugin directory"}},
	} {
		if c.length == 0 {
			c.length = len(c.body)
		}
		got := r.ask(c.client, c.path, c.body, c.length)
		for _, part := range c.want {
			if !strings.Contains(got, part) {
				r.Errorf("%s: the answer is %s, want %q", name, got, part)
			}
		}
	}
	if n := called() - before; n != 0 {
		r.Errorf("plugins have allowed %v requests that are no reviews", n)
	}
}

// announce begins to send a review of 8 MiB to the third replica.
func (r *reviews) announce(part string) *tls.Conn {
	r.Helper()
	c := dialReviews(r.T, r.third.webhooks, r.clients["apiserver"])
	// One that is refused is closed while it is written.
	_, _ = fmt.Fprintf(c, "POST /validate/gate-a/main HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", 8<<20, part)
	return c
}

// testBounds: all reviews together have 32 MiB, of which what is announced and not sent holds nothing.
func (r *reviews) testBounds() {
	for range 20 {
		r.slow = append(r.slow, r.announce("{"))
	}
	if !r.isAllowed() {
		r.Error("beside slow clients a review is not allowed")
	}
	for range 5 {
		c := r.announce(`{"x":"` + strings.Repeat("x", 8<<20-100))
		defer c.Close()
	}
	await.Until(r.T, "one of them is refused", func() bool {
		return r.third.Metrics().Sum("thole_webhook_refused_requests_total", "reason", "busy") > 0
	})
	await.Until(r.T, "a review has room again", r.isAllowed)
}

// testSlow waits until the time of the slow clients is over.
func (r *reviews) testSlow() {
	for _, c := range r.slow {
		must(r.T, c.SetDeadline(time.Now().Add(await.Limit)))
		if text, err := io.ReadAll(c); err != nil || !strings.Contains(string(text), "HTTP/1.1 400") {
			r.Errorf("a slow client gets %s, %v", text, err)
		}
		c.Close()
	}
}
