package runner

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/cache/scope"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/internal/await"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/queue"
	"github.com/thole-dev/thole/host/sandbox"
	"github.com/thole-dev/thole/host/telemetry"
)

func TestMain(m *testing.M) { await.Main(m, func() error { return goleak.Find() }) }

// slowGuest is a plugin whose calls take a second, and those of the controller
// "stuck" as long as they may.
type slowGuest struct {
	dispatch.Effects
	calls atomic.Int64
}

func (*slowGuest) Call(context.Context, string, sandbox.Call) (sandbox.Return, error) {
	panic("no other export is called")
}

func (g *slowGuest) Reconcile(ctx context.Context, call sandbox.Call) (sandbox.Return, error) {
	g.calls.Add(1)
	request, err := abi.DecodeRequest(slices.Concat(call.Request...))
	if err == nil && request.Controller == "stuck" {
		<-ctx.Done()
		return sandbox.Return{}, context.Cause(ctx)
	}
	time.Sleep(time.Second) // fake time
	return sandbox.Return{Output: abi.EncodeResult(&abi.Result{Result: abi.OutcomeSuccess})}, err
}

func (g *slowGuest) PerformIntents(context.Context, effect.Target, *abi.Result) (effect.Report, *effect.Failure) {
	return effect.Report{}, nil
}

func (g *slowGuest) WriteStatus(context.Context, effect.Target, effect.Status) (effect.Report, *effect.Failure) {
	return effect.Report{}, nil
}

func (g *slowGuest) Release(context.Context, effect.Target, bool) (effect.Report, *effect.Failure) {
	return effect.Report{}, nil
}
func (g *slowGuest) EmitEvent(effect.Target, *abi.Event) {}

// fullCache is a cache that has every object.
type fullCache struct{ dispatch.Cache }

func (fullCache) Get(key object.Key) (*object.Object, bool) {
	o, err := object.Parse(fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Widget","metadata":{"name":%q,"uid":%[1]q}}`, key.Name), abi.Kind{})
	return o, err == nil
}
func (fullCache) Full() bool                                                { return false }
func (fullCache) Begin(object.Key, map[abi.Kind]scope.Reads) dispatch.Reads { return noReads{} }

type noReads struct{ dispatch.Reads }

func (noReads) Close()   {}
func (noReads) Commit()  {}
func (noReads) Abandon() {}

// startController starts a controller with one worker and two objects that are
// due.
func startController(r *Runner, g *slowGuest, name string) *controller {
	q := queue.New(queue.Config{})
	c := &controller{id: "p/" + name, metrics: r.Metrics.Controller("p/"+name, 1)}
	c.Controller = dispatch.New(dispatch.Config{
		Plugin: "p", Name: name, Workers: 1, Cache: fullCache{}, Metrics: c.metrics, Logger: hclog.NewNullLogger(),
	}, q, &dispatch.Revision{Number: 1, Guest: g, Effects: g, Controller: abi.Controller{Name: name}})
	for _, o := range []string{"a", "b"} {
		q.Add(object.Key{Name: o}, queue.Cause{Reason: abi.ReasonResync})
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	c.done.Go(func() { c.Run(ctx) })
	return c
}

// A plugin with many controllers has as long as one to end, and none of them
// starts another run meanwhile.
func TestControllersOfAPluginStopTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects, err := cache.New(cache.Config{REST: &rest.Config{Host: "http://127.0.0.1:1"}})
		if err != nil {
			t.Fatal(err)
		}
		defer objects.Stop()
		r := New(Config{Cache: objects, Metrics: telemetry.NewMetrics()})
		g := &slowGuest{}
		p := &plugin{controllers: map[string]*controller{}, log: r.pluginLogs.Open("p", func() {})}
		for _, name := range []string{"x", "stuck", "z"} {
			p.controllers[name] = startController(r, g, name)
		}
		r.plugins["p"] = p
		synctest.Wait()

		begin := time.Now()
		r.Stop("p", false)
		if took := time.Since(begin); took != 10*time.Second {
			t.Errorf("three controllers took %s to stop, want the 10 s of one", took)
		}
		if n := g.calls.Load(); n != 3 {
			t.Errorf("%d runs, want the three that were in progress", n)
		}
	})
}

func TestWorkersOfARunningControllerAreAdded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, g := New(Config{Cache: unconnected(t), Metrics: telemetry.NewMetrics()}), &slowGuest{}
		c := startController(r, g, "x")
		synctest.Wait()
		if n := g.calls.Load(); n != 1 {
			t.Errorf("one worker has made %d calls", n)
		}
		c.setWorkers(2)
		synctest.Wait()
		if n := g.calls.Load(); n != 2 {
			t.Errorf("two workers have made %d calls", n)
		}
		c.cancel()
		c.done.Wait()
	})
}
