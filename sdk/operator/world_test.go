package operator_test

import (
	"errors"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/internal/guest"
	"github.com/thole-dev/thole/sdk/operator"
	"github.com/thole-dev/thole/sdk/sdktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type siteSpec struct {
	Title string `json:"title,omitempty"`
}

type siteStatus struct {
	URL string `json:"url,omitempty"`
}

type (
	controller = sdk.Controller[siteSpec, siteStatus]
	object     = sdk.Request[siteSpec, siteStatus]
	old        = sdk.Object[siteSpec, siteStatus]
	request    = operator.Request[siteSpec, siteStatus]
	reconciler = operator.Reconciler[siteSpec, siteStatus]
	watcher    = operator.Watcher[siteSpec, siteStatus]
	result     = operator.Result
	pending    = operator.Pending
)

var (
	siteKind  = sdk.Kind{APIVersion: "example.com/v1", Kind: "Site"}
	configMap = sdk.Kind{APIVersion: "v1", Kind: "ConfigMap"}
	shop      = siteKind.Ref("default", "shop")
	errBroken = errors.New("broken")
)

const site = `{"apiVersion":"example.com/v1","kind":"Site","metadata":{"namespace":"default","name":"shop"},"spec":{"title":"A"}}`

// serial makes the names of the controllers distinct, of which each test has its own.
var serial atomic.Int64

// one is a plugin that has only one of the controllers that the tests have registered.
type one struct {
	name string
	test *test
}

func (o one) Describe() []byte {
	m := *guest.Manifest()
	m.Name = "plug"
	m.Controllers = slices.DeleteFunc(m.Controllers, func(c abi.Controller) bool { return c.Name != o.name })
	return abi.EncodeManifest(&m)
}

func (o one) Reconcile(message []byte, host sdktest.Host) (abi.Code, []byte, error) {
	if o.test.traps {
		return 0, nil, errors.New("trap")
	}
	if q, err := abi.DecodeRequest(message); err == nil && o.test.edit != nil {
		o.test.edit(q)
		message = abi.EncodeRequest(q)
	}
	code, result := guest.Reconcile(host, message)
	return code, result, nil
}

// test is a world with one site, and the calls in order.
type test struct {
	*sdktest.World
	t     *testing.T
	calls []string
	edit  func(*abi.Request) // of each request
	traps bool
	fail  error // of each call

	State        any // of each result
	RequeueAfter time.Duration
}

// record returns a reconciler that notes its calls, and then returns fail.
func (x *test) record() reconciler {
	return reconciler{Reconcile: func(r *request) (result, error) {
		call := string(r.Action)
		if r.Action != operator.Deleted {
			call += " " + r.Spec.Title
		}
		if r.Retry > 0 {
			call += " " + strconv.Itoa(r.Retry)
		}
		state := ""
		if ok, err := r.State(&state); err != nil {
			x.t.Error(err)
		} else if ok {
			call += " " + state
		}
		x.calls = append(x.calls, call)
		return result{RequeueAfter: x.RequeueAfter, State: x.State}, x.fail
	}}
}

// watch returns a watcher that notes its calls, and then returns fail.
func (x *test) watch() watcher {
	note := func(name string) func(*object) error {
		return func(r *object) error {
			x.calls = append(x.calls, name+" "+r.Spec.Title)
			return x.fail
		}
	}
	return watcher{
		Add: note("add"), Delete: note("delete"),
		Update: func(o *old, r *object) error {
			before := "?"
			if o != nil {
				before = o.Spec.Title
			}
			x.calls = append(x.calls, "update "+before+" "+r.Spec.Title)
			return x.fail
		},
	}
}

// opinionated returns the opinionated form of a watcher, with a Sync that notes its calls.
func (x *test) opinionated() watcher {
	w := x.watch()
	w.Opinionated = true
	w.Sync = func(r *object) error {
		x.calls = append(x.calls, "sync "+r.Spec.Title)
		return x.fail
	}
	return w
}

// layer is a Reconciler or a Watcher.
type layer interface {
	Controller(base controller) controller
}

// begin registers the controller, and creates the site.
func (x *test) begin(l layer, base ...controller) {
	x.t.Helper()
	c := controller{}
	if len(base) > 0 {
		c = base[0]
	}
	c.Name, c.For = "c"+strconv.FormatInt(serial.Add(1), 10), siteKind
	c.Owns = []sdk.Kind{configMap}
	sdk.Register(l.Controller(c))
	x.World = sdktest.NewWith(x.t, one{c.Name, x})
	x.Create(site)
}

// change changes the site by a merge patch.
func (x *test) change(patch string) { x.t.Helper(); x.Change(shop, patch) }

// title changes the spec of the site.
func (x *test) title(title string) { x.t.Helper(); x.change(`{"spec":{"title":"` + title + `"}}`) }

// run runs the site, and expects exactly these calls.
func (x *test) run(want ...string) *sdktest.Run {
	x.t.Helper()
	x.calls = nil
	r := x.Reconcile("default/shop")
	x.called(want...)
	return r
}

// later runs the site after an hour.
func (x *test) later(want ...string) *sdktest.Run {
	x.t.Helper()
	x.Advance(time.Hour)
	return x.run(want...)
}

// runGone runs the site that is gone, and expects exactly these calls.
func (x *test) runGone(want ...string) *sdktest.Run {
	x.t.Helper()
	x.calls = nil
	r := x.ReconcileGone("default/shop")
	x.called(want...)
	return r
}

func (x *test) called(want ...string) {
	x.t.Helper()
	if !slices.Equal(x.calls, want) {
		x.t.Errorf("the calls are %q, expected %q", x.calls, want)
	}
}

// without returns an object after a merge patch.
func without(t *testing.T, object []byte, patch string) []byte {
	t.Helper()
	merged, err := rawjson.MergePatch(object, []byte(patch))
	if err != nil {
		t.Fatal(err)
	}
	return merged
}
