// Package guest is the SDK's side of the ABI: the controllers that the plugin has
// registered, and its connection to the host. In a module the connection is the
// imports and exports of host_wasip1.go; in a native test it is whatever the
// test implements (host_native.go).
package guest

import (
	"errors"
	"strconv"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/functionindexes"
	"github.com/thole-dev/thole/abi/rawjson"
)

// Controller is a registered controller, with the author's types erased.
type Controller struct {
	Manifest *abi.Controller
	// Begin returns a new run.
	Begin func() *Run
	// Warm encodes and decodes zero values of the author's types; see [Warm].
	Warm func() error
}

// ReadOptions is what packages read and children add to a get or list.
type ReadOptions struct {
	Fields   []string
	Limit    int
	Continue string
	Next     *string // where the continue of a list's reply goes; nil if the whole list is read
	OwnedBy  abi.OwnedBy
}

// Run is one run of a controller. It is a struct of functions and not an
// interface, because for the type behind an interface TinyGo links descriptions
// of all its fields, and every method of these that reflection might call.
type Run struct {
	// Read reads the primary. It is called once, before Reconcile.
	Read func(object *rawjson.Reader)
	// Reconcile calls the author's function. An error is part of the result.
	Reconcile func(Host, *abi.Request) (abi.Code, *abi.Result)
}

// plugin is what the init functions of the plugin have registered. It does not
// change afterwards.
var plugin struct {
	name, version, memoVersion string
	managed                    bool
	controllers                []*Controller // pointers, because each copy of the struct is code, under TinyGo
}

// Name sets the plugin's name and version.
func Name(name, version string) { plugin.name, plugin.version = name, version }

// MemoVersion sets the version of the format of the plugin's memos.
func MemoVersion(version string) { plugin.memoVersion = version }

// Managed lets the host follow what the plugin has applied itself, of what it owns.
func Managed() { plugin.managed = true }

// IndexFunc gives keys to an object.
type IndexFunc func(*functionindexes.Request) (*functionindexes.Result, error)

// namedIndex is a function and the name of its index.
type namedIndex struct {
	name string
	keys IndexFunc
}

var indexes []namedIndex

// Index adds the function of an index. It panics if there is one of that name.
func Index(name string, keys IndexFunc) {
	for _, x := range indexes {
		if x.name == name {
			panic("sdk.IndexBy: there are two indexes named " + strconv.Quote(name))
		}
	}
	indexes = append(indexes, namedIndex{name, keys})
	exportIndex()
}

// GiveKeys runs the function of an index for the text of an [functionindexes.Request] and returns the
// text of an [functionindexes.Result].
func GiveKeys(request []byte) (abi.Code, []byte) {
	result, err := giveKeys(request)
	if err != nil {
		return abi.CodeRetry, functionindexes.EncodeResult(&functionindexes.Result{Message: err.Error()})
	}
	return abi.CodeOK, functionindexes.EncodeResult(result)
}

func giveKeys(request []byte) (*functionindexes.Result, error) {
	q, err := functionindexes.DecodeRequest(request)
	if err != nil {
		return nil, errors.New("read request: " + err.Error())
	}
	for _, x := range indexes {
		if x.name == q.Index {
			return x.keys(q)
		}
	}
	return nil, errors.New("the plugin has no index " + strconv.Quote(q.Index))
}

// Register adds a controller. It panics if there is one of that name.
func Register(c *Controller) {
	if Find(c.Manifest.Name) != nil {
		panic("sdk.Register: there are two controllers named " + strconv.Quote(c.Manifest.Name))
	}
	plugin.controllers = append(plugin.controllers, c)
}

// Find returns the controller of that name, nil if there is none.
func Find(name string) *Controller {
	for _, c := range plugin.controllers {
		if c.Manifest.Name == name {
			return c
		}
	}
	return nil
}

// Manifest returns the manifest of the plugin. A plugin with a single controller
// and no name has the name of the controller.
func Manifest() *abi.Manifest {
	m := &abi.Manifest{Name: plugin.name, Version: plugin.version, MemoVersion: plugin.memoVersion, Managed: plugin.managed}
	for _, c := range plugin.controllers {
		m.Controllers = append(m.Controllers, *c.Manifest)
	}
	if m.Name == "" && len(m.Controllers) == 1 {
		m.Name = m.Controllers[0].Name
	}
	return m
}

// Warm uses the codecs of all types once, so that what they compute about a type
// becomes part of the instance's image.
func Warm() error {
	if _, err := abi.DecodeRequest(abi.EncodeRequest(&abi.Request{Object: []byte("{}")})); err != nil {
		return err
	}
	for _, c := range plugin.controllers {
		if err := c.Warm(); err != nil {
			return warmError(c.Manifest.Name, err)
		}
	}
	for _, d := range daemons {
		if err := d.Warm(); err != nil {
			return warmError(d.Controller, err)
		}
	}
	for _, w := range warmers {
		if err := w.call(); err != nil {
			return warmError(w.controller, err)
		}
	}
	return nil
}

func warmError(controller string, err error) error {
	return errors.New("controller " + strconv.Quote(controller) + ": " + err.Error())
}

// Reconcile runs a controller for the text of an [abi.Request] and returns the
// text of an [abi.Result].
func Reconcile(h Host, request []byte) (abi.Code, []byte) {
	var run *Run
	q, err := abi.ReadRequest(request, func(q *abi.Request, object *rawjson.Reader) {
		if c := Find(q.Controller); c != nil && run == nil {
			run = c.Begin()
			run.Read(object)
		}
	})
	if err != nil {
		return badRequest("read request: " + err.Error())
	}
	if run == nil { // the object precedes the controller's name, or is absent
		c := Find(q.Controller)
		if c == nil {
			return badRequest("the plugin has no controller " + strconv.Quote(q.Controller))
		}
		run = c.Begin()
		run.Read(rawjson.NewReader(q.Object))
	}
	code, result := run.Reconcile(h, q)
	return code, abi.EncodeResult(result)
}

// badRequest is the result for a request that no host should send. It asks for a
// retry, because an update of the host may correct it.
func badRequest(message string) (abi.Code, []byte) {
	return abi.CodeRetry, abi.EncodeResult(&abi.Result{Error: &abi.Failure{Reason: "BadRequest", Message: message}})
}
