package host

import (
	"cmp"
	"context"
	"fmt"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"github.com/thole-dev/thole/host/cache"
	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/sandbox"
	"github.com/thole-dev/thole/host/serve"
	"github.com/thole-dev/thole/host/source"
	"github.com/thole-dev/thole/host/telemetry"
)

// Environment is what a host is given by the process that it runs in.
type Environment struct {
	Cluster *rest.Config // how to reach the API server
	Logger  hclog.Logger
	Version string // of the host
	// Pod is the one that the host runs in, with its uid: Events on it tell
	// what happens to plugins. nil outside of a pod, and there are none.
	Pod *corev1.ObjectReference
	// Compiler is a program with arguments that runs [sandbox.Compiler]; nil:
	// the host compiles plugins in its own process.
	Compiler []string
}

// Host runs plugins against one cluster.
type Host struct {
	config  Config
	cluster *rest.Config
	logger  hclog.Logger
	version string
	metrics *telemetry.Metrics

	api      *apiCheck
	events   *events
	recorder record.EventRecorder

	// The stages, in the order of the data.
	source  *source.Directory
	catalog *catalog.Catalog
	cache   *cache.Cache
	plugins *plugins
	sandbox *sandbox.Sandbox
	server  *serve.Server
}

// New checks the configuration and makes the stages; nothing runs yet, and
// nothing is left over if it fails.
func New(ctx context.Context, config Config, env Environment) (_ *Host, err error) {
	config = config.WithDefaults()
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	h := &Host{
		config:  config,
		cluster: rest.CopyConfig(env.Cluster),
		logger:  env.Logger,
		version: env.Version,
		metrics: telemetry.NewMetrics(),
	}
	h.metrics.Instrument(h.cluster)
	h.plugins = &plugins{h: h, byName: map[string]*plugin{}, controllers: map[string]*controller{}}
	defer func() {
		if err != nil {
			h.close(ctx)
		}
	}()
	if h.source, err = source.NewDirectory(source.Config{Path: config.Plugins, Logger: h.logger.Named("source")}); err != nil {
		return nil, err
	}
	if h.sandbox, err = sandbox.New(ctx, sandbox.Config{
		CacheDir:    config.CacheDir,
		CacheBytes:  uint64(config.CacheMiB) << 20,
		Compiler:    env.Compiler,
		MemoryBytes: uint64(config.GuestMemoryMiB) << 20,
		Metrics:     func(plugin string) sandbox.Metrics { return h.metrics.Plugin(plugin) },
		Logger:      h.logger.Named("sandbox"),
	}); err != nil {
		return nil, err
	}
	if h.cache, err = cache.New(cache.Config{
		REST: h.cluster, Namespace: config.Namespace, Wake: h.plugins.wake, Logger: h.logger.Named("cache"),
	}); err != nil {
		return nil, err
	}
	if h.api, err = newAPICheck(h.cluster); err != nil {
		return nil, err
	}
	if h.events, err = newEvents(h.cluster, env.Pod); err != nil {
		return nil, err
	}
	h.recorder = h.events.recorder
	h.catalog = catalog.New(catalog.Config{
		Loader:    loader{h.sandbox, config},
		Runner:    h.plugins,
		Observer:  observer{h.metrics, h.events.pod},
		Logger:    h.logger.Named("catalog"),
		Probation: cmp.Or(config.Probation.Duration, catalog.NoProbation),
	})
	h.metrics.ObserveMemory(h.memoryStats)
	h.metrics.ObserveSlots(func() telemetry.SlotStats { return telemetry.SlotStats(h.sandbox.Slots()) })
	h.metrics.Observe(h.cacheStats, h.sandboxStats, h.plugins.breakerStats)
	// Who is stopped while it starts ends like one that runs, in Run.
	h.server, err = serve.Listen(context.WithoutCancel(ctx), serve.Config{
		Address: config.Listen,
		Metrics: h.metrics.Registry,
		Checks:  h.checks,
		Plugins: func() any { return h.plugins.statuses() },
		Logger:  h.logger.Named("serve"),
	})
	return h, err
}

// Address returns the address of probes, metrics and plugin states.
func (h *Host) Address() string { return h.server.Address() }

// Forgive has every plugin tried again that was refused or rolled back.
func (h *Host) Forgive() {
	h.logger.Info("what was refused or rolled back is tried again")
	h.catalog.Forgive()
}

// Run runs the host until ctx is done or a stage fails; then the stages stop
// in reverse: plugins end their runs before what they need goes away.
func (h *Host) Run(ctx context.Context) error {
	h.logger.Info("host starts", "version", h.version, "plugins", h.config.Plugins, "listen", h.Address())
	if !h.config.HostIdentity {
		h.logger.Warn("no plugin can run: there are no service accounts for plugins yet; let them act with the rights of the host by --host-identity")
	}
	defer h.close(context.WithoutCancel(ctx))
	stages, ctx := errgroup.WithContext(telemetry.WithLogger(ctx, h.logger.Named("client-go")))
	stages.Go(func() error { return h.server.Run(ctx) })
	stages.Go(func() error {
		return h.source.Run(ctx, func(s source.Snapshot) { h.catalog.Update(ctx, modules(s)) })
	})
	err := stages.Wait()
	h.catalog.Wait()
	h.logger.Info("host stopped", "error", err)
	return err
}

// close frees what New has made, in reverse.
func (h *Host) close(ctx context.Context) {
	if h.events != nil {
		h.events.stop()
	}
	if h.cache != nil {
		h.cache.Stop()
	}
	if h.sandbox != nil {
		if err := h.sandbox.Close(ctx); err != nil {
			h.logger.Warn("close sandbox", "error", err)
		}
	}
}

// modules is a snapshot as the catalog wants it.
func modules(s source.Snapshot) []catalog.Module {
	out := make([]catalog.Module, len(s))
	for i, p := range s {
		out[i] = catalog.Module{Name: p.Name, Digest: p.Digest, Read: p.Read, Policy: p.Policy, Err: p.Err}
	}
	return out
}
