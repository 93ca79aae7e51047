package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/retry"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/internal/repository"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// The kind of the plugin in host/testdata/gate.
var (
	gates   = schema.GroupVersionResource{Group: "test.thole.dev", Version: "v1", Resource: "gateas"}
	gatesV2 = gates.GroupResource().WithVersion("v2")
)

// BenchmarkReview measures what reviews by a plugin cost, beside those by a program on
// controller-runtime that does the same. Objects are created in turns, as dry runs, that nobody
// reviews, that the program mutates and validates, and that the plugin does.
//
//	none-, native-, thole-p50-ms, -p99-ms  the time of a creation
//	ratio-added-p50, -p99  thole's less none's, by native's less none's
//
// REVIEWS is how many creations there are of each kind, 3,000 by default.
func BenchmarkReview(b *testing.B) {
	once(b, func(b *testing.B) {
		startGate(b)
		startNativeGate(b)
		sides := []string{"none", "native", "thole"}
		took := map[string]latencies{}
		for i := range number(b, "REVIEWS", 3000) {
			for turn := range sides {
				side := sides[(i+turn)%len(sides)]
				began := time.Now()
				must(b, createGate(b, side, fmt.Sprintf("o-%d", i), "hello", true))
				took[side] = append(took[side], time.Since(began))
			}
		}
		for _, q := range []struct {
			name string
			of   float64
		}{{"p50", .5}, {"p99", .99}} {
			ms := map[string]float64{}
			for side, l := range took {
				ms[side] = milliseconds(l.quantile(q.of))
				b.ReportMetric(ms[side], side+"-"+q.name+"-ms")
			}
			b.ReportMetric((ms["thole"]-ms["none"])/(ms["native"]-ms["none"]), "ratio-added-"+q.name)
		}
	})
}

// BenchmarkConvert measures reads of 5,000 objects in the version that is stored, and in another
// one, to which a plugin converts them, and migrates them to the other version.
//
// A list comes from the watch cache of the API server, which converts an object when it is written
// and not when it is listed; and all objects when the API server starts.
//
//	stored-get-ms, converted-get-ms    one read, median
//	converted-list-ms                  one object of the list after a start, mean
//	migrated-ms                        one object written anew, mean
func BenchmarkConvert(b *testing.B) {
	once(b, func(b *testing.B) {
		const many = 5000
		host, ns := startGate(b)
		for i := range many {
			must(b, createGate(b, "none", fmt.Sprintf("o-%d", i), fmt.Sprintf("text %d", i), false))
		}
		var stored, converted latencies
		for i := range 500 {
			stored = append(stored, getGate(b, gates, ns, fmt.Sprintf("o-%d", i)))
			converted = append(converted, getGate(b, gatesV2, ns, fmt.Sprintf("o-%d", i)))
		}
		b.ReportMetric(milliseconds(stored.quantile(.5)), "stored-get-ms")
		b.ReportMetric(milliseconds(converted.quantile(.5)), "converted-get-ms")
		b.ReportMetric(listAfterStart(b, host, ns, many), "converted-list-ms")
		migrate(b, ns, many)
	})
}

func getGate(b *testing.B, as schema.GroupVersionResource, ns, name string) time.Duration {
	b.Helper()
	began := time.Now()
	_, err := objects.Resource(as).Namespace(ns).Get(b.Context(), name, metav1.GetOptions{})
	must(b, err)
	return time.Since(began)
}

// listAfterStart restarts the API server, whose watch cache then lists every object in every version, and
// returns how many milliseconds that takes for each object that is converted.
func listAfterStart(b *testing.B, host *process, ns string, many int) float64 {
	b.Helper()
	conversions := func() int { return int(host.Metrics().Sum("thole_webhook_requests_total", "review", "convert")) }
	before, done := conversions(), make(chan error, 1)
	go func() { done <- cluster.Restart() }()
	var began, ended time.Time
	await.Within(b, await.Limit, "all objects are converted", func() bool {
		now, converted := time.Now(), conversions()-before
		if began.IsZero() && converted > 0 {
			began = now
		}
		ended = now
		return converted >= many
	})
	must(b, <-done)
	list, err := objects.Resource(gatesV2).Namespace(ns).List(b.Context(), metav1.ListOptions{})
	must(b, err)
	for _, o := range list.Items {
		if message := field(&o, "spec", "message"); "text "+strings.TrimPrefix(o.GetName(), "o-") != message {
			b.Fatalf("%s was listed with %q", o.GetName(), message)
		}
	}
	if len(list.Items) != many {
		b.Fatalf("%d objects were listed", len(list.Items))
	}
	return milliseconds(ended.Sub(began)) / float64(many)
}

