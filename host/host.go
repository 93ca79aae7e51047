package host

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/kube"
	"github.com/thole-dev/thole/host/kubeevents"
	"github.com/thole-dev/thole/host/runner"
	"github.com/thole-dev/thole/host/sandbox"
	"github.com/thole-dev/thole/host/serve"
	"github.com/thole-dev/thole/host/source"
	"github.com/thole-dev/thole/host/telemetry"
	"github.com/thole-dev/thole/host/with"
)

// Environment is what the process provides to a host.
type Environment struct {
	Cluster *rest.Config // how to reach the API server
	// Logger receives what the stages log themselves. What happens to plugins and
	// runs is reported to Events only: see [telemetry.LogEvents].
	Logger  hclog.Logger
	Events  events.Observer // nil: none
	Version string          // of the host
	// Pod is the pod of the host with its uid; nil outside of a pod.
	Pod *corev1.ObjectReference
	// Compiler is a program with arguments that runs [sandbox.Compiler]; nil: the
	// host compiles plugins in its own process.
	Compiler []string
	// RightsFor is for how long a right of a service account is believed, and the time
	// between two reviews of all that a plugin needs; default 1 min.
	RightsFor time.Duration
	// AllowRequested runs a plugin whose policy allows nothing as if the policy allowed what
	// the manifest asks for.
	AllowRequested bool
	// Capabilities are what the host can do beside its core.
	Capabilities with.List
}

// Host runs plugins against one cluster.
type Host struct {
	config    config.Config
	env       Environment
	logger    hclog.Logger
	metrics   *telemetry.Metrics
	events    events.Observer
	cluster   *rest.Config       // with the metrics of requests
	unlimited *kube.Clients      // see newUnlimited
	sender    *kubeevents.Sender // of the Events of plugins
	// leaders is nil if there is one replica.
	leaders         runner.Leaders
	handlers, views map[string]http.Handler           // of capabilities
	runs            []func(ctx context.Context) error // of capabilities
	// secure is nil if the server serves everything to everybody.
	secure       *secure
	policies     policies
	capabilities []runner.Capability
	// logLevels are those of the policies, by the name of the plugin: see setLogLevels.
	logLevels map[string]string

	// The stages, in the order of the data.
	source  *source.Directory
	catalog *catalog.Catalog[*sandbox.Guest]
	cache   *cache.Cache
	runner  *runner.Runner
	sandbox *sandbox.Sandbox
	server  *serve.Server
}

// New checks the configuration and makes the stages. Nothing runs yet, and
// nothing is left behind if it fails.
func New(ctx context.Context, c config.Config, env Environment) (_ *Host, err error) {
	c.Sections = env.Capabilities.Sections()
	c = c.WithDefaults()
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	h := &Host{config: c, env: env, logger: env.Logger, metrics: telemetry.NewMetrics(sandbox.LimitNames()...)}
	defer func() {
		if err != nil {
			h.close(ctx)
		}
	}()
	for _, step := range []func(context.Context) error{
		h.makeClients,      // which all others use
		h.makeCapabilities, // which observe the stages, and are called by them
		h.makeSource,
		h.makeSandbox,
		h.makeCache,
		h.makeRunner,        // which subscribes to the cache
		h.makeCatalog,       // which loads modules into the sandbox, and has the runner start them
		h.startCapabilities, // with all stages: what has an address of its own listens before the server does
		h.makeSecure,
		h.makeServer, // last: it serves what all others have
	} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return h, nil
}

func (h *Host) makeClients(context.Context) (err error) {
	h.cluster = rest.CopyConfig(h.env.Cluster)
	h.metrics.Instrument(h.cluster)
	if h.sender, err = kubeevents.ForObjects(h.cluster); err != nil {
		return err
	}
	h.unlimited, err = newUnlimited(h.cluster)
	return err
}

func (h *Host) makeCapabilities(context.Context) (err error) {
	observers := events.Observers(h.env.Events, h.metrics.CountEvents())
	h.events = observers
	h.capabilities = h.env.Capabilities.New(runner.Environment{
		Cluster: h.cluster, Clients: h.unlimited, Metrics: h.metrics, Events: h.events, Logger: h.logger,
		Version: h.env.Version, Pod: h.env.Pod, DryRun: h.config.DryRun, CacheDir: h.config.CacheDir, MaxModule: h.maxModule(),
	}, h.config.Values)
	h.handlers, h.views = handlersOf(h.capabilities)
	for _, capability := range h.capabilities {
		if capability.Observe != nil {
			observers.Add(events.Func(capability.Observe))
		}
	}
	h.leaders, err = leadersOf(h.capabilities)
	return err
}

// maxModule returns how many bytes a module has at the most.
func (h *Host) maxModule() int64 { return int64(h.config.Limits.ModuleMiB) << 20 }

func (h *Host) makeSource(context.Context) (err error) {
	h.source, err = source.NewDirectory(source.Config{Path: h.config.Plugins, MaxFile: h.maxModule(), Logger: h.logger.Named("source")})
	return err
}

func (h *Host) makeSandbox(ctx context.Context) (err error) {
	h.sandbox, err = sandbox.New(ctx, sandbox.Config{
		CacheDir:     h.config.CacheDir,
		CacheBytes:   uint64(h.config.CacheMiB) << 20,
		Compiler:     h.env.Compiler,
		MemoryBytes:  uint64(h.config.GuestMemoryMiB) << 20,
		Capabilities: h.env.Capabilities.Modules(),
		Metrics:      func(plugin string) sandbox.Metrics { return h.metrics.Plugin(plugin) },
		Logger:       h.logger.Named("sandbox"),
	})
	return err
}

