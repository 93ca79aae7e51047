//go:build unix

package doctest

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	_ "github.com/thole-dev/thole/host" // what is tested is a process: so that cached results go with it
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/internal/devcluster"
	"github.com/thole-dev/thole/host/internal/tholetest"
	"github.com/thole-dev/thole/internal/repository"
)

func TestREADMECanBeFollowed(t *testing.T)   { followDocument(t, "README.md") }
func TestTutorialCanBeFollowed(t *testing.T) { followDocument(t, "docs/tutorial.md") }

// tutorialAddress is the address of the host in the documents. It may be in use on
// the machine of the test.
const tutorialAddress = "127.0.0.1:8090"

func followDocument(t *testing.T, name string) {
	if testing.Short() {
		t.Skip("starts control planes")
	}
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root(t), name))
	if err != nil {
		t.Fatal(err)
	}
	text = []byte(strings.ReplaceAll(string(text), tutorialAddress, freeAddress(t)))
	steps, err := parse(string(text))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if err := newcomer(t).follow(steps); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

func root(t *testing.T) string {
	t.Helper()
	root, err := repository.Root()
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// freeAddress returns an address that is free until the host of a document listens, minutes later.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", tholetest.RandomLoopback())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// newcomer returns a reader in a fresh clone, with nothing but the caches of Go. The
// programs are in the clone as make would build them, and make itself only looks
// whether it has the targets: see [standInMake].
func newcomer(t *testing.T) *reader {
	t.Helper()
	home := t.TempDir()
	clone, tools := filepath.Join(home, "thole"), filepath.Join(home, "tools")
	copyRepository(t, clone)
	done(t, os.MkdirAll(filepath.Join(clone, "bin"), 0o755))
	done(t, os.Mkdir(tools, 0o755))
	done(t, os.Symlink(filepath.Join(root(t), ".tools"), filepath.Join(clone, ".tools")))
	done(t, os.Symlink(devclusterProgram(t), filepath.Join(clone, "bin", "thole-devcluster")))
	done(t, os.Symlink(thole(t), filepath.Join(clone, "bin", "thole")))
	workstation, err := tholetest.Program("cmd/thole-tools")
	done(t, err)
	done(t, os.Symlink(workstation, filepath.Join(clone, "bin", "thole-tools")))
	standInMake(t, filepath.Join(tools, "make"))
	if _, err := exec.LookPath("kubectl"); err != nil {
		standInKubectl(t, filepath.Join(tools, "kubectl"))
	}
	temporary := filepath.Join(home, "tmp")
	done(t, os.Mkdir(temporary, 0o755))
	return newReader(t, clone,
		"PATH="+tools+":"+os.Getenv("PATH"), "TMPDIR="+temporary, "KUBECONFIG=", "NO_COLOR=1",
		"GOPATH="+goEnv(t, "GOPATH"), "GOMODCACHE="+goEnv(t, "GOMODCACHE"), "GOCACHE="+goEnv(t, "GOCACHE"),
		"GOFLAGS=", "GOPROXY=off", "GOSUMDB=off", // what the module needs is needed by Thole, too, and there
	)
}

func devclusterProgram(t *testing.T) string {
	t.Helper()
	program, err := devcluster.Binary()
	done(t, err)
	return program
}

// thole returns the path of the program, which has thole-tools beside it.
func thole(t *testing.T) string {
	t.Helper()
	_, err := tholetest.Program("cmd/thole-tools")
	done(t, err)
	program, err := tholetest.Program("cmd/thole")
	done(t, err)
	return program
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	done(t, err)
	return strings.TrimSpace(string(out))
}

// copyRepository copies what a clone has.
func copyRepository(t *testing.T, to string) {
	t.Helper()
	from := root(t)
	made := []string{".git", ".tools", "bin", "node_modules"}
	done(t, filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, path)
		switch target := filepath.Join(to, relative); {
		case err != nil:
			return err
		case slices.Contains(made, relative) && e.IsDir():
			return fs.SkipDir
		case e.IsDir():
			return os.MkdirAll(target, 0o755)
		case !e.Type().IsRegular():
			return nil
		default:
			return copyFile(path, target)
		}
	}))
}

func copyFile(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, info.Mode().Perm())
}

