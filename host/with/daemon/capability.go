package daemon

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/thole-dev/thole/abi"
	contract "github.com/thole-dev/thole/abi/daemon"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/dispatch"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/runner"
	"github.com/thole-dev/thole/host/with"
)

// Capability returns the capability.
func Capability() with.Capability {
	return with.Capability{
		Name:     contract.Name,
		Check:    check,
		Exports:  []with.Export{{Name: contract.Export, Meaning: "makes one step of the daemon of an object", Effects: true}},
		Policy:   func() config.PolicySection { return newPolicy() },
		Config:   func() config.HostSection { return (*hostPolicy)(newPolicy()) },
		Missing:  missing,
		Title:    "Daemon",
		Describe: describe,
		New: func(env runner.Environment) runner.Capability {
			m := newMetrics(env.Metrics)
			return runner.Capability{Plugin: func(name string) runner.PluginPart { return newPlugin(name, m).part() }}
		},
	}
}

// check checks the section of a controller, with the selector, whose notation the contract does not know.
func check(c *abi.Controller, section []byte) error {
	if err := contract.Check(c, section); err != nil {
		return err
	}
	d, err := contract.Decode(section)
	if err != nil {
		return err
	}
	_, err = labels.Parse(d.LabelSelector)
	if err != nil {
		return rawjson.NewError("labelSelector", err.Error())
	}
	return nil
}

// plugin has the daemons of one plugin.
type plugin struct {
	name    string
	metrics metrics
	policy  atomic.Pointer[Policy] // of the running revision
	running atomic.Int64           // daemons
}

func newPlugin(name string, m metrics) *plugin { return &plugin{name: name, metrics: m} }

func (p *plugin) part() runner.PluginPart {
	return runner.PluginPart{
		Prepare: func(_ context.Context, rev *runner.Revision) (use runner.Use, err error) {
			var limits Policy
			if p, ok := rev.Policy.Sections[contract.Name].(*Policy); ok { // else no controller has daemons
				limits = *p
			}
			limits = limits.WithDefaults()
			return func(runner.Running) any { p.policy.Store(&limits); return nil }, nil
		},
		Controller: func(runner.Handle) runner.ControllerPart { return (&controller{plugin: p}).part() },
		Shown: func() any {
			if n := p.running.Load(); n > 0 {
				return shown{n}
			}
			return nil
		},
	}
}

// shown is what /plugins has of the daemons of a plugin.
type shown struct {
	Running int64 `json:"running"`
}

// controller has the daemons of one controller.
type controller struct {
	*plugin
	settings atomic.Pointer[settings] // of the revision that was asked for last
}

// settings are what a revision of a controller states of its daemons.
type settings struct {
	revision *dispatch.Revision
	daemon   *contract.Daemon // nil: there are none
	selector labels.Selector
}

func (c *controller) part() runner.ControllerPart {
	return runner.ControllerPart{
		Hooks: dispatch.Hooks{ObjectTurns: &dispatch.ObjectTurns{
			Key: contract.Name, What: "step of the daemon", Export: contract.Export,
			Grace: func(rev *dispatch.Revision) time.Duration { return grace(c.of(rev).daemon) },
			Wanted: func(rev *dispatch.Revision, o *object.Object) bool {
				s := c.of(rev)
				return s.daemon != nil && s.selector.Matches(labels.Set(o.Labels))
			},
			New: c.newDaemon,
		}},
		Swapped: func(_, next *dispatch.Revision) { c.metrics.begin(c.name, next) },
	}
}

// of returns the settings of a revision.
func (c *controller) of(rev *dispatch.Revision) *settings {
	s := c.settings.Load()
	if s == nil || s.revision != rev {
		s = &settings{revision: rev, daemon: daemonOf(&rev.Controller)}
		if s.daemon != nil {
			s.selector, _ = labels.Parse(s.daemon.LabelSelector) // was checked
		}
		c.settings.Store(s)
	}
	return s
}

// defaultGrace is how long the last step may take of a daemon that does not state it.
const defaultGrace = 10 * time.Second

func grace(d *contract.Daemon) time.Duration {
	return cmp.Or(time.Duration(d.Grace)*time.Millisecond, defaultGrace)
}
