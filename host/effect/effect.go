package effect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// Store answers what the host knows of the cluster without asking it.
type Store interface {
	// Resource says where a kind is served. It fails for a kind that is not.
	Resource(ctx context.Context, kind abi.Kind) (object.Resource, error)
	// Get returns the object as the cache has it, nil if it is not there.
	// synced is false if the cache does not hold the kind (yet): then obj
	// says nothing.
	Get(kind abi.Kind, key object.Key) (obj *object.Object, synced bool)
}

// Recorder emits Kubernetes Events; record.EventRecorder is one.
type Recorder interface {
	Event(about runtime.Object, eventType, reason, message string)
}

// Defaults of [Config].
const (
	DefaultQPS     = 20
	DefaultBurst   = 40
	DefaultTimeout = 30 * time.Second
)

// Config is what a [Performer] is made of.
type Config struct {
	// REST is how the API server is reached. Its account, limits, content
	// types and warning handler are replaced by those of the plugin.
	REST    *rest.Config
	Plugin  string // a DNS label
	Version string // of the host; part of the User-Agent
	// Impersonate is the account that the plugin acts as; its zero value is
	// that of REST.
	Impersonate rest.ImpersonationConfig

	Store    Store
	Recorder Recorder // of the host: Events are its own, whoever the plugin acts as
	Logger   hclog.Logger

	QPS     float32       // writes per second, reads have five times as much; default 20
	Burst   int           // writes at once after a pause; default 40
	Timeout time.Duration // of one request; default 30 s
	// Waited is told how long each write waited for its turn under QPS and
	// Burst; nil: nobody asks.
	Waited func(time.Duration)

	// CrossNamespace lets the plugin's namespaced primaries touch objects in
	// other namespaces. Those can never be owned.
	CrossNamespace bool

	// DryRun lets the API server check every write and store none; what would
	// have changed is logged.
	DryRun bool

	Now func() time.Time // default time.Now
}

func (c *Config) validate() error {
	switch {
	case c.REST == nil, c.Store == nil, c.Recorder == nil:
		return errors.New("REST, Store and Recorder are required")
	case !abi.ValidName(c.Plugin):
		return fmt.Errorf("plugin %q is no DNS label", c.Plugin)
	}
	c.Version = cmp.Or(c.Version, "unknown")
	c.QPS = cmp.Or(c.QPS, DefaultQPS)
	c.Burst = cmp.Or(c.Burst, DefaultBurst)
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return nil
}

// Performer writes to the API server on behalf of one plugin. Its methods may
// be called concurrently, for one primary and controller one at a time.
type Performer struct {
	Config
	client client
	memory memory
	pruned pruned
}

// New returns a performer. It sends nothing yet.
func New(config Config) (*Performer, error) {
	if err := config.validate(); err != nil {
		return nil, fmt.Errorf("make client of plugin %q: %w", config.Plugin, err)
	}
	c, err := newClient(&config)
	if err != nil {
		return nil, fmt.Errorf("make client of plugin %q: %w", config.Plugin, err)
	}
	return &Performer{Config: config, client: c}, nil
}

// Target is the primary of a run and the controller that it runs for.
type Target struct {
	Controller *abi.Controller
	// Object is the primary as the guest saw it or, after an effect that
	// wrote it, as that effect returned it.
	Object *object.Object
}

func (t Target) memo() memoKey { return memoKey{t.Object.UID, t.Controller.Name} }

// Write is one write that changed something.
type Write struct {
	Verb string // patch, apply or delete
	Kind abi.Kind
	Key  object.Key
	UID  types.UID
	// ResourceVersion is the one that the write led to, "" if the server did
	// not say, as after a deletion.
	ResourceVersion string
}

// clone returns the write without its hold on the reply or the result that
// its strings are of: a report is kept until the next run.
func (w Write) clone() Write {
	w.Key = object.Key{Namespace: strings.Clone(w.Key.Namespace), Name: strings.Clone(w.Key.Name)}
	w.UID = types.UID(strings.Clone(string(w.UID)))
	w.ResourceVersion = strings.Clone(w.ResourceVersion)
	return w
}

// Report is what [Performer.Intents] has written.
type Report struct {
	Writes  []Write
	Primary *object.Object // after its patch; nil if it was not patched
}

// Forget drops what is remembered of a primary that is gone.
func (p *Performer) Forget(uid types.UID) { p.memory.forget(uid) }

// Rediscovered says that the schema of a kind may have changed: what the
// server had no place for in its status is tried again at once, not only after
// a while.
func (p *Performer) Rediscovered(kind abi.Kind) { p.pruned.reset(kind) }

// maxManager is the API server's limit of a field manager's name, in bytes.
const maxManager = 128

// manager returns the field manager of a controller.
func (p *Performer) manager(c *abi.Controller) string {
	name := "thole/" + p.Plugin + "/" + c.Name
	if len(name) <= maxManager {
		return name
	}
	// Two DNS labels of full length do not fit.
	tail := "-" + sumStrings(name).String()[:8]
	return name[:maxManager-len(tail)] + tail
}

// finalizer returns the finalizer of a controller.
func (p *Performer) finalizer(c *abi.Controller) string { return Finalizer(p.Plugin, c.Name) }

// primary says where the target's kind is served.
func (p *Performer) primary(ctx context.Context, t Target) (object.Resource, error) {
	r, err := p.Store.Resource(ctx, t.Object.Kind)
	if err != nil {
		return r, notServed(err)
	}
	return r, nil
}

// describe names an object for people: "v1 Pod default/web".
func describe(kind abi.Kind, key object.Key) string {
	return strings.Join([]string{kind.APIVersion, kind.Kind, key.String()}, " ")
}