// standInMake makes a program that succeeds if make has the targets that it is
// given, without making them: the tests of the repository are among them. Whether
// they work is seen by .ci/run, see [TestTasksOfTheREADMEAreRunBeforeAChangeIsAccepted].
func standInMake(t *testing.T, path string) {
	t.Helper()
	real, err := exec.LookPath("make")
	done(t, err)
	done(t, os.WriteFile(path, fmt.Appendf(nil, "#!/bin/sh\nexec %s -n \"$@\" >/dev/null\n", real), 0o755))
}

// standInKubectl makes a program that has the verbs of kubectl that the documents
// use: the test binary of host/internal/deploytest, by that name. A machine that
// runs the tests need not have kubectl.
func standInKubectl(t *testing.T, path string) {
	t.Helper()
	cmd := exec.Command("go", "test", "-c", "-o", path, "./host/internal/deploytest")
	cmd.Dir = root(t)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
}

func done(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestTasksOfTheREADMEAreRunBeforeAChangeIsAccepted(t *testing.T) {
	script, err := os.ReadFile(filepath.Join(root(t), ".ci", "run"))
	done(t, err)
	for _, command := range []string{"make test", "make check", "DEMO_ONCE=1 make demo", "make test-release"} {
		if !slices.Contains(strings.Split(string(script), "\n"), command) {
			t.Errorf(".ci/run does not run %s", command)
		}
	}
}

// TestReaderNoticesWhatDoesNotWork follows documents that are wrong.
func TestReaderNoticesWhatDoesNotWork(t *testing.T) {
	for name, c := range map[string]struct{ document, want string }{
		"a command that fails":              {"```sh\nfalse\n```", "exit status 1"},
		"a command that fails in a pipe":    {"```sh\nfalse | cat\n```", "exit status 1"},
		"a command before the last":         {"```sh\nfalse\ntrue\n```", "exit status 1"},
		"a command that should fail":        {"<!-- doctest: fails -->\n```sh\ntrue\n```", "did not fail"},
		"output that does not come":         {"```sh\necho yes\n```\n```text\nno\n```", `has not the line "no"`},
		"output of a terminal that ended":   {"<!-- doctest: terminal a -->\n```sh\necho yes\n```\n```text\nno\n```", `did not show "no"`},
		"a file without a name":             {"This is it:\n\n```yaml\na: b\n```", "it is not clear"},
		"a file elsewhere":                  {"Write `../a`:\n\n```yaml\na: b\n```", "it is not clear"},
		"a change of a file that is absent": {"In `a`:\n\n```diff\n-a\n+b\n```", "no such file"},
		"a change that does not fit":        {"Write `a`:\n```yaml\nb\n```\nIn `a`:\n\n```diff\n-a\n+b\n```", "0 times"},
		"a change that fits twice":          {"Write `a`:\n```yaml\nb\nb\n```\nIn `a`:\n\n```diff\n-b\n+c\n```", "2 times"},
		"a terminal that is left":           {"<!-- doctest: terminal a -->\n```sh\nsleep 60\n```", "still running"},
		"a terminal that does not exist":    {"<!-- doctest: interrupt a -->", "nothing runs"},
		"a terminal that fails":             {"<!-- doctest: terminal a -->\n```sh\nsleep 60\n```\n<!-- doctest: interrupt a -->", "signal: interrupt"},
		"a block that is skipped for no reason": {
			"<!-- doctest: skip -->\n```sh\ntrue\n```", "the comment",
		},
	} {
		t.Run(name, func(t *testing.T) {
			steps, err := parse(c.document)
			done(t, err)
			if err = newReader(t, t.TempDir()).follow(steps); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestReaderKeepsTheStateOfTheShell(t *testing.T) {
	steps, err := parse("```sh\nmkdir a\ncd a\nexport X=\"1 2\"\n```\nWrite `b`:\n```yaml\none\ntwo\n```\n" +
		"Change `b`:\n```diff\n one\n-two\n+2\n```\n```sh\ncat b\necho $X in ${PWD##*/} after 5 ms\n```\n" +
		"```text\n2\none\n1 2 in a after 12.5 s\n1 … a…\n```\n" +
		"<!-- doctest: fails -->\n```sh\necho oops >&2\nfalse\n```\n```text\noops\n```\n" +
		"<!-- doctest: terminal t -->\n```sh\nsh -c 'trap \"exit 0\" INT; echo in ${PWD##*/}; while :; do sleep 0.01; done'\n```\n" +
		"```text\nin a\n```\n<!-- doctest: interrupt t -->")
	done(t, err)
	done(t, newReader(t, t.TempDir()).follow(steps))
}

func TestMain(m *testing.M) { await.Main(m, func() error { return goleak.Find() }) }