// migrate makes v2 the stored version, writes every object anew, and drops v1 from the stored
// versions, as https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definition-versioning
// describes. Nothing may be lost.
func migrate(b *testing.B, ns string, many int) {
	b.Helper()
	store := func(version string) {
		must(b, retry.RetryOnConflict(retry.DefaultRetry, func() error {
			crd, err := objects.Resource(crds).Get(b.Context(), "gateas.test.thole.dev", metav1.GetOptions{})
			if err != nil {
				return err
			}
			versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
			for _, v := range versions {
				v.(map[string]any)["storage"] = v.(map[string]any)["name"] == version
			}
			must(b, unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"))
			_, err = objects.Resource(crds).Update(b.Context(), crd, metav1.UpdateOptions{})
			return err
		}))
	}
	store("v2")
	began := time.Now()
	list, err := objects.Resource(gatesV2).Namespace(ns).List(b.Context(), metav1.ListOptions{})
	must(b, err)
	if len(list.Items) != many {
		b.Fatalf("%d objects were listed", len(list.Items))
	}
	for _, o := range list.Items {
		_, err := objects.Resource(gatesV2).Namespace(ns).Update(b.Context(), &o, metav1.UpdateOptions{})
		must(b, err)
	}
	b.ReportMetric(milliseconds(time.Since(began))/float64(many), "migrated-ms")
	_, err = objects.Resource(crds).Patch(b.Context(), "gateas.test.thole.dev", types.MergePatchType, []byte(`{"status":{"storedVersions":["v2"]}}`), metav1.PatchOptions{}, "status")
	must(b, err)
	again, err := objects.Resource(gates).Namespace(ns).List(b.Context(), metav1.ListOptions{})
	must(b, err)
	for _, o := range again.Items {
		if text, _, _ := unstructured.NestedString(o.Object, "spec", "text"); "text "+strings.TrimPrefix(o.GetName(), "o-") != text {
			b.Fatalf("%s has become %q", o.GetName(), text)
		}
	}
	store("v1") // for the next run
}

// createGate creates an object that a side reviews.
func createGate(b *testing.B, side, name, text string, dryRun bool) error {
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "test.thole.dev/v1", "kind": "GateA", "spec": map[string]any{"text": text},
		"metadata": map[string]any{"name": name, "namespace": gateNamespace, "labels": map[string]any{"side": side}},
	}}
	options := metav1.CreateOptions{}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	_, err := objects.Resource(gates).Namespace(gateNamespace).Create(b.Context(), o, options)
	return err
}

// gateNamespace is that of the present benchmark.
var gateNamespace string

// startGate starts a host with the plugin, which reviews what has the label side=thole, and waits
// until the API server asks it.
func startGate(b *testing.B) (host *process, ns string) {
	b.Helper()
	ns = namespace(b)
	gateNamespace = ns
	text, err := os.ReadFile(filepath.Join("..", "..", "testdata", "gate", "crd.yaml"))
	must(b, err)
	applyCRD(b, strings.NewReplacer("PLUGIN", "a", "UPPER", "A").Replace(string(text)))
	address := freeAddress(b)
	d := newDirectory(b)
	d.installPolicy("gate-a", "webhooks: {objectSelector: side=thole}\nallow: [{groups: [''], kinds: [ConfigMap], verbs: [get, list, watch]}]\n")
	d.install("gate-a", wasmbuild.Build(b, wasmbuild.TinyGo, "host/testdata/gate"))
	host = start(b, d, ns, strings.Replace(allowAll, "allow: {", `allow: {webhooks: ["*"], `, 1)+
		fmt.Sprintf("webhooks: {listen: '%s', url: 'https://%[1]s', secret: {namespace: %s}}\n", address, ns), quietlyIn(b.TempDir()))
	awaitReviews(b, "thole")
	return host, ns
}

