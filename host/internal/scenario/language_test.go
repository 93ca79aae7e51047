package scenario

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/thole-dev/thole/host/internal/tholetest"
)

func TestValuesAreReadFromAnObject(t *testing.T) {
	o := &unstructured.Unstructured{}
	err := yaml.Unmarshal([]byte(`
metadata: {generation: 3, labels: {a.b/c: "x=y"}}
spec: {image: "a:1", list: [{name: one, value: 1}, {name: two, value: 2}]}
status:
  observedGeneration: 3
  conditions: [{type: Ready, status: "False", reason: Broken}]
`), &o.Object)
	if err != nil {
		t.Fatal(err)
	}
	for arg, want := range map[string]bool{
		"spec.image=a:1":                      true,
		".spec.image=a:1":                     true,
		"spec.image=a:2":                      false,
		"spec.image!=a:2":                     true,
		"spec.image~=:1":                      true,
		"spec.image~=:2":                      false,
		"spec.image!=a:1":                     false,
		"spec.missing=":                       true,
		"spec.missing.deeper=":                true,
		"spec.missing!=":                      false,
		"spec.image=":                         false,
		`spec.list[?(@.name=="two")].value=2`: true,
		`spec.list[?(@.name=="two")].value=1`: false,
		"spec.list[*].name=one two":           true,
		`metadata.labels.a\.b/c=x=y`:          true,
		"condition:Ready=False":               true,
		"condition:Ready=True":                false,
		"condition:Ready.reason=Broken":       true,
		"condition:Stalled=":                  true,
		"condition:Stalled=True":              false,
		"observed":                            true,
	} {
		values, err := parseValues([]string{arg})
		if err != nil {
			t.Errorf("%s: %v", arg, err)
			continue
		}
		if got := values[0](o); (got == nil) != want {
			t.Errorf("%s: %v, want %v", arg, got, want)
		}
	}
	o.SetGeneration(4)
	if observed(o) == nil {
		t.Error("generation 4 is observed")
	}
}

func TestRequestsAreSelectedAsByRules(t *testing.T) {
	r := tholetest.Request{Verb: "apply", Group: "example.thole.dev", Resource: "podmanagers/status", Code: 409}
	for words, want := range map[string]bool{
		"":                           true,
		"*":                          true,
		"write":                      true,
		"read":                       false,
		"patch":                      false,
		"get,apply":                  true,
		"* *":                        true,
		"* podmanagers":              false,
		"* podmanagers/status":       true,
		"* podmanagers/*":            true,
		"* podmanagers/scale":        false,
		"* pods,podmanagers/status":  true,
		"* podmanagers.other/status": false,
		"code=409":                   true,
		"code=4xx":                   true,
		"code=5xx":                   false,
		"code=0":                     false,
		"apply podmanagers.example.thole.dev/status code=409": true,
	} {
		f, err := parseFilter(strings.Fields(words))
		if err != nil {
			t.Errorf("%q: %v", words, err)
		} else if got := f.has(r); got != want {
			t.Errorf("%q: %v, want %v", words, got, want)
		}
	}
}

