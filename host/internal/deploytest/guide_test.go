package deploytest

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/tholetest"
	"github.com/thole-dev/thole/internal/wasmbuild"
)

// guide has the shell commands of deploy/README.md: the blocks that are marked
// <!-- deploytest: name -->, by name.
type guide map[string]string

var block = regexp.MustCompile("(?s)<!-- deploytest: ([a-z-]+) -->\n```sh\n(.*?)```")

func readGuide(t *testing.T, path string) guide {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	g := guide{}
	for _, m := range block.FindAllStringSubmatch(string(text), -1) {
		g[m[1]] = m[2]
	}
	if marks := strings.Count(string(text), "<!-- deploytest: "); marks != len(g) {
		t.Fatalf("%s: %d marks, %d blocks of shell right after one", path, marks, len(g))
	}
	return g
}

// kubectls returns the programs to follow the guide with: the stand-in, and the real
// kubectl if it is installed.
func kubectls(t *testing.T) map[string]string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{"stand-in": self}
	if real, err := exec.LookPath("kubectl"); err == nil {
		found["kubectl"] = real
	}
	return found
}

// The commands of deploy/README.md are run on a cluster whose only node runs the
// host's pod as it would be in the image: see node.
func TestGuideCanBeFollowed(t *testing.T) {
	programs := kubectls(t)
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		t.Run(name, func(t *testing.T) {
			r := newReader(t, programs[name])
			r.follow("install")
			// A host is ready even while a plugin waits for its CRD.
			leader := r.node.awaitLeader(t, 1)
			awaitPodEvent(t, leader.pod, "PluginRuns", `plugin "podmanager" runs: revision 1, `)
			for _, c := range r.node.hosts() {
				c.expectConfined(t)
				c.expectLists(t, "podmanager")
			}
			r.follow("use")
			r.follow("finalizers")

			first := r.node.hosts()
			wasm := wasmbuild.Build(t, wasmbuild.TinyGo, "plugins/podmanager")
			writePlugin(t, filepath.Join(r.repository, "bin", "plugins"), another(wasm))
			r.follow("change-plugin")
			if now := r.node.awaitLeader(t, 2); now != leader {
				t.Error("the pod was replaced with the plugin, or another replica leads")
			}

			r.follow("change-host")
			r.node.awaitLeader(t, 1)
			last := r.node.hosts()
			for _, c := range first {
				if slices.Contains(last, c) {
					t.Error("the host was not replaced")
				}
				r.expectNothingDenied(c.Process)
			}
			objects, rights := r.parts("uninstall", "kubectl delete -k ")
			r.enter("uninstall", objects)
			for _, c := range last {
				r.expectNothingDenied(c.Process)
			}
			r.enter("uninstall", rights) // before the hosts have ended
			for _, c := range last {
				r.expectNoErrors(c.Process)
			}
			if left := admin.left(t); len(left) > 0 {
				t.Errorf("not removed: %v", left)
			}
			maps.DeleteFunc(r.guide, func(block, _ string) bool { return strings.HasPrefix(block, "helm-") })
			if len(r.guide) > 0 {
				t.Errorf("blocks that the test does not run: %v", r.guide)
			}
		})
	}
}

// The commands for Helm are run by Helm, as it is built from its module.
func TestHelmGuideCanBeFollowed(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := newReader(t, self)
	build := exec.Command("go", "build", "-o", filepath.Join(r.tools, "helm"), "helm.sh/helm/v4/cmd/helm")
	build.Dir = filepath.Join(root, "host", "internal", "charttest")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build helm: %v\n%s", err, out)
	}
	r.follow("helm-install")
	for _, c := range r.node.hosts() {
		c.expectConfined(t)
		r.expectNothingDenied(c.Process)
	}
	r.follow("helm-plugin")
	leader := r.node.awaitLeader(t, 1)
	r.sees(leader, "running", "podmanager")
	hosts := r.node.hosts()
	for _, c := range hosts {
		r.expectNothingDenied(c.Process)
	}
	r.follow("helm-uninstall")
	await.Until(t, "the hosts have ended", func() bool { return len(r.node.hosts()) == 0 })
	for _, c := range hosts {
		r.expectNoErrors(c.Process)
	}
	if _, err := admin.CoreV1().Secrets(system).Get(t.Context(), "thole-metrics", metav1.GetOptions{}); err != nil {
		t.Errorf("the Secret that is said to be left: %v", err)
	}
	r.enter("clean up", "kubectl delete configmap podmanager -n thole-system\nkubectl delete secret thole-metrics -n thole-system\n")
	removeLeases(t)
}

// another returns an equivalent module with another digest: it has one more custom
// section, named x.
func another(wasm []byte) []byte { return append(slices.Clone(wasm), 0, 2, 1, 'x') }

// reader follows the guide.
type reader struct {
	*testing.T
	guide
	node       *node
	repository string
	tools      string // directory with kubectl and thole
}

func newReader(t *testing.T, kubectl string) *reader {
	r := &reader{T: t, guide: readGuide(t, "deploy/README.md"), node: newNode(t), repository: repository(t), tools: t.TempDir()}
	for name, path := range map[string]string{"kubectl": kubectl, "thole": program(t)} {
		if err := os.Symlink(path, filepath.Join(r.tools, name)); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// timeout matches the timeouts of the guide, which are meant for an idle machine.
var timeout = regexp.MustCompile(`--timeout=\d+s\b`)

// follow runs the commands of a block, each of which must succeed.
func (r *reader) follow(name string) {
	r.Helper()
	r.enter(name, r.take(name))
}

// take returns a block and removes it from the guide.
func (r *reader) take(name string) (commands string) {
	r.Helper()
	commands, ok := r.guide[name]
	if !ok {
		r.Fatalf("deploy/README.md has no block %q", name)
	}
	delete(r.guide, name)
	return commands
}

// parts returns a block in two: what is before the command with that beginning, and
// the rest.
func (r *reader) parts(name, command string) (before, rest string) {
	r.Helper()
	commands := r.take(name)
	at := strings.Index(commands, command)
	if at <= 0 {
		r.Fatalf("deploy/README.md has no command %q after others in the block %q", command, name)
	}
	return commands[:at], commands[at:]
}

// enter runs commands, each of which must succeed.
func (r *reader) enter(name, commands string) {
	r.Helper()
	commands = timeout.ReplaceAllString(commands, "--timeout="+await.Limit.String())
	begin := time.Now()
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", commands)
	cmd.Dir = r.repository
	cmd.Env = append(os.Environ(), "PATH="+r.tools+":"+os.Getenv("PATH"), "KUBECONFIG="+cluster.Kubeconfig)
	out, err := cmd.CombinedOutput()
	r.Logf("%s, %s:\n%s%s", name, time.Since(begin).Round(time.Millisecond), commands, out)
	if err != nil {
		r.Fatalf("%s: %v", name, err)
	}
}

func (r *reader) expectNoErrors(host *tholetest.Process) {
	r.Helper()
	for _, line := range host.Log.Errors() {
		r.Errorf("in the host's log: %v", line)
	}
}

// expectNothingDenied fails the test if the host has logged that a right is missing.
func (r *reader) expectNothingDenied(host *tholetest.Process) {
	r.Helper()
	r.expectNoErrors(host)
	for _, line := range append(withField(host.Log.Since(0), "orbidden"), host.Log.Events("RunEnded", "class", "denied")...) {
		r.Errorf("in the host's log: %v", line)
	}
}
