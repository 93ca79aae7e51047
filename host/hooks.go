package host

import (
	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/cache"
)

// hook is one kind whose events a controller follows.
type hook struct {
	kind  abi.Kind
	owned bool // else it is the primary
}

// join has the controller follow the events of the kinds of a manifest, and of
// no other. What it follows already goes on: whoever joins is told of every
// object, which after a swap would run each twice.
func (c *controller) join(m abi.Controller, kinds *informers) {
	before := c.hooks
	c.hooks = map[hook]func(){}
	follow := func(h hook, handle func(cache.Event)) {
		remove := before[h]
		if remove == nil {
			remove = kinds.get(h.kind).AddHandler(handle)
		}
		delete(before, h)
		c.hooks[h] = remove
	}
	follow(hook{kind: m.For}, func(e cache.Event) { c.Observe(e.Old, e.New, e.Initial) })
	for _, kind := range m.Owns {
		follow(hook{kind: kind, owned: true}, func(e cache.Event) {
			if !e.Initial {
				c.ObserveOwned(e.Old, e.New)
			}
		})
	}
	leave(before)
}

func leave(hooks map[hook]func()) {
	for _, remove := range hooks {
		remove()
	}
}
