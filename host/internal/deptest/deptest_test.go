package deptest

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestRepositoryBreaksNoBan(t *testing.T) {
	packages, err := Load(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(packages, func(p Package) bool { return p.ImportPath == module+"/host/internal/deptest" }) {
		t.Fatal("this package is not among the loaded ones: Load read another module")
	}
	for _, broken := range Check(packages, Bans) {
		t.Error(broken)
	}
}

// TestOnlyFivePackagesKnowSeveralStages covers packages that no ban names, such as
// a new one.
func TestOnlyFivePackagesKnowSeveralStages(t *testing.T) {
	packages, err := Load(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	var several []string
	for _, p := range packages {
		known := map[string]bool{}
		for _, stage := range stages {
			imported := func(path string) bool { return match(stage, path) }
			if stage == "./host/telemetry/..." && match("./host/with/...", p.ImportPath) {
				continue // any capability may have metrics
			}
			if stage != outcome && !match(stage, p.ImportPath) && slices.ContainsFunc(p.Imports, imported) {
				known[stage] = true
			}
		}
		if match("./host/...", p.ImportPath) && len(known) > 1 {
			several = append(several, short(p.ImportPath))
		}
	}
	want := []string{"host", "host/dispatch", "host/inspect", "host/runner", "host/with/functionindexes"}
	if !slices.Equal(several, want) {
		t.Errorf("several stages are known by %q, want %q", several, want)
	}
}

// Every ban is broken by one case, and similar imports that are allowed break none.
func TestEveryBanForbidsSomethingAndNoMore(t *testing.T) {
	cases := []struct {
		importer, imported string
		banned             bool
	}{
		{"abi", "encoding/json", false},
		{"abi", module + "/abi/rawjson", false},
		{"abi", "github.com/hashicorp/go-hclog", true},
		{"abi/tck", module + "/abi", false},
		{"abi/tck", module + "/abi/wasm", false},
		{"abi", module + "/abi/wasm", true},
		{"sdk", module + "/abi/tck", true},
		{"abi/tck", module + "/host/sandbox", true},
		{"sdk", module + "/abi", false},
		{"sdk", module + "/sdk/internal/x", false},
		{"sdk", "golang.org/x/time/rate", true},
		{"sdk", module + "/host/object", true},
		{"sdk/sdktest", module + "/host/sandbox", false},
		{"sdk/sdktest", module + "/host/dispatch", true},
		{"sdk", module + "/sdk/kubernetes/pod", true},
		{"sdk/kubernetes/deployment", module + "/sdk/kubernetes/pod", false},
		{"sdk/kubernetes/deployment", module + "/sdk/codec", false},
		{"sdk/kubernetes/deployment", module + "/sdk/handlers", true},
		{"sdk/kubernetes/deployment", "strings", true},
		{"plugins/podmanager", module + "/sdk", false},
		{"plugins/podmanager", module + "/sdk/kubernetes/pod", false},
		{"plugins/podmanager", module + "/abi", true},
		{"sdk/sdktest", "k8s.io/api/core/v1", true},
		{"host", module + "/plugins/podmanager", true},
		{"host", module + "/host/cache", false},
		{"host/effect", module + "/sdk", true},
		{"host/sandbox", "github.com/tetratelabs/wazero/api", false},
		{"host/dispatch/x", "github.com/tetratelabs/wazero", true},
		{"internal/toolchain/traps", "github.com/tetratelabs/wazero", false},
		{"internal/toolchain", "github.com/tetratelabs/wazero", true},
		{"host/inspect", module + "/host/sandbox", false},
		{"host/inspect", module + "/host/sandbox/native", true},
		{"host/sandbox", module + "/host/sandbox/native", false},
		{"host/sandbox/native", module + "/host/sandbox/module", false},
		{"host/sandbox/native", module + "/host/sandbox/memory", true},
		{"host/sandbox/native", "github.com/tetratelabs/wazero", false},
		{"host/sandbox/meter", "github.com/tetratelabs/wazero", true},
		{"host/source", "github.com/fsnotify/fsnotify", false},
		{"host/catalog", "github.com/fsnotify/fsnotify", true},
		{"cmd/thole-tools/internal/devloop", "github.com/fsnotify/fsnotify", false},
		{"cmd/thole", "github.com/fsnotify/fsnotify", true},
		{"host/dispatch", "github.com/hashicorp/go-hclog", false},
		{"host/dispatch", "k8s.io/client-go/dynamic", true},
		{"host/dispatch", "github.com/prometheus/client_golang/prometheus", true},
		{"host/dispatch", module + "/host/outcome", false},
		{"host/dispatch", module + "/host/queue", false},
		{"host/dispatch", module + "/host/effect", false},
		{"host/dispatch", module + "/host/events", false},
		{"host/dispatch", module + "/host/catalog", true},
		{"host/dispatch", module + "/host/runner", true},
		{"host/effect", module + "/host/outcome", false},
		{"host/outcome", "time", false},
		{"host/outcome", "k8s.io/apimachinery/pkg/types", true},
		{"host/outcome", "net/http", true},
		{"host/outcome", "os", true},
		{"host/serve", "k8s.io/client-go/rest", true},
		{"cmd/thole", module + "/host", false},
		{"cmd/thole", "k8s.io/kubernetes/cmd/kube-apiserver/app", true},
		{"host/cache", module + "/host", true},
		{"host/cache", module + "/host/object", false},
		{"host/cache", module + "/host/internal/x", false},
		{"host/cache", module + "/host/cache/x", false},
		{"host/cache", module + "/host/queue", true},
		{"host/outcome", module + "/host/dispatch", true},
		{"host/effect", module + "/host/dispatch", true},
		{"host/catalog", module + "/host/config", false},
		{"host/runner", module + "/host/catalog", false},
		{"host/runner", module + "/host/dispatch", false},
		{"host/runner", module + "/host", true},
		{"host/events", module + "/abi", false},
		{"host/events", module + "/host/object", true},
		{"host/sanitize", "unicode/utf8", false},
		{"host/sanitize", module + "/abi", true},
		{"host/object", module + "/host/cache", true},
		{"host/config", module + "/host/sandbox", false},
		{"host/config", module + "/host/catalog", true},
		{"host/config", module + "/host/rights", false},
		{"host/rights", module + "/host/object", false},
		{"host/rights", module + "/host/config", true},
		{"host/access", module + "/host/rights", false},
		{"host/access", "k8s.io/client-go/kubernetes/typed/authorization/v1", true},
		{"host/access", module + "/host/kube", false},
		{"host/access", module + "/host/config", true},
		{"host/with/http/egress", module + "/host/rights", false},
		{"host/with/http/egress", module + "/host/config", true},
		{"host/config", module + "/host/with/http/egress", true},
		{"host/config", module + "/host/with", true},
		{"host/dispatch", module + "/host/with/cloudevents", true},
		{"host/runner", module + "/host/with", true},
		{"host", module + "/host/with", false},
		{"host", module + "/host/with/standard", true},
		{"host/with", module + "/host/runner", false},
		{"host/with", module + "/host/with/cloudevents", true},
		{"host/with/standard", module + "/host/with/cloudevents", false},
		{"host/with/cloudevents", module + "/host/with", false},
		{"host/with/cloudevents", module + "/host/with/another", true},
		{"host/with/cloudevents", module + "/host/with/http/egress", false},
		{"host/with/http", module + "/host/with/http/egress", false},
		{"host/with/http", module + "/host/with/cloudevents", true},
		{"host/with/leaderelection", module + "/host/with/leaderelection/election", false},
		{"host/with/leaderelection", module + "/host/with/http", true},
		{"host/with/leaderelection/election", module + "/host/internal/explain", false},
		{"host/with/leaderelection/election", module + "/host/catalog", true},
		{"cmd/thole", module + "/host/with/standard", false},
		{"cmd/thole", module + "/host/with/cloudevents", true},
		{"sdk", module + "/abi/cloudevents", false},
		{"sdk/sdktest", module + "/host/with/timers/schedule", false},
		{"sdk/sdktest", module + "/host/with/timers", true},
		{"host/dispatch", module + "/host/with/http/egress", true},
		{"host/dispatch", module + "/host/access", false},
		{"host/finalizers", module + "/host/effect", false},
		{"host/finalizers", module + "/host/cache", true},
		{"host/kubeevents", "k8s.io/client-go/tools/record", false},
		{"host/kubeevents", module + "/host/telemetry", true},
		{"host/queue", module + "/host/cache/x", true},
		{"host/with/page", "html/template", true},
		{"host/runner", "k8s.io/client-go/kubernetes", true},
		{"host/inspect", "k8s.io/client-go/kubernetes/scheme", false},
		{"host/with/leaderelection/election", "k8s.io/client-go/tools/leaderelection", true},
		{"host/with/webhooks", "k8s.io/client-go/dynamic/dynamicinformer", true},
		{"cmd/thole", "go/types", true},
		{"cmd/thole-tools", "go/types", false},
	}
	hit := make([]bool, len(Bans))
	for _, c := range cases {
		p := Package{ImportPath: module + "/" + c.importer, Imports: []string{c.imported}}
		broken := Check([]Package{p}, Bans)
		if (len(broken) > 0) != c.banned {
			t.Errorf("%s imports %s: banned is %v, want %v", c.importer, c.imported, !c.banned, c.banned)
		}
		for i, ban := range Bans {
			hit[i] = hit[i] || len(Check([]Package{p}, []Ban{ban})) > 0
		}
	}
	for i, ban := range Bans {
		// The bans between stages are alike; the cases break some of them.
		if betweenStages := strings.HasPrefix(ban.Why, "stages"); !hit[i] && !betweenStages {
			t.Errorf("no case breaks the ban of %v in %v", ban.Imported.Of, ban.Importers.Of)
		}
	}
}

func TestLoadReadsTheFilesOfTheModuleOnly(t *testing.T) {
	dir := t.TempDir()
	for file, content := range map[string]string{
		"go.mod":               "module x",
		"a/a.go":               "package a\n\nimport \"fmt\"\n",
		"a/a_wasm.go":          "//go:build tinygo\n\npackage a\n\nimport \"unsafe\"\n",
		"a/a_test.go":          "package a_test\n\nimport \"testing\"\n",
		"a/testdata/guest.go":  "package main\n\nimport \"not/read\"\n",
		".hidden/h.go":         "package h\n\nimport \"not/read\"\n",
		"nested/go.mod":        "module y",
		"nested/b/b.go":        "package b\n\nimport \"not/read\"\n",
		"documentation/readme": "not Go",
	} {
		path := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := []Package{{ImportPath: module + "/a", Imports: []string{"fmt", "unsafe"}, TestImports: []string{"testing"}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestMessageNamesBothPackagesAndTheReason(t *testing.T) {
	p := Package{ImportPath: module + "/host/cache", Imports: []string{module + "/host/queue"}}
	want := []string{"host/cache imports host/queue: stages do not import each other: define an interface here; dispatch, the runner or the wiring passes the other stage in"}
	if got := Check([]Package{p}, Bans); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestBanAppliesToTestFilesOnlyIfItSaysSo(t *testing.T) {
	p := Package{
		ImportPath:  module + "/host/dispatch",
		TestImports: []string{module + "/host/serve", module + "/sdk"},
	}
	broken := Check([]Package{p}, Bans)
	if len(broken) != 1 || !strings.HasPrefix(broken[0], "host/dispatch imports sdk: ") {
		t.Errorf("broken = %q, want the sdk alone", broken)
	}
}

func TestPatternMatchesImportPath(t *testing.T) {
	for _, c := range []struct {
		pattern, path string
		want          bool
	}{
		{"...", "anything.test/x", true},
		{"std", "net/http", true},
		{"std", "example.com/http", false},
		{"./host", module + "/host", true},
		{"./host", module + "/host/cache", false},
		{"./host/...", module + "/host", true},
		{"./host/...", module + "/host/cache", true},
		{"./host/...", module + "/hostile", false},
		{"./...", module + "/abi", true},
		{"./...", module, true},
		{"os/...", "os/exec", true},
		{"k8s.io/klog", "k8s.io/klog/v2", false},
	} {
		if got := match(c.pattern, c.path); got != c.want {
			t.Errorf("match(%q, %q) = %v", c.pattern, c.path, got)
		}
	}
}
