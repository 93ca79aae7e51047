package edges

import (
	"cmp"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// Owner is a key of a controller. It owns the edges to what it has read.
type Owner struct {
	Controller string // unique in the host: plugin/controller
	Key        object.Key
}

// Plugin returns the plugin of the controller.
func (o Owner) Plugin() string {
	plugin, _, _ := strings.Cut(o.Controller, "/")
	return plugin
}

// Change is what has changed: Old is nil for an object that was created, Updated
// for one that was deleted. Both are nil if it is not known.
type Change struct{ Old, Updated *object.Object }

// Config configures an [Index].
type Config struct {
	// Wake is called with the owner of each edge that a change concerns. bulk is
	// set if it is one of very many. It must not block, and may be nil.
	Wake func(o Owner, c Change, bulk bool)
	// Limited is called with an owner that has read more of a kind than is
	// remembered by itself. It may be nil.
	Limited func(Owner, abi.Kind)
	// PluginBytes and HostBytes bound what the edges of one plugin and of all take. The
	// first edge of a key to a kind is always there.
	// The defaults are 32 MiB and 64 MiB.
	PluginBytes, HostBytes int64
}

const (
	// What is counted for a key that has edges, for an edge, and for a selector
	// that needs to be evaluated, beside its text. The sizes were measured, with
	// the maps (BenchmarkEdge).
	readerBytes   = 192
	edgeBytes     = 96
	selectorBytes = 512
	// textFactor is what the text of a selector takes when it is parsed.
	textFactor = 24

	// maxEdges is how many edges one key may have.
	maxEdges = 8192
)

// Index has the edges of all kinds. It is safe for concurrent use.
//
// Locks are taken in this order: controller.mu, Kind.mu, bulkWakes.mu.
type Index struct {
	config    Config
	seed      maphash.Seed
	bytes     atomic.Int64 // of edges
	readers   atomic.Int64 // how many there are
	bulkWakes bulkWakes

	mu          sync.RWMutex
	controllers map[string]*controller
	plugins     map[string]*plugin
}

type plugin struct {
	bytes       atomic.Int64
	controllers int // guarded by Index.mu
}

// controller has the keys of one controller that have edges.
type controller struct {
	name   string
	plugin *plugin

	mu        sync.Mutex
	readers   map[object.Key]*reader
	forgotten bool // by ForgetController: runs that begin late leave nothing
}

// reader is a key with its edges. It is guarded by controller.mu.
type reader struct {
	controller *controller
	key        object.Key
	edges      []edge
	forgotten  bool // an open run adds no more edges
}

func (r *reader) owner() Owner { return Owner{Controller: r.controller.name, Key: r.key} }

func (r *reader) dependsOn(k *Kind) bool {
	return slices.ContainsFunc(r.edges, func(e edge) bool { return e.kind == k })
}

// New returns an index without edges.
func New(config Config) *Index {
	config.PluginBytes = cmp.Or(config.PluginBytes, 32<<20)
	config.HostBytes = cmp.Or(config.HostBytes, 64<<20)
	if config.Wake == nil {
		config.Wake = func(Owner, Change, bool) {}
	}
	if config.Limited == nil {
		config.Limited = func(Owner, abi.Kind) {}
	}
	x := &Index{config: config, seed: maphash.MakeSeed(), controllers: map[string]*controller{}, plugins: map[string]*plugin{}}
	x.bulkWakes.index = x
	return x
}

// Stop ends the wake-ups of very many keys, and waits for their goroutine.
func (x *Index) Stop() { x.bulkWakes.stop() }

// Bytes returns about what all edges take, and the keys that have them.
func (x *Index) Bytes() int64 { return x.bytes.Load() + x.readers.Load()*readerBytes }

// controller returns a controller, which it adds if it is not there.
func (x *Index) controller(name string) *controller {
	x.mu.RLock()
	c := x.controllers[name]
	x.mu.RUnlock()
	if c != nil {
		return c
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if c := x.controllers[name]; c != nil {
		return c
	}
	of := Owner{Controller: name}.Plugin()
	if x.plugins[of] == nil {
		x.plugins[strings.Clone(of)] = &plugin{}
	}
	c = &controller{name: strings.Clone(name), plugin: x.plugins[of], readers: map[object.Key]*reader{}}
	c.plugin.controllers++
	x.controllers[c.name] = c
	return c
}

// Forget removes the edges of a key that does not exist any more. A run of the key
// that is still open leaves no edges.
func (x *Index) Forget(o Owner) {
	x.mu.RLock()
	c := x.controllers[o.Controller]
	x.mu.RUnlock()
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.readers[o.Key]; r != nil {
		x.forget(r)
	}
}

// ForgetController removes the edges of all keys of a controller.
func (x *Index) ForgetController(name string) {
	x.mu.Lock()
	c := x.controllers[name]
	if c == nil {
		x.mu.Unlock()
		return
	}
	delete(x.controllers, name)
	if c.plugin.controllers--; c.plugin.controllers == 0 {
		of := Owner{Controller: name}.Plugin()
		delete(x.plugins, of)
	}
	x.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgotten = true
	for _, r := range c.readers {
		x.forget(r)
	}
}

// forget removes a reader. Its controller is locked.
func (x *Index) forget(r *reader) {
	r.forgotten = true
	x.drop(r, func(*edge) bool { return true })
	x.readers.Add(-1)
	delete(r.controller.readers, r.key)
}

// drop removes the edges of a reader for which unwanted is true. Its controller is
// locked.
func (x *Index) drop(r *reader, unwanted func(*edge) bool) {
	var from []*Kind
	x.filter(r, unwanted, func(e *edge) int64 {
		if !slices.Contains(from, e.kind) {
			from = append(from, e.kind)
		}
		e.kind.mu.Lock()
		defer e.kind.mu.Unlock()
		return e.kind.remove(r, e)
	})
	for _, k := range from {
		if !r.dependsOn(k) {
			k.forgetUnsynced(r)
		}
	}
}

// filter keeps the edges of a reader that are wanted. remove removes another one, and
// returns what was counted for it.
func (x *Index) filter(r *reader, unwanted func(*edge) bool, remove func(*edge) int64) {
	kept := r.edges[:0]
	for i := range r.edges {
		e := &r.edges[i]
		if !unwanted(e) {
			kept = append(kept, *e)
			continue
		}
		x.count(r.controller, -remove(e))
	}
	clear(r.edges[len(kept):])
	if r.edges = kept; cap(kept) > 2*len(kept) { // else it would take what it once took
		r.edges = slices.Clone(kept)
	}
	if len(kept) == 0 {
		r.edges = nil
	}
}

// count adds to what the edges of a plugin take.
func (x *Index) count(c *controller, bytes int64) {
	x.bytes.Add(bytes)
	c.plugin.bytes.Add(bytes)
}

// hasRoom reports whether the plugin of a controller may have so many bytes more. A
// small part of its own is left to each plugin, whatever others have.
func (x *Index) hasRoom(c *controller, bytes int64) bool {
	plugin := c.plugin.bytes.Load() + bytes
	return plugin <= x.config.PluginBytes/32 || plugin <= x.config.PluginBytes && x.bytes.Load()+bytes <= x.config.HostBytes
}
