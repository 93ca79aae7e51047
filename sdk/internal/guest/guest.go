// Package guest is the SDK's side of the ABI: the controllers that a plugin
// registered, and the way to its host. In a module the host is reached by
// imports and calls the exports (host_wasip1.go, exports_wasip1.go); natively
// a test plays the host (host_native.go).
package guest

import (
	"errors"
	"strconv"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
)

// Controller is a registered controller, with the author's types erased.
type Controller struct {
	Manifest abi.Controller
	// Begin begins one run.
	Begin func() *Run
	// Warm encodes and decodes zero values of the author's types.
	Warm func() error
}

// Run is one run of a controller. It is no interface: TinyGo would describe
// the type behind it with all that it is made of, and link the methods of all
// of these that reflection might call.
type Run struct {
	// Read reads the primary. It is called once, and first.
	Read func(object *rawjson.Reader)
	// Reconcile makes the run. Its failures are part of the answer.
	Reconcile func(Host, *abi.Request) (abi.Code, *abi.Result)
}

// plugin is what init functions registered. It does not change afterwards.
var plugin struct {
	name, version, memoVersion string
	controllers                []Controller
}

// Name sets the plugin's name and version.
func Name(name, version string) { plugin.name, plugin.version = name, version }

// MemoVersion names what the plugin's memos mean.
func MemoVersion(version string) { plugin.memoVersion = version }

// Register adds a controller. A name that is taken is an error of the
// program, found when it starts.
func Register(c Controller) {
	if _, ok := Find(c.Manifest.Name); ok {
		panic("sdk.Register: two controllers are named " + strconv.Quote(c.Manifest.Name))
	}
	plugin.controllers = append(plugin.controllers, c)
}

// Find returns the controller of that name.
func Find(name string) (Controller, bool) {
	for _, c := range plugin.controllers {
		if c.Manifest.Name == name {
			return c, true
		}
	}
	return Controller{}, false
}

// Manifest describes the plugin. One with a single controller may leave the
// name to it.
func Manifest() *abi.Manifest {
	m := &abi.Manifest{Name: plugin.name, Version: plugin.version, MemoVersion: plugin.memoVersion}
	for _, c := range plugin.controllers {
		m.Controllers = append(m.Controllers, c.Manifest)
	}
	if m.Name == "" && len(m.Controllers) == 1 {
		m.Name = m.Controllers[0].Name
	}
	return m
}

// Warm warms every controller and the codec of the ABI.
func Warm() error {
	if _, err := abi.DecodeRequest(abi.EncodeRequest(&abi.Request{Object: []byte("{}")})); err != nil {
		return err
	}
	for _, c := range plugin.controllers {
		if err := c.Warm(); err != nil {
			return errors.New("controller " + strconv.Quote(c.Manifest.Name) + ": " + err.Error())
		}
	}
	return nil
}

// Reconcile answers a request: the text of an [abi.Request] with the code and
// the text of an [abi.Result].
func Reconcile(h Host, request []byte) (abi.Code, []byte) {
	var run *Run
	q, err := abi.ReadRequest(request, func(q *abi.Request, object *rawjson.Reader) {
		if c, ok := Find(q.Controller); ok && run == nil {
			run = c.Begin()
			run.Read(object)
		}
	})
	if err != nil {
		return broken("read request: " + err.Error())
	}
	if run == nil { // the object comes before its controller's name, or not at all
		c, ok := Find(q.Controller)
		if !ok {
			return broken("the plugin has no controller " + strconv.Quote(q.Controller))
		}
		run = c.Begin()
		run.Read(rawjson.NewReader(q.Object))
	}
	code, result := run.Reconcile(h, q)
	return code, abi.EncodeResult(result)
}

// broken answers a request that no host should have made. A host that is
// updated may make better ones, so it is tried again.
func broken(message string) (abi.Code, []byte) {
	return abi.CodeRetry, abi.EncodeResult(&abi.Result{Error: &abi.Failure{Reason: "BadRequest", Message: message}})
}
