package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pluginStatus is a plugin in /plugins.
type pluginStatus struct {
	Name, State            string
	Generation             int
	LastError, RejectedFor string
}

// plugin returns what /plugins says of one, the zero status if nothing.
func (p *process) plugin(name string) pluginStatus {
	p.t.Helper()
	_, body := p.get("/plugins")
	var all []pluginStatus
	if err := json.Unmarshal([]byte(body), &all); err != nil {
		p.t.Fatal(err)
	}
	for _, s := range all {
		if s.Name == name {
			return s
		}
	}
	return pluginStatus{}
}

// loadFailures counts the modules of a plugin that failed at a step.
func (p *process) loadFailures(plugin, reason string) int {
	p.t.Helper()
	return p.metric(fmt.Sprintf("thole_plugin_load_failures_total{plugin=%q,reason=%q}", plugin, reason))
}

// errors counts the failed runs of a controller by class.
func (p *process) errors(controller, class string) int {
	p.t.Helper()
	return p.metric(fmt.Sprintf("thole_reconcile_errors_total{class=%q,controller=%q}", class, controller))
}

// metric returns the value of a counter's series, 0 if there is none.
func (p *process) metric(series string) int {
	p.t.Helper()
	_, body := p.get("/metrics")
	for line := range strings.Lines(body) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				p.t.Fatal(err)
			}
			return int(n)
		}
	}
	return 0
}

// about returns the lines of the log of a level that name a plugin.
func (p *process) about(plugin, level string) (lines []map[string]any) {
	for _, line := range p.output.lines() {
		if line["plugin"] == plugin && line["@level"] == level {
			lines = append(lines, line)
		}
	}
	return lines
}

// said counts the lines of the log with a message, and of those the ones in
// which a field has a value.
func (p *process) said(message, field, value string) (n int) {
	for _, line := range p.output.lines() {
		if line["@message"] == message && (field == "" || line[field] == value) {
			n++
		}
	}
	return n
}

// works checks that podmanager does its work.
func (p *process) works(t *testing.T, ns, name string) {
	t.Helper()
	primary(t, podManagers, "PodManager", ns, name, map[string]any{"image": "a:1"})
	eventually(t, name+" is Ready with its Pod", func() bool {
		return image(get(t, pods, ns, name)) == "a:1" && ready(get(t, podManagers, ns, name))
	})
}

// uninstallCRD removes a CRD and waits until it is gone, so that a test may
// run again.
func uninstallCRD(t *testing.T, name string) {
	t.Helper()
	if err := objects.Resource(crds).Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
		return
	}
	eventually(t, name+" is gone", func() bool {
		_, err := objects.Resource(crds).Get(context.Background(), name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}
