package charttest

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/action"
	"sigs.k8s.io/yaml"

	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/with/standard"
)

// What is not a value of the chart, or not of its type, is refused by its path before anything is rendered.
func TestUnknownValuesAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"replicas: 3":                                             "replicas",
		"image: {name: thole}":                                    "image",
		"image: {pullPolicy: Sometimes}":                          "image/pullPolicy",
		"image: {digest: 'md5:1'}":                                "image/digest",
		"replicaCount: two":                                       "replicaCount",
		"replicaCount: -1":                                        "replicaCount",
		"logLevel: verbose":                                       "logLevel",
		"watchNamespaces: team-a":                                 "watchNamespaces",
		"watchNamespaces: [Team]":                                 "watchNamespaces",
		"plugins: {configMap: a}":                                 "plugins",
		"plugins: {items: {web: {policies: {}}}}":                 "plugins/items/web",
		"plugins: {items: {Web: {}}}":                             "'Web' does not match pattern",
		"plugins: {items: {web: {rules: [{resources: [pods]}]}}}": "plugins/items/web/rules/0",
		"serviceAccount: {create: 'yes'}":                         "serviceAccount/create",
		"prometheus: {serviceMonitor: {interval: 30}}":            "prometheus/serviceMonitor/interval",
		"podDisruptionBudget: {maxUnavailable: half}":             "podDisruptionBudget/maxUnavailable",
		"terminationGracePeriodSeconds: 5":                        "terminationGracePeriodSeconds",
		"cache: {sizeLimit: much}":                                "cache/sizeLimit",
		"metrics: {port: 0}":                                      "metrics/port",
		"extraArgs: --dry-run":                                    "extraArgs",
		"plugins: {items: {web: {serviceAccount: {}}}}":           "plugins/items/web/serviceAccount", // it would act as the host
	} {
		var values map[string]any
		if err := yaml.Unmarshal([]byte(text), &values); err != nil {
			t.Fatal(err)
		}
		if _, err := render(t, values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// What the schema cannot know is refused with what to do.
func TestValuesThatContradictEachOtherAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"rbac: {clusterRoles: false}":                             "metrics.secure: callers can only be reviewed with a ClusterRole",
		"{rbac: {clusterRoles: false}, metrics: {secure: false}}": "watchNamespaces: without ClusterRoles",
		"plugins: {configMaps: [a], existingClaim: b}":            "plugins: name one of configMaps, existingClaim and image.reference",
		"plugins: {image: {reference: a}, existingClaim: b}":      "plugins: name one of configMaps, existingClaim and image.reference",
		"serviceAccount: {create: false}":                         "serviceAccount.name: name the account that is there",
		"extraArgs: [--dry-run, --metrics-secure=false]":          "extraArgs: what metrics.secure sets",
		"extraArgs: [--listen, ':1']":                             "extraArgs: what metrics.port sets",
		"extraArgs: [--leader-elect=false]":                       "extraArgs: what replicaCount sets", // each replica would write
		"{rbac: {clusterRoles: false}, metrics: {secure: false}, watchNamespaces: [a], webhooks: {enabled: true}}": "webhooks.enabled",
		"config: {metrics: {secure: false}}": "config.metrics.secure: set metrics.secure",
	} {
		var values map[string]any
		if err := yaml.Unmarshal([]byte(text), &values); err != nil {
			t.Fatal(err)
		}
		if _, err := render(t, values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A release may be called as no Service may be.
func TestNamesThatNoServiceCanHaveAreRefused(t *testing.T) {
	for _, name := range []string{"123", "a.b", strings.Repeat("a", 48) + "--b"} {
		named := release
		named.Name = name
		if _, err := renderAs(t, named, nil); err == nil || !strings.Contains(err.Error(), "fullnameOverride: the objects would be called") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := renderAs(t, named, map[string]any{"fullnameOverride": "thole"}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLint(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(deploy, "chart", "testdata", "*.values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		lint := action.NewLint()
		lint.Strict, lint.Namespace = true, release.Namespace
		result := lint.Run([]string{filepath.Join(deploy, "chart")}, readYAML(t, file))
		for _, m := range result.Messages {
			if !strings.Contains(m.Err.Error(), "icon is recommended") {
				t.Errorf("%s: %v", filepath.Base(file), m)
			}
		}
	}
}

// Each value of the chart is in its schema, and the other way round.
func TestSchemaHasEveryValue(t *testing.T) {
	schema := readYAML(t, filepath.Join(deploy, "chart", "values.schema.json"))
	optional := []string{"global", "podDisruptionBudget.minAvailable", "resources.claims"}
	var compare func(path string, schema, values map[string]any)
	compare = func(path string, schema, values map[string]any) {
		properties, _ := schema["properties"].(map[string]any)
		for name, value := range values {
			if properties[name] == nil {
				t.Errorf("the schema does not have %s%s", path, name)
			} else if below, ok := value.(map[string]any); ok && properties[name].(map[string]any)["properties"] != nil {
				compare(path+name+".", properties[name].(map[string]any), below)
			}
		}
		for name := range properties {
			if _, ok := values[name]; !ok && !slices.Contains(optional, path+name) {
				t.Errorf("values.yaml does not have %s%s", path, name)
			}
		}
	}
	compare("", schema, readYAML(t, filepath.Join(deploy, "chart", "values.yaml")))
}

// The file of --config that is rendered is one that the host reads.
func TestTheConfigurationIsValid(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(deploy, "chart", "testdata", "*.values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			rendered, err := render(t, readYAML(t, file))
			if err != nil {
				t.Fatal(err)
			}
			documents := strings.Split(rendered["config.yaml"], "\n---\n")
			var c config.Config
			for i, document := range documents {
				var object struct{ Data map[string]string }
				if err := yaml.Unmarshal([]byte(document), &object); err != nil {
					t.Fatal(err)
				}
				if i == 0 {
					c = readConfig(t, object.Data["config.yaml"])
					continue
				}
				for _, name := range slices.Sorted(maps.Keys(object.Data)) {
					if _, err := c.ReadPolicy(strings.TrimSuffix(name, ".yaml"), []byte(object.Data[name])); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
}

func readConfig(t *testing.T, text string) config.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Read(file, standard.Capabilities().Sections()...)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return c.WithDefaults()
}
