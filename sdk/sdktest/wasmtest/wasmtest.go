// Package wasmtest runs a compiled plugin in the world of package sdktest, in the
// same sandbox as the host. It tests a plugin as compiled by TinyGo or by standard
// Go.
//
//	w := wasmtest.File(t, "podmanager.wasm")
//	w.Create(...)
//	w.Reconcile("default/web").ExpectReady()
package wasmtest

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/daemon"
	"github.com/thole-dev/thole/abi/functionindexes"
	"github.com/thole-dev/thole/abi/scans"
	"github.com/thole-dev/thole/abi/webhooks"
	"github.com/thole-dev/thole/host/sandbox"
	"github.com/thole-dev/thole/sdk/sdktest"
)

// File loads a plugin, whose name must be that of its file, and returns a world for
// its controller. For a plugin with several controllers, pass the name of one.
func File(tb testing.TB, path string, controller ...string) *sdktest.World {
	tb.Helper()
	wasm, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	return New(tb, strings.TrimSuffix(filepath.Base(path), ".wasm"), wasm, controller...)
}

// New is [File] for a module in memory.
func New(tb testing.TB, name string, wasm []byte, controller ...string) *sdktest.World {
	tb.Helper()
	return sdktest.NewWith(tb, runner{Load(tb, name, wasm), tb.Context()}, controller...)
}

// Limits of a load and of a run. A host allows less time. These limits only end what
// never would, so that no test fails because the machine is busy or the race
// detector is on.
const (
	loadLimit = 15 * time.Minute
	runLimit  = 2 * time.Minute
)

// Load loads a plugin into a sandbox of its own, which is closed when the test ends.
func Load(tb testing.TB, name string, wasm []byte) *sandbox.Guest {
	tb.Helper()
	s, err := sandbox.New(tb.Context(), sandbox.Config{CacheDir: cacheDir(), LoadTimeout: loadLimit, Capabilities: capabilities()})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	guest, err := s.Load(tb.Context(), sandbox.Plugin{Name: name, Wasm: wasm, Limits: sandbox.Limits{Deadline: runLimit}})
	if err != nil {
		tb.Fatal(err)
	}
	return guest
}

// cacheDir returns the directory in which compiled modules are cached for all test
// processes. Most of the time of a test is the compilation.
func cacheDir() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "thole", "wasmtest")
}

// runner is an [sdktest.Runner] for a guest. All runs have the context of the test.
type runner struct {
	guest *sandbox.Guest
	ctx   context.Context //nolint:containedctx // of the test
}

func (r runner) Describe() []byte { return abi.EncodeManifest(r.guest.Manifest()) }

func (r runner) Reconcile(request []byte, host sdktest.Host) (abi.Code, []byte, error) {
	q, err := abi.DecodeRequest(request)
	if err != nil {
		return 0, nil, err
	}
	back, err := r.guest.Reconcile(r.ctx, sandbox.Call{
		Request: [][]byte{request}, Namespace: namespaceOf(q.Object), Now: q.Now, Seed: q.Seed, Host: calls{host},
	})
	return back.Code, back.Output, err
}

func (r runner) Daemon(request []byte, host sdktest.Host) (abi.Code, []byte, error) {
	q, err := daemon.DecodeRequest(request)
	if err != nil {
		return 0, nil, err
	}
	back, err := r.guest.Call(r.ctx, daemon.Export, sandbox.Call{
		Request: [][]byte{request}, Namespace: namespaceOf(q.Object), Now: q.Now, Seed: q.Seed, Host: calls{host},
	})
	return back.Code, back.Output, err
}

func (r runner) Scan(request []byte, host sdktest.Host) (abi.Code, []byte, error) {
	q, err := scans.DecodeRequest(request)
	if err != nil {
		return 0, nil, err
	}
	back, err := r.guest.Call(r.ctx, scans.Export, sandbox.Call{Request: [][]byte{request}, Now: q.Now, Seed: q.Seed, Host: calls{host}})
	return back.Code, back.Output, err
}

func (r runner) Validate(request []byte, host sdktest.Host) (abi.Code, []byte, error) {
	return r.review(webhooks.ExportValidate, request, host)
}

func (r runner) Mutate(request []byte, host sdktest.Host) (abi.Code, []byte, error) {
	return r.review(webhooks.ExportMutate, request, host)
}

func (r runner) review(export string, request []byte, host sdktest.Host) (abi.Code, []byte, error) {
	q, err := webhooks.DecodeReviewRequest(request)
	if err != nil {
		return 0, nil, err
	}
	object := q.Object
	if object == nil {
		object = q.Old
	}
	back, err := r.guest.Call(r.ctx, export, sandbox.Call{
		Request: [][]byte{request}, Namespace: namespaceOf(object), Now: q.Now, Seed: q.Seed, Host: calls{host},
	})
	return back.Code, back.Output, err
}

func (r runner) Convert(request []byte) (abi.Code, []byte, error) {
	q, err := webhooks.DecodeConvertRequest(request)
	if err != nil {
		return 0, nil, err
	}
	back, err := r.guest.Call(r.ctx, webhooks.ExportConvert, sandbox.Call{
		Request: [][]byte{request}, Namespace: namespaceOf(q.Object), Now: q.Now, Seed: q.Seed,
	})
	return back.Code, back.Output, err
}

func (r runner) Index(request []byte) (abi.Code, []byte, error) {
	q, err := functionindexes.DecodeRequest(request)
	if err != nil {
		return 0, nil, err
	}
	back, err := r.guest.Call(r.ctx, functionindexes.Export, sandbox.Call{Request: [][]byte{request}, Namespace: namespaceOf(q.Object)})
	return back.Code, back.Output, err
}

// namespaceOf returns the namespace of an object, "" if it has none.
func namespaceOf(object []byte) string {
	var o struct {
		Metadata struct {
			Namespace string `json:"namespace"`
		} `json:"metadata"`
	}
	_ = json.Unmarshal(object, &o) // the guest reports what is wrong with the object
	return o.Metadata.Namespace
}

// calls adapts a world, which needs no context, to the host of the sandbox.
type calls struct{ sdktest.Host }

func (c calls) Get(_ context.Context, call sandbox.ReadCall) (sandbox.Reply, int64) {
	text, code := c.Host.Get(call.Message)
	return sandbox.Bytes(text), code
}

// Import serves the imports of capabilities that the SDK has.
func (c calls) Import(_ context.Context, name string, call sandbox.ReadCall) (sandbox.Reply, int64) {
	serve := c.Host.HTTP
	if name == functionindexes.Import {
		serve = c.Host.IndexGet
	}
	text, code := serve(call.Message)
	return sandbox.Bytes(text), code
}

func (c calls) List(_ context.Context, call sandbox.ReadCall) (sandbox.Reply, int64) {
	text, code := c.Host.List(call.Message)
	return sandbox.Bytes(text), code
}
