package devloop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// compileFlags are those of .ci/tools/plugin-build, which has the reasons; a test
// compares them.
var compileFlags = []string{
	"build", "-target=wasip1", "-buildmode=c-shared",
	"-scheduler=none", "-gc=leaking", "-opt=2", "-no-debug",
}

// compileTags are the build tags that TinyGo sets for these flags, for the go
// command to see the same files.
const compileTags = "-tags=tinygo,tinygo.wasm,purego,gc.leaking,scheduler.none"

// tinygoMinimum is the oldest TinyGo that will do, as in .ci/tools/lib.sh.
const tinygoMinimum = "0.41"

// toolchain is a TinyGo.
type toolchain struct {
	path string
	ours bool // built by `make tools`: it finds its library beside itself
}

// findToolchain returns the TinyGo that is named, or that of the PATH if it is
// new enough, or the one that `make tools` has built in a directory above one
// of near.
func findToolchain(named string, near ...string) (toolchain, error) {
	if named != "" {
		path, err := exec.LookPath(named)
		if err != nil {
			return toolchain{}, fmt.Errorf("find TinyGo: %w; name the program itself with --tinygo", err)
		}
		path, err = filepath.Abs(path)
		return toolchain{path: path}, err
	}
	old := ""
	if path, err := exec.LookPath("tinygo"); err == nil {
		version := tinygoVersion(path)
		if atLeast(tinygoMinimum, version) {
			return toolchain{path: path}, nil
		}
		old = fmt.Sprintf(" (%s is %s)", path, strings.TrimSpace("version "+version))
	}
	for _, dir := range near {
		if path, ok := above(dir, filepath.Join(".tools", "tinygo", "bin", "tinygo")); ok {
			return toolchain{path: path, ours: true}, nil
		}
	}
	return toolchain{}, fmt.Errorf("find TinyGo: none of version %s or newer is in PATH%s: install it (https://tinygo.org/getting-started/install), or run `make tools` in the repository of Thole, and name it with --tinygo if it is not found then", tinygoMinimum, old)
}

// above looks for an executable file below dir and every directory above it.
func above(dir, name string) (string, bool) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", false
	}
	for {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, true
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", false
		}
		dir = parent
	}
}

var versionPattern = regexp.MustCompile(`version (\d+(?:\.\d+)*)`)

// tinygoVersion is "" for a program that does not say.
func tinygoVersion(path string) string {
	out, _ := exec.Command(path, "version").Output() // fails: it has not said
	if match := versionPattern.FindSubmatch(out); match != nil {
		return string(match[1])
	}
	return ""
}

// atLeast compares dotted versions.
func atLeast(minimum, version string) bool {
	want, have := strings.Split(minimum, "."), strings.Split(version, ".")
	for i, w := range want {
		if i >= len(have) {
			return false
		}
		a, errA := strconv.Atoi(w)
		b, errB := strconv.Atoi(have[i])
		if errA != nil || errB != nil || a != b {
			return errA == nil && errB == nil && b > a
		}
	}
	return true
}

// compile builds the main package in dir into a file. Its error is the output of
// the compiler, with paths relative to dir.
func (t toolchain) compile(ctx context.Context, dir, out string) error {
	// From inside the folder, so that a plugin may be a module of its own.
	cmd := exec.CommandContext(ctx, t.path, append(append([]string{}, compileFlags...), "-o", out, ".")...)
	cmd.Dir = dir
	// What a compiler leaves that was killed goes with the output's directory.
	scratch := filepath.Dir(out)
	cmd.Env = append(t.environment(), "TMPDIR="+scratch, "GOTMPDIR="+scratch)
	said, err := combinedOutput(cmd)
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	if text := strings.TrimSpace(string(said)); text != "" {
		return errors.New(text)
	}
	return fmt.Errorf("run %s: %w", t.path, err)
}

// environment is ours, without the flags that are meant for another build.
func (t toolchain) environment() []string {
	var env []string
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if name != "GOFLAGS" && name != "GOOS" && name != "GOARCH" && (name != "TINYGOROOT" || !t.ours) {
			env = append(env, variable)
		}
	}
	return append(env, "GOFLAGS="+moduleFlags(os.Getenv("GOFLAGS")))
}

// moduleFlags keeps of the flags for every go command those about modules and
// parallelism: the others, -race above all, do not fit a plugin.
func moduleFlags(goflags string) string {
	var kept []string
	for flag := range strings.FieldsSeq(goflags) {
		for _, fits := range []string{"-mod=", "-modfile=", "-modcacherw", "-p="} {
			if strings.HasPrefix(flag, fits) {
				kept = append(kept, flag)
			}
		}
	}
	return strings.Join(kept, " ")
}