func TestSeriesAreParsed(t *testing.T) {
	name, labels, err := parseSeries(`m_total{a="x", b="y,z"}`)
	if err != nil || name != "m_total" || strings.Join(labels, "|") != "a|x|b|y,z" {
		t.Errorf("%s %q %v", name, labels, err)
	}
	for _, bad := range []string{"", "1m", "m{", "m{a}", `m{a="x}`, `m{a="x" b="y"}`} {
		if _, _, err := parseSeries(bad); !errors.Is(err, errUsage) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestWordsWithSpacesAreQuotedForTheProxy(t *testing.T) {
	got := rule([]string{"write", "pods", "status=500", "message=not now", `body="a b"`})
	if want := `write pods status=500 message="not now" body="a b"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// newScript returns a script on the shared control plane that waits for a short time.
func newScript(t *testing.T) *script {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	return &script{
		Suite: suite, tb: t, work: t.TempDir(), plugins: t.TempDir(),
		namespace: namespaceFor(t.Name()), limit: 300 * time.Millisecond,
	}
}

// perform performs a command. An argument may have spaces.
func (s *script) perform(not bool, words ...string) error {
	return table()[words[0]].perform(s, not, words[1:])
}

func TestWrongUseNamesWhatIsAllowed(t *testing.T) {
	s := newScript(t)
	for line, want := range map[string]string{
		"expect":                       "0 arguments",
		"expect pods":                  `"pods" is not RESOURCE/NAME`,
		"expect pod/x ready":           "none of PATH=VALUE, PATH!=VALUE, PATH~=PART, condition:TYPE[.FIELD]=VALUE, observed",
		"expect pod/x [=1":             "none of PATH=VALUE",
		"expect -witin 3s pod/x":       "-witin",
		"absent pod/x a=b":             "2 arguments",
		"count pods many":              `"many" is not a number`,
		"event pod/x Normal":           "2 arguments",
		"metric m > 1":                 `">" is none of =, <=, >=`,
		"requests":                     "0 arguments",
		"requests write":               "write",
		"requests written = 1":         `"written" is none of the verbs get, list,`,
		"requests write pods pods = 1": "neither VERBS, RESOURCES nor code=CODE",
		"patch pod/x {":                "{ is not JSON",
		"label pod/x a":                "neither KEY=VALUE nor KEY-",
		"host":                         "0 arguments",
		"host begin":                   `"begin"`,
		"host stop now":                "2 arguments",
		"plugin a b":                   `["a" "b"]`,
		"cluster new":                  `["new"]`,
		"apply":                        "name a file",
		"fault write pods":             "2 arguments",
		"faults":                       "0 arguments",
	} {
		words := strings.Fields(line)
		err := s.perform(false, words...)
		if !errors.Is(err, errUsage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
	if err := s.perform(true, "host", "start"); !errors.Is(err, errUsage) {
		t.Errorf("! host start: %v", err)
	}
	if err := s.perform(true, "ready", "-within", "3s"); !errors.Is(err, errUsage) {
		t.Errorf("! ready -within 3s: %v", err)
	}
}

// What other scripts need is refused on the control plane that they share.
func TestSharedControlPlaneIsProtected(t *testing.T) {
	s := newScript(t)
	for _, line := range []string{
		"cluster restart", "cluster save x", "cluster restore x",
		"delete crd/podmanagers.example.thole.dev", "host start --namespace=", "host start --namespace other",
	} {
		if err := s.perform(false, strings.Fields(line)...); err == nil || !strings.Contains(err.Error(), "`cluster own`") {
			t.Errorf("%s: %v", line, err)
		}
	}
	if err := s.perform(false, "cluster", "own"); err == nil || !strings.Contains(err.Error(), "first command") {
		t.Errorf("cluster own as a late command: %v", err)
	}
}

func TestChecksFailWithWhatTheyHaveSeen(t *testing.T) {
	s := newScript(t)
	write(t, s, "map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m, labels: {in: $NS}}\ndata: {key: value}\n")
	must(t, s.perform(false, "apply", "map.yaml"))
	for _, c := range []struct {
		not   bool
		words []string
		want  string // "": it holds
	}{
		{words: []string{"expect", "configmap/m", "data.key=value", "metadata.labels.in=" + s.namespace}},
		{words: []string{"expect", "configmap/m", "-for", "100ms", "data.key=value"}},
		{words: []string{"expect", "cm/m", "data.key=other"}, want: "data.key is \"value\", expected data.key=other\nthe object:\napiVersion: v1\ndata:\n  key: value\n"},
		{words: []string{"expect", "configmap/none"}, want: `not within 300ms: configmaps "none" not found`},
		{words: []string{"expect", "wonder/m"}, want: "no matches for"},
		{not: true, words: []string{"expect", "configmap/m", "data.key=other"}},
		{not: true, words: []string{"expect", "configmap/m", "data.key=value"}, want: "this holds: configmap/m data.key=value"},
		{words: []string{"absent", "configmap/none"}},
		{words: []string{"absent", "configmap/m"}, want: "ConfigMap m exists, expected none"},
		{words: []string{"count", "configmaps", "-l", "in=" + s.namespace, "1"}},
		{words: []string{"count", "configmaps", "-l", "in=" + s.namespace, "2"}, want: "there are 1 configmaps, expected 2: m"},
		{words: []string{"event", "configmap/m", "Normal", "Made"}, want: "there is no such Event"},
		{words: []string{"requests", "=", "0"}},
		{words: []string{"requests", ">=", "1"}, want: "the number of requests is 0, expected >= 1"},
		{words: []string{"ready"}, want: "start it with `host start`"},
		{words: []string{"log", "text"}, want: `the log does not have "text"`},
		{not: true, words: []string{"log", "text"}},
	} {
		err := s.perform(c.not, c.words...)
		if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v %q: %v, want %q", c.not, c.words, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "managedFields") {
			t.Errorf("%q shows managed fields", c.words)
		}
	}
	must(t, s.perform(false, "label", "configmap/m", "a=b", "in-"))
	must(t, s.perform(false, "annotate", "configmap/m", "c=d"))
	must(t, s.perform(false, "patch", "configmap/m", `{"data":{"key":"changed"}}`))
	must(t, s.perform(false, "expect", "configmap/m", "metadata.labels.a=b", "metadata.labels.in=", "metadata.annotations.c=d", "data.key=changed"))
	must(t, s.perform(false, "delete", "configmap/m"))
	must(t, s.perform(false, "absent", "configmap/m"))
}

// A condition that holds for a moment does not hold for a time.
func TestForRequiresThatAConditionLasts(t *testing.T) {
	s := newScript(t)
	begin := time.Now()
	err := s.await(wait{during: time.Minute}, func() error {
		if time.Since(begin) > 200*time.Millisecond {
			return errors.New("it has changed")
		}
		return nil
	})
	if err == nil || !strings.HasPrefix(err.Error(), "not for 1m0s, but for ") {
		t.Errorf("got %v", err)
	}
}

// A rule that the proxy does not understand fails the script, with what is allowed.
func TestRulesAreCheckedByTheProxy(t *testing.T) {
	s := newScript(t)
	if err := s.perform(false, "fault", "write", "pods", "explode"); err == nil || !strings.Contains(err.Error(), "want one of") {
		t.Errorf("got %v", err)
	}
	write(t, s, "rules", "# a comment\nwrite pods lost times=1\napply podmanagers status=500 namespace=$NS\n")
	must(t, s.perform(false, "faults", "rules"))
	must(t, s.perform(false, "fault", "read", "*", "status=403", "message=not now"))
	rules := s.proxy.Rules()
	if len(rules) != 3 || !strings.HasSuffix(rules[1].Rule, s.namespace) || !strings.Contains(rules[2].Rule, `"not now"`) {
		t.Errorf("rules %v", rules)
	}
	must(t, s.perform(false, "fault", "clear"))
	if rules := s.proxy.Rules(); len(rules) > 0 {
		t.Errorf("rules %v", rules)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, s *script, name, text string) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(s.work, name), []byte(text), 0o600))
}

// guide returns the document about scripts.
func guide(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("README.md")
	must(t, err)
	return string(text)
}

// The document names every form of every command, and its example runs.
func TestDocumentHasEveryCommand(t *testing.T) {
	text := strings.ReplaceAll(guide(t), `\|`, "|")
	for name, c := range table() {
		for form := range strings.SplitSeq(c.usage, "\n") {
			if line := strings.TrimSpace(name + " " + form); !strings.Contains(text, "`"+line+"`") {
				t.Errorf("README.md does not have `%s`", line)
			}
		}
	}
}

func TestExampleOfTheDocumentPasses(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	_, example, begun := strings.Cut(guide(t), "```txtar\n")
	example, _, ended := strings.Cut(example, "```")
	if !begun || !ended {
		t.Fatal("README.md has no example")
	}
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "example.txtar"), []byte(example), 0o600))
	testscript.Run(t, suite.Params(dir))
}

