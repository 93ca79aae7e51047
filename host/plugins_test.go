package host

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/queue"
	"github.com/thole-dev/thole/host/telemetry"
)

// slow is a plugin whose calls take a second, those of one controller as long
// as they are let.
type slow struct {
	stall
	stuck string       // that controller
	began atomic.Int64 // calls
}

func (s *slow) Reconcile(ctx context.Context, call dispatch.Call) (dispatch.Return, error) {
	s.began.Add(1)
	request, err := abi.DecodeRequest(call.Request)
	if err == nil && request.Controller == s.stuck {
		<-ctx.Done()
		return dispatch.Return{}, context.Cause(ctx)
	}
	time.Sleep(time.Second) // fake time
	return dispatch.Return{Output: abi.EncodeResult(&abi.Result{Result: abi.OutcomeSuccess})}, err
}

// run starts a controller of the plugin, with one worker and two objects that
// are due.
func (s *slow) run(p *plugins, name string) *controller {
	q := dispatchQueue{queue.New(queue.Config{})}
	c := &controller{id: "p/" + name, metrics: p.h.metrics.Controller("p/"+name, 1)}
	c.Controller = dispatch.New(dispatch.Config{
		Name: name, Workers: 1, Queue: q, Cache: wares{}, Metrics: c.metrics, Logger: hclog.NewNullLogger(),
	}, &dispatch.Generation{Number: 1, Guest: s, Effects: s, Controller: abi.Controller{Name: name}})
	for _, o := range []string{"a", "b"} {
		q.Trigger(object.Key{Name: o}, abi.ReasonResync)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	c.done.Go(func() { c.Run(ctx) })
	return c
}

// TestControllersOfAPluginEndTogether: a plugin with many of them has the time
// of one to end, and meanwhile none begins another run.
func TestControllersOfAPluginEndTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects, err := cache.New(cache.Config{REST: &rest.Config{Host: "http://127.0.0.1:1"}})
		if err != nil {
			t.Fatal(err)
		}
		defer objects.Stop()
		p := &plugins{h: &Host{cache: objects, metrics: telemetry.NewMetrics()}, controllers: map[string]*controller{}}
		s := &slow{stuck: "y"}
		pl := &plugin{controllers: map[string]*controller{}}
		for _, name := range []string{"x", "y", "z"} {
			pl.controllers[name] = s.run(p, name)
		}
		p.byName = map[string]*plugin{"p": pl}
		synctest.Wait()

		began := time.Now()
		p.Stop("p", false)
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("three controllers took %s to end, one takes 10s", took)
		}
		if n := s.began.Load(); n != 3 {
			t.Errorf("%d runs, want the three that were under way", n)
		}
	})
}