func (h *Host) makeCache(context.Context) (err error) {
	h.cache, err = cache.New(cache.Config{REST: h.cluster, Namespace: h.config.Namespace, Logger: h.logger.Named("cache")})
	return err
}

func (h *Host) makeRunner(context.Context) error {
	h.runner = runner.New(runner.Config{
		Cluster: h.cluster, Cache: h.cache, Metrics: h.metrics, Events: h.events, Logger: h.logger,
		Recorder: func(dropped func()) effect.Recorder { return h.sender.Recorder(dropped) },
		Version:  h.env.Version, Namespace: h.config.Namespace, Resync: h.config.Resync.Duration, HostIdentity: h.config.HostIdentity,
		Access: newReviewer(h.unlimited, h.config, h.env.RightsFor), Leaders: h.leaders, ReviewEvery: h.env.RightsFor,
		Ceiling: h.config.Allow, Sections: h.config.Sections, AllowRequested: h.env.AllowRequested,
		Capabilities: h.capabilities,
	})
	return nil
}

func (h *Host) makeCatalog(context.Context) error {
	h.catalog = catalog.New(catalog.Config[*sandbox.Guest]{
		Loader:    loader{h.sandbox},
		Runner:    h.runner,
		Replicas:  h.leaders,
		Events:    h.events,
		Logger:    h.logger.Named("catalog"),
		Probation: h.config.Probation.Duration,
	})
	h.metrics.Registry.MustRegister(stageCollector{
		memory: h.sandbox.Memory, slots: h.sandbox.Slots, compile: h.sandbox.CacheProblem, kinds: h.cache.Stats, follows: h.cache.Following,
		cached: h.cache.Memory, guests: h.guestStats, running: h.runner.Statuses, plugins: h.pluginsOf,
	})
	return nil
}

// startCapabilities calls the Start of the capabilities. A host that is stopped while it starts ends like a running
// one, in Run.
func (h *Host) startCapabilities(ctx context.Context) error {
	host := runner.Host{
		Directory: directory{h}, Reconsider: h.catalog.Reconsider, Restart: h.catalog.Restart, Handlers: h.handlers,
		Awaits: h.awaits, Plugins: h.Plugins, LastRuns: h.runner.LastRuns,
	}
	for _, c := range h.capabilities {
		if c.Start == nil {
			continue
		}
		run, err := c.Start(ctx, host)
		if err != nil {
			return err
		}
		if run != nil {
			h.runs = append(h.runs, run)
		}
	}
	return nil
}

func (h *Host) makeSecure(context.Context) (err error) {
	h.secure, err = newSecure(h, h.unlimited, h.env.Pod)
	return err
}

func (h *Host) makeServer(ctx context.Context) (err error) {
	h.server, err = serve.Listen(context.WithoutCancel(ctx), serve.Config{
		Address:  h.config.Listen,
		Metrics:  h.metrics.Registry,
		Checks:   h.readiness,
		Plugins:  func() any { return h.Plugins() },
		Handlers: h.handlers,
		Views:    h.views,
		Secure:   h.secure.serve(), Profiling: h.config.Profiling,
		Logger: h.logger.Named("serve"),
	})
	return err
}

// Address returns the address of probes, metrics and plugin states.
func (h *Host) Address() string { return h.server.Address() }

// Metrics returns the metrics of the host.
func (h *Host) Metrics() prometheus.Gatherer { return h.metrics.Registry }

// Views returns the paths of what capabilities serve there for people, in order.
func (h *Host) Views() []string { return slices.Sorted(maps.Keys(h.views)) }

// RetryRefused tries every plugin again that was refused or rolled back.
func (h *Host) RetryRefused() {
	h.logger.Info("trying again what was refused or rolled back")
	if h.leaders != nil {
		h.leaders.RetryRefused()
	}
	h.catalog.RetryRefused()
}

// Run runs the host until ctx is done or a stage fails. Then the stages stop in
// reverse: plugins end their runs before what these need is stopped.
func (h *Host) Run(ctx context.Context) error {
	h.events.Observe(events.HostStarted{Version: h.env.Version, Plugins: h.config.Plugins, Address: h.Address()})
	defer h.close(context.WithoutCancel(ctx))
	stages, ctx := errgroup.WithContext(telemetry.WithLogger(ctx, h.logger.Named("client-go")))
	if len(h.runs) > 0 {
		ctx = h.runCapabilities(ctx, stages)
	}
	stages.Go(func() error { tuneCollector(ctx); return nil })
	stages.Go(func() error { h.secure.run(ctx); return nil })
	stages.Go(func() error { return h.server.Run(ctx) })
	stages.Go(func() error {
		return h.source.Run(ctx, func(s source.Snapshot) { h.catalog.Update(ctx, h.modules(s)) })
	})
	err := stages.Wait()
	h.catalog.Wait()
	h.events.Observe(events.HostStopped{Err: err})
	return err
}

// runCapabilities calls what their Start has returned until ctx is done, and returns a context that is done when
// the last of these has ended: they need the plugins.
func (h *Host) runCapabilities(ctx context.Context, stages *errgroup.Group) context.Context {
	ran, end := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	for _, run := range h.runs {
		running.Add(1)
		stages.Go(func() error {
			defer running.Done()
			return run(ctx)
		})
	}
	stages.Go(func() error {
		defer end()
		running.Wait()
		return nil
	})
	return ran
}

// close frees what New has made, in reverse.
func (h *Host) close(ctx context.Context) {
	for _, c := range h.capabilities {
		if c.Stop != nil {
			c.Stop()
		}
	}
	if h.cache != nil {
		h.cache.Stop()
	}
	if h.sandbox != nil {
		if err := h.sandbox.Close(ctx); err != nil {
			h.logger.Warn("close sandbox", "error", err)
		}
	}
	if h.sender != nil {
		h.sender.Stop()
	}
}
