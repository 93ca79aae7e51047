package charttest

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	chartutil "helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write what is rendered")

// deploy is the path of the folder.
const deploy = "../../../deploy"

func load(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := loader.Load(filepath.Join(deploy, "chart"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// release is how the tests call it.
var release = common.ReleaseOptions{Name: "thole", Namespace: "thole-system", Revision: 1, IsInstall: true}

// render returns what the templates lead to, by their names without the folder; those that lead to
// nothing are left out.
func render(t *testing.T, values map[string]any) (map[string]string, error) {
	t.Helper()
	return renderAs(t, release, values)
}

func renderAs(t *testing.T, release common.ReleaseOptions, values map[string]any) (map[string]string, error) {
	t.Helper()
	c := load(t)
	all, err := chartutil.ToRenderValues(c, values, release, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	rendered, err := engine.Render(c, all)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for path, text := range rendered {
		if name := filepath.Base(path); strings.HasSuffix(name, ".yaml") && strings.TrimSpace(text) != "" {
			out[name] = strings.TrimPrefix(strings.TrimSpace(text), "---\n") + "\n"
		}
	}
	return out, nil
}

// readYAML reads a file of YAML or JSON.
func readYAML(t *testing.T, file string) (values map[string]any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return values
}

// expectFile compares a file with what it is to have, or writes it.
func expectFile(t *testing.T, file, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not what the chart is rendered to: run go generate", file)
	}
}

// TestRenderedValues has the values in testdata, which together have every template.
func TestRenderedValues(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(deploy, "chart", "testdata", "*.values.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	seen := map[string]bool{}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			rendered, err := render(t, readYAML(t, file))
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			for _, name := range slices.Sorted(maps.Keys(rendered)) {
				seen[name] = true
				fmt.Fprintf(&out, "---\n# Source: %s\n%s", name, rendered[name])
			}
			expectFile(t, strings.TrimSuffix(file, ".values.yaml")+".golden.yaml", out.String())
		})
	}
	for _, template := range load(t).Templates {
		if name := filepath.Base(template.Name); strings.HasSuffix(name, ".yaml") && !seen[name] {
			t.Errorf("no values have the template %s", name)
		}
	}
}

// kustomizeValues are those of deploy/kustomize.
var kustomizeValues = map[string]any{
	"image": map[string]any{"repository": "thole", "tag": "latest"}, "namespace": map[string]any{"create": true},
	"hostIdentity": true, "plugins": map[string]any{"configMaps": []any{"thole-plugins"}},
	"podDisruptionBudget": map[string]any{"minAvailable": int64(1)},
}

// helmLabels are those that only make sense for what Helm has installed.
var helmLabels = regexp.MustCompile(`(?m)^ *(helm\.sh/chart|app\.kubernetes\.io/(managed-by|version)): .*\n`)

// TestRenderedKustomize: each file of the base, and of webhooks, is that of a template.
func TestRenderedKustomize(t *testing.T) {
	write := func(overlay string, rendered map[string]string) {
		for name, text := range rendered {
			head := "# Rendered from deploy/chart/templates/" + name + ": change that, and run go generate.\n"
			expectFile(t, filepath.Join(deploy, "kustomize", overlay, name), head+helmLabels.ReplaceAllString(text, ""))
		}
	}
	base, err := render(t, kustomizeValues)
	if err != nil {
		t.Fatal(err)
	}
	write("base", base)
	values := maps.Clone(kustomizeValues)
	values["webhooks"] = map[string]any{"enabled": true}
	with, err := render(t, values)
	if err != nil {
		t.Fatal(err)
	}
	webhook := map[string]string{"rbac-webhook.yaml": with["rbac-webhook.yaml"]}
	if services := strings.Split(with["service.yaml"], "\n---\n"); len(services) == 2 {
		webhook["service-webhook.yaml"] = services[1]
	}
	write("webhooks", webhook)
	for _, overlay := range []string{"base", "webhooks"} {
		expectListed(t, filepath.Join(deploy, "kustomize", overlay))
	}
}

// expectListed compares the resources of a kustomization with the files of its folder.
func expectListed(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		if name := filepath.Base(f); name != "kustomization.yaml" {
			names = append(names, name)
		}
	}
	listed, _ := readYAML(t, filepath.Join(dir, "kustomization.yaml"))["resources"].([]any)
	slices.SortFunc(listed, func(a, b any) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	if fmt.Sprint(listed) != fmt.Sprint(names) {
		t.Errorf("%s lists %v, and has %v", dir, listed, names)
	}
}
