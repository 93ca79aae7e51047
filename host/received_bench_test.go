package host

import (
	"bytes"
	"context"
	"fmt"
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/with/standard"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// BenchmarkEventsBesideANeighbour measures how long a plugin takes from an event that it is sent to the
// status that it writes for it, while its neighbour is sent nothing, or 2,000 events per second in single
// requests, for 100 objects:
//
//	p50-ms, p99-ms  of 200 such times
//	events/s        that the neighbour has accepted
//
// It measures once, whatever -count is.
func BenchmarkEventsBesideANeighbour(b *testing.B) {
	c := startContainers(b)
	n := startNeighbour(b, c)
	for _, perSecond := range []int{0, 2000} {
		b.Run(fmt.Sprintf("neighbour=%d", perSecond), func(b *testing.B) {
			defer b.ReportMetric(0, "ns/op")
			for b.Loop() {
				n.measure(b, perSecond)
			}
		})
	}
}

// neighbour is the plugin that is measured, beside the plugin container.
type neighbour struct {
	*containers
	url     string
	objects dynamic.ResourceInterface
}

func startNeighbour(b *testing.B, c *containers) *neighbour {
	b.Helper()
	wasm, dir := wasmbuild.Build(b, wasmbuild.TinyGo, "host/with/receives/testdata/container"), b.TempDir()
	rename := strings.NewReplacer("container", "neighbour", "Container", "Neighbour")
	text, err := os.ReadFile("with/receives/testdata/container/crd.yaml")
	c.ok(err)
	crd := filepath.Join(b.TempDir(), "crd.yaml")
	c.ok(os.WriteFile(crd, []byte(rename.Replace(string(text))), 0o644))
	client := dynamic.NewForConfigOrDie(c.cluster)
	apply(b, client.Resource(crds), crd)
	other := bytes.ReplaceAll(bytes.ReplaceAll(wasm, []byte("container"), []byte("neighbour")), []byte("Container"), []byte("Neighbour"))
	c.ok(os.WriteFile(filepath.Join(dir, "container.wasm"), wasm, 0o644))
	c.ok(os.WriteFile(filepath.Join(dir, "neighbour.wasm"), other, 0o644))
	settings := config.Config{
		Plugins: dir, Listen: "127.0.0.1:0", HostIdentity: true, CacheDir: filepath.Join(b.TempDir(), "cache"),
		Values: sections(b, "receives: {eventsPerSecond: 10000}"),
	}
	h, _ := run(b, settings, Environment{Cluster: c.cluster, Logger: hclog.NewNullLogger(), Version: "test", Capabilities: standard.Capabilities()})
	n := &neighbour{c, "http://" + h.Address() + "/events/", client.Resource(schema.GroupVersionResource{Group: "test.thole.dev", Version: "v1", Resource: "neighbours"}).Namespace("default")}
	for i := range 100 {
		c.ok(c.create(fmt.Sprint("c", i), "x"))
	}
	await.Until(b, "both plugins run", func() bool {
		all := h.Plugins()
		return len(all) == 2 && all[0].State == catalog.Running && all[1].State == catalog.Running
	})
	role, err := c.typed.RbacV1().ClusterRoles().Get(b.Context(), "sender", metav1.GetOptions{})
	c.ok(err)
	role.Rules[0].Resources = append(role.Rules[0].Resources, "neighbours")
	_, err = c.typed.RbacV1().ClusterRoles().Update(b.Context(), role, metav1.UpdateOptions{})
	c.ok(err)
	return n
}

// measure measures 200 events while the neighbour is sent so many in a second.
func (n *neighbour) measure(b *testing.B, perSecond int) {
	b.Helper()
	name := fmt.Sprint("n", time.Now().UnixNano())
	_, err := n.objects.Create(b.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "test.thole.dev/v1", "kind": "Neighbour", "metadata": map[string]any{"name": name},
	}}, metav1.CreateOptions{})
	n.ok(err)
	await.Until(b, "the object takes events", func() bool { return n.post("neighbour", "quiet", name) == http.StatusAccepted })
	watching, err := n.objects.Watch(b.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	n.ok(err)
	defer watching.Stop()
	began := time.Now()
	stop := n.load(perSecond)
	var took []time.Duration
	for i := range 200 {
		sent := time.Now()
		if status := n.post("neighbour", fmt.Sprint("e", i), name); status != http.StatusAccepted {
			b.Fatalf("the plugin answers %d", status)
		}
		for event := range watching.ResultChan() {
			o, _ := event.Object.(*unstructured.Unstructured)
			if ids, _, _ := unstructured.NestedSlice(o.Object, "status", "ids"); len(ids) > i {
				break
			}
		}
		took = append(took, time.Since(sent))
		<-time.After(20 * time.Millisecond)
	}
	accepted := stop()
	slices.Sort(took)
	b.ReportMetric(took[len(took)/2].Seconds()*1000, "p50-ms")
	b.ReportMetric(took[len(took)*99/100].Seconds()*1000, "p99-ms")
	b.ReportMetric(float64(accepted)/time.Since(began).Seconds(), "events/s")
}

// load sends events to the plugin container until it is stopped, and returns how many were accepted.
func (n *neighbour) load(perSecond int) (stop func() int64) {
	const senders = 16
	ctx, cancel := context.WithCancel(n.Context())
	var accepted atomic.Int64
	var sending sync.WaitGroup
	for sender := range senders {
		if perSecond == 0 {
			break
		}
		sending.Go(func() {
			tick := time.NewTicker(time.Duration(senders) * time.Second / time.Duration(perSecond))
			defer tick.Stop()
			for i := sender; ctx.Err() == nil; i += senders {
				<-tick.C
				if n.post("container", fmt.Sprint("quiet", i), fmt.Sprint("c", i%100)) == http.StatusAccepted {
					accepted.Add(1)
				}
			}
		})
	}
	return func() int64 {
		cancel()
		sending.Wait()
		return accepted.Load()
	}
}

// post sends an event for an object of a plugin.
func (n *neighbour) post(plugin, id, name string) int {
	r, err := http.NewRequest(http.MethodPost, n.url+plugin, http.NoBody)
	if err != nil {
		return 0
	}
	r.Header = http.Header{
		"Authorization": {"Bearer " + n.token}, "Ce-Specversion": {"1.0"}, "Ce-Id": {id}, "Ce-Source": {"/bench"},
		"Ce-Type": {"dev.thole.test.subject"}, "Ce-Subject": {"default/" + name},
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0
	}
	response.Body.Close()
	return response.StatusCode
}
