package host

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/rights"
	"github.com/thole-dev/thole/host/serve"
	"github.com/thole-dev/thole/host/with/standard"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// rule is an alert of deploy/monitoring/rules.yaml.
type rule struct {
	Alert string
	Expr  string
}

func alerts(t *testing.T) (all []rule) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "deploy", "monitoring", "rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct{ Rules []rule }
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

var (
	selector = regexp.MustCompile(`\b((?:thole|controller_runtime|workqueue|rest_client|leader_election)_[a-z_]+)(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`^(\w+)(=~?)"(.*)"$`)
	grouping = regexp.MustCompile(`(?:by|on) \(([^)]*)\)`)
)

// has reports whether there is a series that a selector is for, with the labels by which its rule groups.
func has(families map[string]*dto.MetricFamily, name, matchers string, labels []string) bool {
	family := families[strings.TrimSuffix(name, "_bucket")]
	return family != nil && slices.ContainsFunc(family.GetMetric(), func(m *dto.Metric) bool {
		of := map[string]string{"namespace": "", "pod": ""} // of the scrape
		if strings.HasSuffix(name, "_bucket") {
			of["le"] = ""
		}
		for _, l := range m.GetLabel() {
			of[l.GetName()] = l.GetValue()
		}
		for _, label := range labels {
			if _, ok := of[label]; !ok {
				return false
			}
		}
		for text := range strings.SplitSeq(matchers, ",") {
			parts := matcher.FindStringSubmatch(text)
			switch {
			case text == "":
			case parts == nil:
				return false
			case parts[2] == "=" && of[parts[1]] != parts[3], parts[2] == "=~" && !regexp.MustCompile("^(?:"+parts[3]+")$").MatchString(of[parts[1]]):
				return false
			}
		}
		return true
	})
}

// An alert about a series that no host has would never be told.
func TestEverySeriesOfAnAlertIsThere(t *testing.T) {
	cluster := controlPlane(t)
	client := dynamic.NewForConfigOrDie(cluster)
	apply(t, client.Resource(crds), "../plugins/labinstance/crd.yaml")
	gate, err := os.ReadFile(filepath.Join("testdata", "gate", "crd.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	crd := filepath.Join(t.TempDir(), "crd.yaml")
	writeText(t, crd, strings.NewReplacer("PLUGIN", "a", "UPPER", "A").Replace(string(gate)))
	apply(t, client.Resource(crds), crd)
	const sink = "http://127.0.0.1:1/events"
	r := startWith(t, cluster, standard.Capabilities(), func(c *config.Config) {
		c.Allow = config.Ceiling{Entries: map[string]rights.Entries{config.EveryPlugin: rights.Everything()}}.WithAllSections()
		c.Values = sections(t, "webhooks: {listen: '127.0.0.1:0', url: 'https://127.0.0.1:1', secret: {namespace: default}}\nleaderElection: {leaderElect: true, resourceNamespace: default, shards: 1}")
	})
	writeText(t, filepath.Join(r.dir, "gate-a.yaml"), "apiVersion: thole.dev/v1alpha1\nallow: [{groups: [''], kinds: [ConfigMap], verbs: [get, list, watch]}]\nwebhooks: {}\n")
	r.install("gate-a", wasmbuild.Build(t, wasmbuild.TinyGo, "host/testdata/gate"))
	policy, err := os.ReadFile("../plugins/labinstance/policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	writeText(t, filepath.Join(r.dir, "labinstance.yaml"), string(policy)+"cloudEvents: {sinks: [{name: bus, url: '"+sink+"', addresses: ['127.0.0.0/8']}]}\n")
	r.install("labinstance", wasmbuild.Build(t, wasmbuild.TinyGo, "plugins/labinstance"))
	for _, plugin := range []string{"gate-a", "labinstance"} {
		r.expectState(plugin, func(s catalog.Status) bool { return s.State == catalog.Running })
	}
	families := map[string]*dto.MetricFamily{}
	await.Until(t, "there is a certificate, and the host is ready", func() bool {
		return !slices.ContainsFunc(r.host.readiness(), func(c serve.Check) bool { return c.Ready() != nil })
	})
	gathered, err := r.host.metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range gathered {
		families[f.GetName()] = f
	}
	// What there is after an error alone.
	after := `code=~"5..|<error>"`
	seen := 0
	for _, rule := range alerts(t) {
		var labels []string
		for _, by := range grouping.FindAllStringSubmatch(rule.Expr, -1) {
			labels = append(labels, strings.Split(strings.ReplaceAll(by[1], " ", ""), ",")...)
		}
		labels = slices.DeleteFunc(labels, func(l string) bool { return l == "le" })
		for _, s := range selector.FindAllStringSubmatch(rule.Expr, -1) {
			seen++
			if !has(families, s[1], strings.TrimPrefix(s[2], after), labels) {
				t.Errorf("%s: the host has no series %s with the labels %q", rule.Alert, s[0], labels)
			}
		}
	}
	if seen < 23 {
		t.Errorf("the alerts have %d series", seen)
	}
}

// Who is told something is also told what to do.
func TestEveryAlertIsDescribed(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "docs", "how-to", "alerts.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range alerts(t) {
		if !strings.Contains(string(text), "\n## "+rule.Alert+"\n") {
			t.Errorf("docs/how-to/alerts.md has no section %s", rule.Alert)
		}
	}
	if n := strings.Count(string(text), "\n## Thole"); n != len(alerts(t)) {
		t.Errorf("docs/how-to/alerts.md has %d sections for %d alerts", n, len(alerts(t)))
	}
}
