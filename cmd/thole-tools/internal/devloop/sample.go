package devloop

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/webhooks"
	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/runner"
)

const (
	// lookEvery is how often a sample that waits is looked at.
	lookEvery = 100 * time.Millisecond
	// reviewWait bounds how long the API server may take to ask for a review of the sample when
	// it has the webhooks. It never asks if the policy selects other objects.
	reviewWait = 5 * time.Second
)

// applySample applies sample.yaml if it waits to be, and the webhooks of the plugin answer: until then
// the API server would store what they deny, without what they set, and drop what they convert.
func (s *session) applySample(ctx context.Context) {
	if !s.sample.waits || !s.webhooksAnswer(ctx) {
		return
	}
	s.sample.waits, s.sample.registered = false, time.Time{}
	s.applyFile(ctx, sampleFile)
}

// webhooksAnswer reports whether the plugin is asked about objects from now on, or need not be.
func (s *session) webhooksAnswer(ctx context.Context) bool {
	switch {
	case s.Kubeconfig != "" && !s.Apply, !s.listens():
		return true // nothing is applied, or no webhook is served
	case s.known == nil:
		return false // it may have webhooks
	case !slices.ContainsFunc(s.known.manifest.Controllers, func(c abi.Controller) bool { return c.Section(webhooks.Name) != nil }):
		return true
	case !s.isRegistered():
		return false
	case s.sample.registered.IsZero():
		s.sample.registered = time.Now()
	}
	return s.isAsked(ctx) || time.Since(s.sample.registered) > reviewWait
}

// listens reports whether the host has an address at which the API server may ask plugins.
func (s *session) listens() bool {
	c := s.hostConfig()
	for _, l := range c.Listening() {
		if l.Address() != "" {
			return true
		}
	}
	return false
}

// isRegistered reports whether the plugin runs, and the API server has its webhooks.
func (s *session) isRegistered() bool {
	return slices.ContainsFunc(s.host.Plugins(), func(p runner.PluginStatus) bool {
		return p.Name == s.plugin && p.State == catalog.Running && p.Problems[webhooks.Name] == ""
	})
}

// isAsked reports whether the API server has the plugin review a dry run of each object of the sample
// that it is to review: a webhook takes effect a moment after it was written.
func (s *session) isAsked(ctx context.Context) bool {
	objects, _ := readManifests(filepath.Join(s.Dir, sampleFile)) // an error is shown when it is applied
	for _, o := range objects {
		var asked []bool
		before := s.reviewsOf(o)
		err := s.client.apply(ctx, o, metav1.ApplyOptions{DryRun: []string{metav1.DryRunAll}})
		for review, n := range s.reviewsOf(o) {
			asked = append(asked, n > before[review])
		}
		// What a mutation denies is not validated.
		if slices.Contains(asked, false) && (err == nil || !slices.Contains(asked, true)) {
			return false
		}
	}
	return true
}

// reviewsOf returns how many requests there were for the reviews that the creation of an object needs.
func (s *session) reviewsOf(o *object) map[string]int {
	counts := map[string]int{}
	for _, c := range s.known.manifest.Controllers {
		if gvk(c.For.Kind).GroupKind() != o.GroupVersionKind().GroupKind() {
			continue
		}
		of := webhooks.Of(&c)
		for review, operations := range map[string][]webhooks.Operation{webhooks.ExportValidate: of.Validate, webhooks.ExportMutate: of.Mutate} {
			if slices.Contains(operations, webhooks.OperationCreate) {
				counts[review] = counted(s.host.Metrics(), "thole_webhook_requests_total", map[string]string{"plugin": s.plugin, "review": review})
			}
		}
	}
	return counts
}

// counted returns the sum of the counters of that name with these labels.
func counted(metrics prometheus.Gatherer, name string, labels map[string]string) (sum int) {
	families, _ := metrics.Gather() // what can be read
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			if !slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool { return labels[l.GetName()] != "" && labels[l.GetName()] != l.GetValue() }) {
				sum += int(m.GetCounter().GetValue())
			}
		}
	}
	return sum
}
