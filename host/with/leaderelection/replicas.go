package leaderelection

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/internal/explain"
	"github.com/thole-dev/thole/host/runner"
	"github.com/thole-dev/thole/host/telemetry"
	"github.com/thole-dev/thole/host/with/leaderelection/election"
)

// replicas decides by Leases which replica of the host leads which plugin, and records in those that this one
// leads what the others have to know of modules.
type replicas struct {
	env      runner.Environment
	settings *HostSettings
	logger   hclog.Logger
	host     runner.Host        // since start
	election *election.Election // as the following two
	kept     *kept
	giveUp   func() // ends the election, and returns when the Leases were given up

	unrecorded map[*election.Lease]string // why nothing could be recorded last; of record alone
	recording  sync.Mutex                 // held while an annotation is changed

	mu      sync.Mutex                // guards the following fields, which are by plugin
	retried map[string][]string       // modules that this replica, which leads, may run although they were rolled back
	latest  map[string]catalog.Record // the last record that was seen
	files   map[string]string         // the digest of the file since this replica leads
	missing map[string]time.Time      // since when a plugin with an annotation is not known here
}

var _ runner.Leaders = (*replicas)(nil)

func newReplicas(env runner.Environment, s *HostSettings) *replicas {
	return &replicas{
		env: env, settings: s, logger: env.Logger.Named("election"), giveUp: func() {},
		unrecorded: map[*election.Lease]string{}, retried: map[string][]string{}, latest: map[string]catalog.Record{},
		files: map[string]string{}, missing: map[string]time.Time{},
	}
}

// start takes part in the election until stop is called. What it returns takes nothing over any more once ctx is done.
func (r *replicas) start(ctx context.Context, host runner.Host) (run func(context.Context) error, err error) {
	r.host = host
	s, replica, namespace := r.settings, "thole", r.settings.ResourceNamespace
	if pod := r.env.Pod; pod != nil {
		replica, namespace = pod.Name, cmp.Or(namespace, pod.Namespace)
	}
	if namespace == "" {
		return nil, errors.New("leader election: the namespace of the Leases is not known: " +
			"name it by --leader-elect-resource-namespace, or set POD_NAME, POD_NAMESPACE and POD_UID by the downward API")
	}
	if r.kept, err = newKept(r.env, s, namespace, r.logger); err != nil {
		return nil, err
	}
	if r.election, err = election.New(election.Config{
		Client: r.env.Clients.Leases(namespace), Namespace: namespace, Name: s.ResourceName, Shards: s.Shards,
		Identity:      replica + "_" + string(uuid.NewUUID()),
		LeaseDuration: s.LeaseDuration.Duration, RenewDeadline: s.RenewDeadline.Duration, RetryPeriod: s.RetryPeriod.Duration,
		Changed: r.changed, Annotated: r.annotated, Rejected: r.rejected, Ready: r.ready, Logger: r.logger,
	}); err != nil {
		return nil, err
	}
	r.env.Metrics.Registry.MustRegister(newCollector(r.election.Leases))
	electing, end := context.WithCancel(telemetry.WithLogger(context.WithoutCancel(ctx), r.env.Logger.Named("client-go")))
	var running sync.WaitGroup
	running.Go(func() { r.election.Run(electing) })
	running.Go(func() { r.recordChanges(electing) })
	r.giveUp = func() {
		end()
		running.Wait()
	}
	return func(ctx context.Context) error {
		<-ctx.Done()
		r.election.Retire()
		return nil
	}, nil
}

// stop gives up the Leases: nothing writes any more.
func (r *replicas) stop() {
	r.giveUp()
	r.kept.close()
}

// Join implements [runner.Leaders].
func (r *replicas) Join(plugin string, policy config.Policy) (runner.Lead, error) {
	return r.election.Of(plugin, hasOwnLease(policy)), nil
}

// Lead implements [runner.Leaders].
func (r *replicas) Lead(plugin string) runner.Lead {
	if p := r.election.Plugin(plugin); p != nil {
		return p
	}
	return nil
}

