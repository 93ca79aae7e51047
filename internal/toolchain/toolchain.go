// Package toolchain compiles plugins, by TinyGo or by standard Go. The output is complete or absent, for a running host
// may watch its folder, and does not depend on where the source lies.
package toolchain

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
	"time"
)

// Flags of the compilers. Both keep the name section, which stack traces need: TinyGo's -no-debug drops only DWARF, and
// Go's -ldflags=-s is left out for its sake. The stack of TinyGo, 64 KiB by default, takes what regexp needs to compile the
// expression of an OCI reference (more than 64 KiB) or of a DNS name (more than 128): see host/sandbox/RATIONALE.md.
var (
	tinygoFlags = []string{"build", "-target=wasip1", "-buildmode=c-shared", "-scheduler=none", "-gc=leaking", "-opt=2", "-no-debug", "-ldflags=-extldflags '-z stack-size=196608'"}
	goFlags     = []string{"build", "-trimpath", "-buildvcs=false", "-buildmode=c-shared"}
)

// TinyGoTags are the build tags that TinyGo sets for its flags.
const TinyGoTags = "-tags=tinygo,tinygo.wasm,purego,gc.leaking,scheduler.none"

// TinyGoMinimum is the oldest TinyGo that will do: older ones lack what the SDK needs, //go:wasmexport for reactors and
// Go 1.26. It is that of .ci/tools/lib.sh.
const TinyGoMinimum = "0.41"

// Compiler is a TinyGo. The zero value is the standard Go of the PATH.
type Compiler struct {
	Path string
	own  bool // built by `make tools`: it finds its library beside itself
}

// FindTinyGo returns the TinyGo that is named, or that of the PATH if it is new enough, or the one that `make tools` has
// built in a directory above dir, the working directory or this program.
func FindTinyGo(named, dir string) (Compiler, error) {
	near := []string{dir, "."}
	if self, err := os.Executable(); err == nil {
		near = append(near, filepath.Dir(self))
	}
	return findTinyGo(named, near...)
}

func findTinyGo(named string, near ...string) (Compiler, error) {
	if named != "" {
		path, err := exec.LookPath(named)
		if err != nil {
			return Compiler{}, fmt.Errorf("find TinyGo: %w; name the program itself with --tinygo", err)
		}
		path, err = filepath.Abs(path)
		return Compiler{Path: path}, err
	}
	old := ""
	if path, err := exec.LookPath("tinygo"); err == nil {
		version := tinygoVersion(path)
		if atLeast(TinyGoMinimum, version) {
			return Compiler{Path: path}, nil
		}
		old = fmt.Sprintf(" (%s is %s)", path, strings.TrimSpace("version "+version))
	}
	for _, dir := range near {
		if path, ok := above(dir, filepath.Join(".tools", "tinygo", "bin", "tinygo")); ok {
			return Compiler{Path: path, own: true}, nil
		}
	}
	return Compiler{}, fmt.Errorf("find TinyGo: none of version %s or newer is in PATH%s: install it (https://tinygo.org/getting-started/install), or run `make tools` in the repository of Thole, and name it with --tinygo if it is not found then", TinyGoMinimum, old)
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

// IsTinyGo reports whether it is not standard Go.
func (c Compiler) IsTinyGo() bool { return c.Path != "" }

// Version returns what the compiler says of itself.
func (c Compiler) Version(ctx context.Context) (string, error) {
	out, err := c.command(ctx, "version").Output()
	if err != nil {
		return "", fmt.Errorf("ask %s for its version: %w", c.name(), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Build compiles the main package in dir into a file. Its error is the output of the compiler, with paths relative
// to dir. A file that is there stays as it is until it is replaced by a whole one.
func (c Compiler) Build(ctx context.Context, dir, out string) (err error) {
	if out, err = filepath.Abs(out); err != nil {
		return err
	}
	// What a compiler leaves that was killed goes with this. A host overlooks it.
	scratch, err := os.MkdirTemp(filepath.Dir(out), ".thole-build-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, removeAll(scratch)) }()
	partial := filepath.Join(scratch, "module.wasm")
	flags := goFlags
	if c.IsTinyGo() {
		flags = tinygoFlags
	}
	// From inside the folder, so that a plugin may be a module of its own.
	cmd := c.command(ctx, append(append([]string{}, flags...), "-o", partial, ".")...)
	cmd.Dir = dir
	cmd.Env = append(cmd.Env, "TMPDIR="+scratch, "GOTMPDIR="+scratch)
	said, err := combinedOutput(cmd)
	switch text := strings.TrimSpace(string(said)); {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && text != "":
		return errors.New(text + c.otherCompiler(ctx, text))
	case err != nil:
		return fmt.Errorf("run %s: %w", c.name(), err)
	}
	return os.Rename(partial, out)
}

var notInStd = regexp.MustCompile(`package (\S+) is not in std`)

// otherCompiler returns the advice for a program that TinyGo cannot compile, by what it has said, and standard Go
// can; "" for any other.
func (c Compiler) otherCompiler(ctx context.Context, said string) string {
	missing := notInStd.FindStringSubmatch(said)
	if !c.IsTinyGo() || missing == nil || (Compiler{}).command(ctx, "list", "-find", missing[1]).Run() != nil {
		return ""
	}
	return "\nTinyGo has no package " + missing[1] + ", so this plugin needs standard Go: thole build --go, or thole dev --go; " +
		"or leave out what imports it, such as k8s.io/api, of whose types sdk/kubernetes has some for TinyGo"
}

// removeAll tries for a while: processes that were killed a moment ago may still be writing.
func removeAll(dir string) (err error) {
	for range 100 {
		if err = os.RemoveAll(dir); err == nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	return err
}

func (c Compiler) name() string {
	if c.IsTinyGo() {
		return c.Path
	}
	return "go"
}

// command is one of the compiler, in the environment for plugins.
func (c Compiler) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.name(), args...)
	cmd.Env = environment(c.own)
	if !c.IsTinyGo() {
		cmd.Env = append(cmd.Env, targetVariables...)
	}
	return cmd
}

var targetVariables = []string{"GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0"}

// Environment is that of a go command which sees the files of a plugin as the compilers do; as TinyGo does with
// [TinyGoTags].
func Environment() []string { return append(environment(false), targetVariables...) }

// environment is ours, without the flags that are meant for another build.
func environment(own bool) []string {
	var env []string
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if name != "GOFLAGS" && name != "GOOS" && name != "GOARCH" && (name != "TINYGOROOT" || !own) {
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
