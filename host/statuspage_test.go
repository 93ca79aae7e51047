package host

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/net/html"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/with/standard"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// crowd is a host with many plugins, each with a kind and objects of its own. Those of the first plugin
// fail: the API server refuses their status.
type crowd struct {
	testing.TB
	host *Host
	url  string
}

func startCrowd(tb testing.TB, plugins, objects int) *crowd {
	tb.Helper()
	cluster := controlPlane(tb)
	client := dynamic.NewForConfigOrDie(cluster)
	crd, err := os.ReadFile("with/receives/testdata/container/crd.yaml")
	if err != nil {
		tb.Fatal(err)
	}
	wasm, dir := wasmbuild.Build(tb, wasmbuild.TinyGo, "host/with/receives/testdata/container"), tb.TempDir()
	var creating sync.WaitGroup
	for i := range plugins {
		// As long as the name in the module.
		name := fmt.Sprintf("contain%02d", i)
		rename := strings.NewReplacer("container", name, "Container", strings.Replace(name, "c", "C", 1))
		text := rename.Replace(string(crd))
		if i == 0 {
			text = strings.Replace(text, "spec: {type: object,", "spec: {type: object, default: {id: fails},", 1)
		}
		path := filepath.Join(tb.TempDir(), "crd.yaml")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			tb.Fatal(err)
		}
		apply(tb, client.Resource(crds), path)
		module := bytes.ReplaceAll(bytes.ReplaceAll(wasm, []byte("container"), []byte(name)), []byte("Container"), []byte(rename.Replace("Container")))
		if err := os.WriteFile(filepath.Join(dir, name+".wasm"), module, 0o644); err != nil {
			tb.Fatal(err)
		}
		creating.Go(func() { createMany(tb, client, name, rename.Replace("Container"), objects) })
	}
	creating.Wait()
	h, _ := run(tb, config.Config{
		Plugins: dir, Listen: "127.0.0.1:0", HostIdentity: true, CacheDir: filepath.Join(tb.TempDir(), "cache"),
	}, Environment{Cluster: cluster, Logger: hclog.NewNullLogger(), Version: "test", Capabilities: standard.Capabilities()})
	c := &crowd{tb, h, "http://" + h.Address()}
	await.Until(tb, "every object has run", func() bool {
		n := 0
		for _, all := range h.runner.LastRuns() {
			n += len(all)
		}
		return n == plugins*objects
	})
	return c
}

func createMany(tb testing.TB, client dynamic.Interface, name, kind string, objects int) {
	resource := client.Resource(schema.GroupVersionResource{Group: "test.thole.dev", Version: "v1", Resource: name + "s"}).Namespace("default")
	create := func(i int) error {
		_, err := resource.Create(tb.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "test.thole.dev/v1", "kind": kind, "metadata": map[string]any{"name": fmt.Sprintf("o-%03d", i)},
		}}, metav1.CreateOptions{})
		return err
	}
	await.Until(tb, "the kind is served", func() bool { return create(0) == nil })
	for i := 1; i < objects; i++ {
		if err := create(i); err != nil {
			tb.Error(err)
			return
		}
	}
}

func (c *crowd) get(path string) string {
	c.Helper()
	r, err := http.Get(c.url + path)
	if err != nil {
		c.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		c.Fatal(r.Status, err)
	}
	return string(text)
}

// row returns the cells of the row of a page that has an id, by their labels.
func (c *crowd) row(page, id string) map[string]string {
	c.Helper()
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		c.Fatal(err)
	}
	cells := map[string]string{}
	for n := range root.Descendants() {
		if !slices.Contains(n.Attr, html.Attribute{Key: "id", Val: id}) {
			continue
		}
		for cell := range n.ChildNodes() {
			for _, a := range cell.Attr {
				if a.Key == "data-label" {
					cells[a.Val] = textOf(cell)
				}
			}
		}
	}
	return cells
}

func textOf(n *html.Node) (text string) {
	for part := range n.Descendants() {
		if part.Type == html.TextNode {
			text += part.Data
		}
	}
	return text
}

// seriesOf returns the sum of the series of a controller in /metrics.
func seriesOf(metrics, name, controller string) (sum int) {
	for line := range strings.Lines(metrics) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if strings.HasPrefix(series, name+"{") && strings.Contains(series, `"`+controller+`"`) {
			n, _ := strconv.ParseFloat(value, 64)
			sum += int(n)
		}
	}
	return sum
}

func TestTheStatusPageHasTheNumbersOfTheMetrics(t *testing.T) {
	c := startCrowd(t, 3, 10)
	for i := range 3 {
		name := fmt.Sprintf("contain%02d", i)
		controller := name + "/" + name
		await.Until(t, "the page of "+name+" has what /metrics has", func() bool {
			metrics := c.get("/metrics")
			got := c.row(c.get("/ui/plugins/"+name), "controller-"+name)
			runs, errs := seriesOf(metrics, "controller_runtime_reconcile_total", controller), seriesOf(metrics, "controller_runtime_reconcile_errors_total", controller)
			for label, want := range map[string]string{
				"Queued":  strconv.Itoa(seriesOf(metrics, "workqueue_depth", controller)),
				"Running": fmt.Sprintf("%d of %d", seriesOf(metrics, "controller_runtime_active_workers", controller), seriesOf(metrics, "controller_runtime_max_concurrent_reconciles", controller)),
				"Runs":    strconv.Itoa(runs), "Errors": strconv.Itoa(errs),
			} {
				if got[label] != want { // it is of another second
					return false
				}
			}
			return runs >= 10 && (errs >= 10) == (i == 0)
		})
	}
	if got := c.row(c.get("/ui"), "plugin-contain00"); got["Failing"] != "10" {
		t.Errorf("the first plugin fails for 10 objects: %q", got)
	}
	if page := c.get("/ui"); !strings.Contains(page, "default/o-000") || !strings.Contains(page, "IDFails") {
		t.Error("the page does not show which objects fail, and why")
	}
}

// BenchmarkStatusPage measures how long a page takes of a host with 100 plugins and 10,000 objects. Every
// page is made anew. It measures once, whatever -count is:
//
//	p50-ms, max-ms  of 20 pages
func BenchmarkStatusPage(b *testing.B) {
	c := startCrowd(b, 100, 100)
	for name, path := range map[string]string{
		"overview": "/ui", "plugin": "/ui/plugins/contain42?order=slowest", "metrics": "/metrics",
	} {
		b.Run(name, func(b *testing.B) {
			defer b.ReportMetric(0, "ns/op")
			for b.Loop() {
				var took []time.Duration
				for range 20 {
					<-time.After(1050 * time.Millisecond) // a snapshot is valid for 1 s
					begun := time.Now()
					c.get(path)
					took = append(took, time.Since(begun))
				}
				slices.Sort(took)
				b.ReportMetric(took[len(took)/2].Seconds()*1000, "p50-ms")
				b.ReportMetric(took[len(took)-1].Seconds()*1000, "max-ms")
			}
		})
	}
}