// A directory of plugins has modules with policies, and Go packages with policies and
// CRDs.
func TestPluginsAreInstalledFromADirectory(t *testing.T) {
	s := newScript(t)
	dir := t.TempDir()
	s.Suite = &Suite{Program: suite.Program, CacheDir: suite.CacheDir, Plugins: append([]string{dir}, suite.Plugins...)}
	s.own, _ = suite.cluster()
	for name, text := range map[string]string{"mine.wasm": "module", "mine.yaml": "policy"} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	must(t, s.perform(false, "plugin", "mine"))
	must(t, s.perform(false, "plugin", filepath.Join(dir, "mine.wasm"), "as", "other"))
	must(t, s.perform(false, "plugin", "podmanager"))
	must(t, s.perform(false, "plugin", "configsync"))
	expectFiles(t, s.plugins, "configsync.wasm configsync.yaml mine.wasm mine.yaml other.wasm other.yaml podmanager.wasm")
	must(t, s.perform(false, "expect", "crd/podmanagers.example.thole.dev"))

	must(t, s.perform(false, "plugin", "-remove", "mine"))
	must(t, s.perform(false, "plugin", "-remove", "podmanager"))
	expectFiles(t, s.plugins, "configsync.wasm configsync.yaml other.wasm other.yaml")
	if err := s.perform(false, "plugin", "-remove", "mine"); err == nil || !strings.Contains(err.Error(), "not installed") {
		t.Errorf("removed twice: %v", err)
	}
	if err := s.perform(false, "plugin", "wonder"); err == nil || !strings.Contains(err.Error(), "neither wonder.wasm nor wonder/main.go is in "+dir) {
		t.Errorf("a plugin that does not exist: %v", err)
	}
}

func expectFiles(t *testing.T, dir, want string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); got != want {
		t.Errorf("the directory has %s, want %s", got, want)
	}
}

// A host that is killed at any time may be killed after a check that has found it.
func TestCheckWithoutForEndsWhenItHolds(t *testing.T) {
	calls := 0
	s := &script{limit: time.Minute}
	err := s.await(wait{}, func() error {
		if calls++; calls == 2 {
			return nil
		}
		return errors.New("it does not hold")
	})
	if err != nil || calls != 2 {
		t.Errorf("ends after %d checks with %v", calls, err)
	}
}
