package deptest

import (
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/core.txt")

const (
	root     = "../../.."
	standard = "host/with/standard/standard.go"
)

// capabilities returns the folders of the capabilities, such as cloudevents.
func capabilities(t *testing.T) (names []string) {
	t.Helper()
	declared, err := filepath.Glob(filepath.Join(root, "host/with/*/capability.go"))
	if err != nil || len(declared) == 0 {
		t.Fatalf("%q, %v", declared, err)
	}
	for _, file := range declared {
		names = append(names, filepath.Base(filepath.Dir(file)))
	}
	return names
}

// withThoseThatNeed returns a capability and those whose folders import its.
func withThoseThatNeed(t *testing.T, name string) []string {
	t.Helper()
	return slices.DeleteFunc(capabilities(t), func(other string) bool {
		imports := strconv.Quote(module + "/host/with/" + name)
		for _, file := range parse(t, "host/with/"+other, func(string) bool { return true }) {
			if slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == imports }) {
				return false
			}
		}
		return other != name
	})
}

// TestRelease_TheHostIsCompleteWithoutEachCapability type-checks the packages of the host and the program
// without the folder and the line of one capability, and of those that need it.
func TestRelease_TheHostIsCompleteWithoutEachCapability(t *testing.T) {
	list, err := os.ReadFile(filepath.Join(root, standard))
	if err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range capabilities(t) {
		t.Run(name, func(t *testing.T) {
			replaced := map[string]string{} // by the path of a file; "" for one that is not there
			lines := strings.Split(string(list), "\n")
			for _, name := range withThoseThatNeed(t, name) {
				err := filepath.WalkDir(filepath.Join(dir, "host/with", name), func(path string, d fs.DirEntry, err error) error {
					if err == nil && !d.IsDir() {
						replaced[path] = ""
					}
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
				lines = slices.DeleteFunc(lines, func(line string) bool {
					line = strings.TrimSpace(line)
					return line == strconv.Quote(module+"/host/with/"+name) || line == name+".Capability(),"
				})
			}
			without := filepath.Join(t.TempDir(), "standard.go")
			if err := os.WriteFile(without, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
				t.Fatal(err)
			}
			replaced[filepath.Join(dir, standard)] = without
			text, err := json.Marshal(map[string]any{"Replace": replaced})
			if err != nil {
				t.Fatal(err)
			}
			overlay := filepath.Join(t.TempDir(), "overlay.json")
			if err := os.WriteFile(overlay, text, 0o600); err != nil {
				t.Fatal(err)
			}
			command := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, "./host/...", "./cmd/thole/...")
			command.Dir = dir
			if said, err := command.CombinedOutput(); err != nil {
				t.Errorf("the host needs the capability: %v\n%s", err, said)
			}
		})
	}
}

// TestTheCoreLinksNoCapability compares what a host without any capability links with a list: packages of
// this module, and other modules.
func TestTheCoreLinksNoCapability(t *testing.T) {
	command := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{if .Module.Main}}{{.ImportPath}}{{else}}{{.Module.Path}}{{end}}{{end}}", "./host")
	command.Dir = root
	said, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	linked := map[string]bool{}
	for line := range strings.FieldsSeq(string(said)) {
		linked[strings.TrimPrefix(line, module+"/")] = true
	}
	got := strings.Join(slices.Sorted(maps.Keys(linked)), "\n") + "\n"
	const file = "testdata/core.txt"
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("a host without capabilities links what %s has not, or not all of it: read the difference, and write it with -update:\n%s", file, got)
	}
	for _, name := range capabilities(t) {
		if linked["host/with/"+name] || linked["abi/"+name] {
			t.Errorf("the core links %s", name)
		}
	}
}

var metricName = regexp.MustCompile(`^(thole|leader_election)_[a-z_]+$`)

// ownNames are what a capability calls its own: strings of constants and of metrics, and identifiers that
// have its name.
type ownNames struct {
	texts      map[string]bool
	identifier string // in lower case
}

