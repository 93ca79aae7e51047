// Package traps finds out what a TinyGo is known to compile wrongly, and where a program has that. Its other tests would not
// show it: they are compiled by standard Go.
//
// A TinyGo is tried once: it compiles the program in the folder probe, which runs in a sandbox and compares what it
// computes with what it should. The result is kept in the cache of the user, by the content of the compiler. A trap
// that is found later gets a function in the probe and an entry in known.
package traps

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"go/ast"
	"go/types"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"golang.org/x/tools/go/packages"

	"github.com/thole-dev/thole/internal/toolchain"
)

// A trap is something that compilers get wrong.
type trap struct {
	name string // in the output of the probe
	// has reports whether a node of a syntax tree is of it.
	has     func(*types.Info, ast.Node) bool
	problem string // what is wrong with such a node, and what to write instead
}

var known = []trap{{
	name: "new-of-value",
	has: func(info *types.Info, n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) != 1 {
			return false
		}
		id, ok := ast.Unparen(call.Fun).(*ast.Ident)
		if !ok {
			return false
		}
		builtin, ok := info.Uses[id].(*types.Builtin)
		return ok && builtin.Name() == "new" && !info.Types[call.Args[0]].IsType()
	},
	problem: "new of a value would be a pointer to zero: write v := and the value, and &v",
}}

//go:embed probe/main.go
var probe []byte

// Check fails if a compiler is known to compile something wrongly that the main package in dir has, or a package that it
// imports. The error has a line for each place, relative to dir.
func Check(ctx context.Context, c toolchain.Compiler, dir string) error {
	if !c.IsTinyGo() {
		return nil
	}
	failed, err := try(ctx, c)
	if err != nil || len(failed) == 0 {
		return err
	}
	places, err := find(ctx, dir, failed)
	if err != nil || len(places) == 0 {
		return err
	}
	const most = 20
	if more := len(places) - most; more > 0 {
		places = append(places[:most], fmt.Sprintf("and %d more", more))
	}
	version, err := c.Version(ctx)
	return errors.Join(fmt.Errorf("%s\n%s (%s) compiles this wrongly, as it has shown with a program that was tried. `make tools` in the repository of Thole builds a TinyGo that does not; --tinygo names one",
		strings.Join(places, "\n"), c.Path, version), err)
}

// try returns the traps that a compiler does not come through.
func try(ctx context.Context, c toolchain.Compiler) (failed []trap, err error) {
	kept, err := keptPath(ctx, c)
	if err != nil {
		return nil, err
	}
	output, err := os.ReadFile(kept)
	if err == nil {
		if failed, err = read(string(output)); err == nil {
			return failed, nil
		}
	}
	said, err := run(ctx, c)
	if err == nil {
		failed, err = read(said)
	}
	if err != nil {
		return nil, fmt.Errorf("try %s: %w", c.Path, err)
	}
	// A result that cannot be kept is found again.
	if os.MkdirAll(filepath.Dir(kept), 0o700) == nil {
		_ = os.WriteFile(kept, []byte(said), 0o600)
	}
	return failed, nil
}

// read returns the traps of which the output of the probe does not state that they are ok.
func read(output string) (failed []trap, err error) {
	for _, t := range known {
		switch lines := strings.Split(output, "\n"); {
		case slices.Contains(lines, t.name+" wrong"):
			failed = append(failed, t)
		case !slices.Contains(lines, t.name+" ok"):
			return nil, fmt.Errorf("the program that was tried says nothing of %s: %q", t.name, output)
		}
	}
	return failed, nil
}

// keptPath returns the path of the result for a compiler with its content, and for the probe.
func keptPath(ctx context.Context, c toolchain.Compiler) (string, error) {
	version, err := c.Version(ctx)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", nil // nothing is kept
	}
	program, err := os.Open(c.Path)
	if err != nil {
		return "", err
	}
	defer program.Close()
	digest := sha256.New()
	if _, err := io.Copy(digest, program); err != nil {
		return "", fmt.Errorf("read %s: %w", c.Path, err)
	}
	_, _ = digest.Write([]byte(version))
	_, _ = digest.Write(probe)
	return filepath.Join(cache, "thole", "tinygo", hex.EncodeToString(digest.Sum(nil))), nil
}

// run returns what the probe prints.
func run(ctx context.Context, c toolchain.Compiler) (output string, err error) {
	dir, err := os.MkdirTemp("", "thole-probe-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	module := filepath.Join(dir, "probe.wasm")
	if err := errors.Join(
		os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module probe\n\ngo 1.26\n"), 0o600),
		os.WriteFile(filepath.Join(dir, "main.go"), probe, 0o600),
	); err != nil {
		return "", err
	}
	if err := c.Build(ctx, dir, module); err != nil {
		return "", err
	}
	wasm, err := os.ReadFile(module)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute) // who knows what it has become
	defer cancel()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter().WithMemoryLimitPages(256).WithCloseOnContextDone(true))
	defer r.Close(ctx)
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, r); err != nil {
		return "", err
	}
	var printed bytes.Buffer
	_, err = r.InstantiateWithConfig(ctx, wasm, wazero.NewModuleConfig().WithStdout(&printed).WithStderr(&printed).WithStartFunctions("_initialize"))
	return printed.String(), err
}

// find returns the places of traps in a main package and all that it imports.
func find(ctx context.Context, dir string, traps []trap) (places []string, err error) {
	roots, err := packages.Load(&packages.Config{
		Context: ctx, Dir: dir, Env: toolchain.Environment(), BuildFlags: []string{toolchain.TinyGoTags},
		Mode: packages.NeedName | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedDeps |
			packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo,
	}, ".")
	if err != nil {
		return nil, err
	}
	packages.Visit(roots, nil, func(p *packages.Package) {
		for _, file := range p.Syntax {
			ast.Inspect(file, func(n ast.Node) bool {
				for _, t := range traps {
					if n != nil && t.has(p.TypesInfo, n) {
						at := p.Fset.Position(n.Pos())
						if path, err := filepath.Rel(dir, at.Filename); err == nil && filepath.IsLocal(path) {
							at.Filename = path
						}
						places = append(places, fmt.Sprintf("%s: %s", at, t.problem))
					}
				}
				return true
			})
		}
	})
	slices.Sort(places)
	return places, nil
}
