package handlers_test

import (
	"slices"
	"strconv"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/timers"
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/handlers"
	"github.com/thole-dev/thole/sdk/internal/guest"
	"github.com/thole-dev/thole/sdk/sdktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type siteSpec struct {
	Title    string `json:"title,omitempty"`
	Replicas int    `json:"replicas,omitempty"`
}

type siteStatus struct {
	Replicas int    `json:"replicas,omitempty"`
	URL      string `json:"url,omitempty"`
}

type (
	call        = handlers.Call[siteSpec, siteStatus]
	handlerSet  = handlers.Handlers[siteSpec, siteStatus]
	controller  = sdk.Controller[siteSpec, siteStatus]
	siteRequest = sdk.Request[siteSpec, siteStatus]
)

var (
	siteKind  = sdk.Kind{APIVersion: "example.com/v1", Kind: "Site"}
	configMap = sdk.Kind{APIVersion: "v1", Kind: "ConfigMap"}
	shop      = siteKind.Ref("default", "shop")
)

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

func (o one) Reconcile(request []byte, host sdktest.Host) (abi.Code, []byte, error) {
	if q, err := abi.DecodeRequest(request); err == nil && o.test.due != nil {
		q.Sections = append(q.Sections, abi.Section{Name: timers.Name, Value: timers.EncodeDue(o.test.due)})
		request = abi.EncodeRequest(q)
	}
	code, result := guest.Reconcile(host, request)
	return code, result, nil
}

// test is a world with one site, and the calls of the handlers in order.
type test struct {
	*sdktest.World
	t     *testing.T
	calls []string
	due   []string // the timers of the next runs
}

// record returns a function that notes the name of its handler, and then calls fn.
func (x *test) record(fn func(*call) error) handlers.Func[siteSpec, siteStatus] {
	return func(c *call) error {
		x.calls = append(x.calls, c.Handler)
		if fn == nil {
			return nil
		}
		return fn(c)
	}
}

// begin registers the controller with the handlers, and creates the site.
func (x *test) begin(h *handlerSet, base ...controller) {
	x.t.Helper()
	c := controller{}
	if len(base) > 0 {
		c = base[0]
	}
	c.Name, c.For = "c"+strconv.FormatInt(serial.Add(1), 10), siteKind
	c.Owns = []sdk.Kind{configMap}
	sdk.Register(h.Controller(c))
	x.World = sdktest.NewWith(x.t, one{c.Name, x})
	x.create()
}

func (x *test) create() {
	x.Create(`{"apiVersion":"example.com/v1","kind":"Site","metadata":{"namespace":"default","name":"shop",
		"labels":{"tier":"web"},"annotations":{"note":"x"}},"spec":{"title":"Shop","replicas":2}}`)
}

// change changes the site by a merge patch.
func (x *test) change(patch string) { x.t.Helper(); x.Change(shop, patch) }

// run runs the site, and expects that exactly these handlers were called.
func (x *test) run(want ...string) *sdktest.Run {
	x.t.Helper()
	x.calls = nil
	r := x.Reconcile("default/shop")
	x.called(want...)
	return r
}

func (x *test) called(want ...string) {
	x.t.Helper()
	if !slices.Equal(x.calls, want) {
		x.t.Errorf("the calls are %q, expected %q", x.calls, want)
	}
}

// each runs a test for each place where the handled state can be kept.
func each(t *testing.T, run func(t *testing.T, base controller)) {
	t.Helper()
	for _, changes := range []sdk.Changes{sdk.ChangesMemory, sdk.ChangesAnnotation} {
		t.Run(string(changes), func(t *testing.T) { run(t, controller{Changes: changes}) })
	}
}