// changed is called when the replica has begun or ceased to lead.
func (r *replicas) changed(lease *election.Lease) {
	if lease.Leads() {
		r.logger.Info("this replica leads", "lease", lease.Name)
		for _, plugin := range r.election.PluginsOf(lease) {
			r.host.Reconsider(plugin.Name)
		}
		return
	}
	r.logger.Info("this replica does not lead any more", "lease", lease.Name)
	for _, plugin := range r.election.PluginsOf(lease) {
		r.mu.Lock()
		delete(r.retried, plugin.Name)
		delete(r.files, plugin.Name)
		r.mu.Unlock()
		r.host.Restart(plugin.Name, "another replica may lead it, and is to find nothing of it running here")
	}
}

// annotated is called when a leader has recorded something of a plugin, in whichever Lease. The plugin is only
// disturbed by what is news to it: that ends an attempt to start it. Which module is good is news if nothing runs.
func (r *replicas) annotated(key string) {
	plugin, ours := strings.CutPrefix(key, annotationPrefix)
	p := r.election.Plugin(plugin)
	if !ours || p == nil {
		return
	}
	of, idle := r.recordOf(p.Lease, plugin), r.digestOf(plugin) == ""
	r.mu.Lock()
	before := r.latest[plugin]
	r.latest[plugin] = of
	r.mu.Unlock()
	if idle && of.Good != before.Good || !p.Lease.Leads() && !slices.Equal(of.Rejected, before.Rejected) {
		r.host.Reconsider(plugin)
	}
}

// rejected reports whether what runs here of a plugin must not run: before this replica leads
// it, that is replaced.
func (r *replicas) rejected(plugin string) bool {
	running := r.digestOf(plugin)
	return running != "" && r.isRejected(plugin, running)
}

// isRejected reports whether a module was rolled back by another replica, and is not to be tried
// again.
func (r *replicas) isRejected(plugin, digest string) bool {
	p := r.election.Plugin(plugin)
	if p == nil || !slices.Contains(r.recordOf(p.Lease, plugin).Rejected, digest) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return !slices.Contains(r.retried[plugin], digest)
}

// ready reports whether a plugin runs here as in the replica that leads it.
func (r *replicas) ready(plugin string) bool {
	p, running := r.election.Plugin(plugin), r.digestOf(plugin)
	return p != nil && running != "" && running == r.recordOf(p.Lease, plugin).Running
}

// digestOf returns the module that runs of a plugin, "" if none does.
func (r *replicas) digestOf(plugin string) string {
	s, _ := r.host.Directory.Status(plugin)
	return s.Digest
}

// Loaded implements [catalog.Replicas]: it keeps the module, and of the plugin's others those that may run again.
func (r *replicas) Loaded(m *catalog.Module) {
	s, _ := r.host.Directory.Status(m.Name)
	others := []string{s.Digest, s.Good}
	if p := r.election.Plugin(m.Name); p != nil {
		others = append(others, r.recordOf(p.Lease, m.Name).Good)
	}
	r.kept.save(m, others...)
}

// Kept implements [catalog.Replicas].
func (r *replicas) Kept(ctx context.Context, plugin, digest string) ([]byte, error) {
	return r.kept.read(ctx, plugin, digest)
}

// problem returns which other module the leader of a plugin runs. If that is this replica: why the last good module may
// be lost.
func (r *replicas) problem(plugin string) string {
	p := r.election.Plugin(plugin)
	switch {
	case p == nil:
		return ""
	case p.Leads():
		return r.kept.problem(plugin)
	}
	if running := r.recordOf(p.Lease, plugin).Running; running != "" && running != r.digestOf(plugin) {
		return "the leader runs another module, " + runner.ShortDigest(running)
	}
	return ""
}

// OthersLead implements [runner.Leaders].
func (r *replicas) OthersLead(plugin string) bool {
	if r.election.Err() != nil {
		return true
	}
	return slices.ContainsFunc(r.election.Leases(), func(lease *election.Lease) bool {
		_, recorded := lease.Annotations()[annotationPrefix+plugin]
		return recorded && !lease.Leads()
	})
}

// canLead returns why this replica neither leads by a Lease nor could take it over, nil if there is no such Lease.
func (r *replicas) canLead() error {
	if err := r.election.Err(); err != nil {
		return err
	}
	for _, lease := range r.election.Leases() {
		if err := lease.Err(); err != nil && !lease.Leads() {
			return fmt.Errorf("this replica cannot lead by the Lease %s: %w", lease.Name, explain.Forbidden(err))
		}
	}
	return nil
}