// awaitReviews waits until a side denies an object.
func awaitReviews(b *testing.B, side string) {
	b.Helper()
	await.Until(b, "the API server asks "+side, func() bool {
		err := createGate(b, side, "denied", "deny this", true)
		return err != nil && strings.Contains(err.Error(), "text: this")
	})
}

func freeAddress(b *testing.B) string {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(b, err)
	defer l.Close()
	return l.Addr().String()
}

// nativeGate builds host/internal/nativeecho/nativegate, in its own module, and returns the path of
// the program.
var nativeGate = sync.OnceValues(func() (string, error) {
	root, err := repository.Root()
	if err != nil {
		return "", err
	}
	path := filepath.Join(scratch, "nativegate")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", path, "./nativegate")
	build.Dir = filepath.Join(root, "host", "internal", "nativeecho")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build nativegate: %w\n%s", err, out)
	}
	return path, nil
})

// startNativeGate starts the program, which reviews what has the label side=native.
func startNativeGate(b *testing.B) {
	b.Helper()
	path, err := nativeGate()
	must(b, err)
	dir, address := b.TempDir(), freeAddress(b)
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	must(b, err)
	writeFile(b, dir, "tls.crt", string(certificate))
	writeFile(b, dir, "tls.key", string(key))
	_, port, _ := net.SplitHostPort(address)
	cmd := exec.Command(path, "--kubeconfig", cluster.Kubeconfig, "--certificates", dir, "--port", port)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(b, cmd.Start())
	b.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			b.Errorf("nativegate: %v: %s", err, &stderr)
		}
	})
	registerNativeGate(b, "https://"+address, certificate)
	awaitReviews(b, "native")
}

// registerNativeGate writes the webhook configurations as the host writes those of a plugin.
func registerNativeGate(b *testing.B, url string, ca []byte) {
	b.Helper()
	client := func(path string) admissionv1.WebhookClientConfig {
		url := url + path
		return admissionv1.WebhookClientConfig{URL: &url, CABundle: ca}
	}
	rules := []admissionv1.RuleWithOperations{{
		Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
		Rule:       admissionv1.Rule{APIGroups: []string{gates.Group}, APIVersions: []string{gates.Version}, Resources: []string{gates.Resource}},
	}}
	none, versions := admissionv1.SideEffectClassNone, []string{"v1"}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"side": "native"}}
	meta := metav1.ObjectMeta{Name: "nativegate"}
	mutating, validating := clients.AdmissionregistrationV1().MutatingWebhookConfigurations(), clients.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err := mutating.Create(b.Context(), &admissionv1.MutatingWebhookConfiguration{ObjectMeta: meta, Webhooks: []admissionv1.MutatingWebhook{{
		Name: "nativegate.thole.dev", ClientConfig: client("/mutate-test-thole-dev-v1-gatea"), Rules: rules, SideEffects: &none, AdmissionReviewVersions: versions, ObjectSelector: selector,
	}}}, metav1.CreateOptions{})
	must(b, err)
	_, err = validating.Create(b.Context(), &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: meta, Webhooks: []admissionv1.ValidatingWebhook{{
		Name: "nativegate.thole.dev", ClientConfig: client("/validate-test-thole-dev-v1-gatea"), Rules: rules, SideEffects: &none, AdmissionReviewVersions: versions, ObjectSelector: selector,
	}}}, metav1.CreateOptions{})
	must(b, err)
	b.Cleanup(func() {
		ctx := context.Background() // that of the benchmark has ended
		must(b, errors.Join(mutating.Delete(ctx, meta.Name, metav1.DeleteOptions{}), validating.Delete(ctx, meta.Name, metav1.DeleteOptions{})))
	})
}
