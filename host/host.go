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
	config  config.Config
	version string
	logger  hclog.Logger
	metrics *telemetry.Metrics
	events  events.Observer
	sender  *kubeevents.Sender // of the Events of plugins
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
	h := &Host{config: c, version: env.Version, logger: env.Logger, metrics: telemetry.NewMetrics(sandbox.LimitNames()...)}
	cluster := rest.CopyConfig(env.Cluster)
	h.metrics.Instrument(cluster)
	defer func() {
		if err != nil {
			h.close(ctx)
		}
	}()
	if h.sender, err = kubeevents.ForObjects(cluster); err != nil {
		return nil, err
	}
	unlimited, err := newUnlimited(cluster)
	if err != nil {
		return nil, err
	}
	maxModule := int64(c.Limits.ModuleMiB) << 20
	observers := events.Observers(env.Events, h.metrics.CountEvents())
	h.events = observers
	h.capabilities = env.Capabilities.New(runner.Environment{
		Cluster: cluster, Client: unlimited, Metrics: h.metrics, Events: h.events, Logger: h.logger, Version: env.Version, Pod: env.Pod,
		DryRun: c.DryRun, CacheDir: c.CacheDir, MaxModule: maxModule, Directory: directory{h}, Reconsider: h.reconsider, Restart: h.restart, Handlers: func() map[string]http.Handler { return h.handlers },
		Awaits: h.awaits, Plugins: h.Plugins, LastRuns: h.lastRuns,
	}, c.Values)
	if h.leaders, err = leadersOf(h.capabilities); err != nil {
		return nil, err
	}
	h.handlers, h.views = handlersOf(h.capabilities)
	for _, capability := range h.capabilities {
		if capability.Observe != nil {
			observers.Add(events.Func(capability.Observe))
		}
	}
	if h.source, err = source.NewDirectory(source.Config{Path: c.Plugins, MaxFile: maxModule, Logger: h.logger.Named("source")}); err != nil {
		return nil, err
	}
	if h.sandbox, err = sandbox.New(ctx, sandbox.Config{
		CacheDir:     c.CacheDir,
		CacheBytes:   uint64(c.CacheMiB) << 20,
		Compiler:     env.Compiler,
		MemoryBytes:  uint64(c.GuestMemoryMiB) << 20,
		Capabilities: env.Capabilities.Modules(),
		Metrics:      func(plugin string) sandbox.Metrics { return h.metrics.Plugin(plugin) },
		Logger:       h.logger.Named("sandbox"),
	}); err != nil {
		return nil, err
	}
	if h.cache, err = cache.New(cache.Config{
		REST: cluster, Namespace: c.Namespace, Logger: h.logger.Named("cache"),
	}); err != nil {
		return nil, err
	}
	h.runner = runner.New(runner.Config{
		Cluster: cluster, Cache: h.cache, Metrics: h.metrics, Events: h.events, Logger: h.logger,
		Recorder: func(dropped func()) effect.Recorder { return h.sender.Recorder(dropped) },
		Version:  env.Version, Namespace: c.Namespace, Resync: c.Resync.Duration, HostIdentity: c.HostIdentity, Access: newReviewer(unlimited, c, env.RightsFor), Leaders: h.leaders, ReviewEvery: env.RightsFor,
		Ceiling: c.Allow, Sections: c.Sections, AllowRequested: env.AllowRequested,
		Capabilities: h.capabilities,
	})
	h.catalog = catalog.New(catalog.Config[*sandbox.Guest]{
		Loader:    loader{h.sandbox},
		Runner:    h.runner,
		Replicas:  h.leaders,
		Events:    h.events,
		Logger:    h.logger.Named("catalog"),
		Probation: c.Probation.Duration,
	})
	h.metrics.Registry.MustRegister(stageCollector{
		memory: h.sandbox.Memory, slots: h.sandbox.Slots, compile: h.sandbox.CacheProblem, kinds: h.cache.Stats, follows: h.cache.Following, cached: h.cache.Memory, guests: h.guestStats, running: h.runner.Statuses, plugins: h.pluginsOf,
	})
	// A host that is stopped while it starts ends like a running one, in Run.
	if err = h.startCapabilities(ctx); err != nil {
		return nil, err
	}
	if h.secure, err = newSecure(h, unlimited, env.Pod); err != nil {
		return nil, err
	}
	h.server, err = serve.Listen(context.WithoutCancel(ctx), serve.Config{
		Address:  c.Listen,
		Metrics:  h.metrics.Registry,
		Checks:   h.readiness,
		Plugins:  func() any { return h.Plugins() },
		Handlers: h.handlers,
		Views:    h.views,
		Secure:   h.secure.serve(), Profiling: c.Profiling,
		Logger: h.logger.Named("serve"),
	})
	return h, err
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
	h.events.Observe(events.HostStarted{Version: h.version, Plugins: h.config.Plugins, Address: h.Address()})
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

// startCapabilities calls the Start of the capabilities.
func (h *Host) startCapabilities(ctx context.Context) error {
	for _, c := range h.capabilities {
		if c.Start == nil {
			continue
		}
		run, err := c.Start(ctx)
		if err != nil {
			return err
		}
		if run != nil {
			h.runs = append(h.runs, run)
		}
	}
	return nil
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