// namesOf reads the folders of a capability.
func namesOf(t *testing.T, name string) ownNames {
	t.Helper()
	own := ownNames{map[string]bool{}, name}
	for _, dir := range []string{"host/with/" + name, "abi/" + name} {
		if _, err := os.Stat(filepath.Join(root, dir)); err != nil {
			continue // guests share nothing with it
		}
		for _, file := range parse(t, dir, func(path string) bool { return !strings.HasSuffix(path, "_test.go") }) {
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.GenDecl:
					if n.Tok == token.CONST {
						eachText(n, func(text string) { own.texts[text] = true })
					}
				case *ast.BasicLit:
					eachText(n, func(text string) {
						if metricName.MatchString(text) {
							own.texts[text] = true
						}
					})
				}
				return true
			})
		}
	}
	return own
}

// eachText calls f for each string literal.
func eachText(n ast.Node, f func(text string)) {
	ast.Inspect(n, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			if text, err := strconv.Unquote(literal.Value); err == nil {
				f(text)
			}
		}
		return true
	})
}

// parse parses the Go files below a folder that are wanted, by their paths from the root.
func parse(t *testing.T, dir string, wanted func(path string) bool) map[string]*ast.File {
	t.Helper()
	files := map[string]*ast.File{}
	err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || !wanted(path) {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		files[strings.TrimPrefix(filepath.ToSlash(path), root+"/")] = file
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// ordinary are strings and identifiers of capabilities that are words of Kubernetes, HTTP, networks or the core, too.
var ordinary = []string{
	"success", "failed", "requeue", "requeue_after", "full", "refused", "removed", "stopped", "CREATED", "DELETED", "UPDATED",
	"structured", "binary", "batch", "thole.dev", "error", "index", "object", "other", "read", "start", "stop", "time",
	// Names of events of the core, which are also reasons of Events on the pod.
	"PluginRefused", "PluginRolledBack", "PluginQuarantined", "PluginRecovered", "RightsMissing", "RightsGranted",
	"http", "https", "GET", "Authorization", "Timeout", "Unreachable", "denied", "invalid", "username", "password", "token", "tls.crt", "ca.crt",
	"loopback", "private", "shared", "reserved", "protocol", "metadata",
	"page", // of a list, or of memory
	"changes", "Changes", "created", "updated", "deleted", "annotation", "memory", `"`,
	"DELETE", "allowed", "body", "busy", "path", "app.kubernetes.io/managed-by",
	"thole", // the program, and the manager of what it writes
}

// TestTheCoreHasNoNamesOfCapabilities: not in code, and not in tests. The conformance kit has cases of all
// capabilities.
func TestTheCoreHasNoNamesOfCapabilities(t *testing.T) {
	all := capabilities(t)
	core := func(path string) bool {
		path = strings.TrimPrefix(filepath.ToSlash(path), root+"/")
		return !match("./host/with/...", module+"/"+path) && !match("./host/internal/...", module+"/"+path) && !match("./abi/tck/...", module+"/"+path) &&
			!slices.ContainsFunc(all, func(name string) bool { return strings.HasPrefix(path, "abi/"+name+"/") })
	}
	files := parse(t, "host", core)
	maps.Copy(files, parse(t, "abi", core))
	for _, name := range capabilities(t) {
		own := namesOf(t, name)
		if len(own.texts) == 0 {
			t.Fatalf("%s has no names", name)
		}
		for path, file := range files {
			eachText(file, func(text string) {
				if own.texts[text] && !slices.Contains(ordinary, text) {
					t.Errorf("%s has %q of the capability %s", path, text, name)
				}
			})
			ofLibrary := slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == strconv.Quote("net/"+name) })
			ast.Inspect(file, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok && strings.EqualFold(id.Name, own.identifier) && !(ofLibrary && id.Name == name) && !slices.Contains(ordinary, id.Name) {
					t.Errorf("%s has the identifier %s of the capability %s", path, id.Name, name)
				}
				return true
			})
		}
	}
}
