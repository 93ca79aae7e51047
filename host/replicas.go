package host

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/election"
	"github.com/thole-dev/thole/host/internal/explain"
	"github.com/thole-dev/thole/host/runner"
	"github.com/thole-dev/thole/host/sandbox"
	"github.com/thole-dev/thole/host/serve"
)

// replicas decides by Leases which replica of the host leads which plugin, and records in those that this one
// leads what the others have to know of modules.
type replicas struct {
	election *election.Election
	kept     *kept
	catalog  func() *catalog.Catalog[*sandbox.Guest]
	logger   hclog.Logger

	unrecorded map[*election.Lease]string // why nothing could be recorded last; of record alone
	recording  sync.Mutex                 // held while an annotation is changed

	mu      sync.Mutex                // guards the following fields, which are by plugin
	retried map[string][]string       // modules that this replica, which leads, may run although they were rolled back
	latest  map[string]catalog.Record // the last record that was seen
	files   map[string]string         // the digest of the file since this replica leads
	missing map[string]time.Time      // since when a plugin with an annotation is not known here
}

var _ catalog.Replicas = (*replicas)(nil)

// newReplicas returns nil if there is one replica.
func newReplicas(all config.Config, cluster *rest.Config, pod *corev1.ObjectReference, logger hclog.Logger) (*replicas, error) {
	c := all.LeaderElection
	if !c.LeaderElect {
		return nil, nil
	}
	name, namespace := "thole", c.ResourceNamespace
	if pod != nil {
		name = pod.Name
	}
	switch {
	case namespace == "" && pod != nil:
		namespace = pod.Namespace
	case namespace == "":
		return nil, fmt.Errorf("leader election: the namespace of the Leases is not known: name it by --leader-elect-resource-namespace, or set POD_NAME, POD_NAMESPACE and POD_UID by the downward API")
	}
	own := rest.CopyConfig(cluster)
	own.RateLimiter, own.QPS = nil, -1 // a renewal must not wait
	client, err := kubernetes.NewForConfig(own)
	if err != nil {
		return nil, err
	}
	r := &replicas{
		logger: logger, retried: map[string][]string{}, latest: map[string]catalog.Record{},
		unrecorded: map[*election.Lease]string{}, files: map[string]string{}, missing: map[string]time.Time{},
	}
	if r.kept, err = newKept(all, client.CoreV1(), namespace, logger); err != nil {
		return nil, err
	}
	r.election, err = election.New(election.Config{
		Client: client, Namespace: namespace, Name: c.ResourceName, Identity: name + "_" + string(uuid.NewUUID()), Shards: c.Shards,
		LeaseDuration: c.LeaseDuration.Duration, RenewDeadline: c.RenewDeadline.Duration, RetryPeriod: c.RetryPeriod.Duration,
		Changed: r.changed, Annotated: r.annotated, Rejected: r.rejected, Ready: r.ready, Logger: logger,
	})
	return r, err
}

// of returns who leads a plugin, nil if there is one replica.
func (r *replicas) of(plugin string, ownLease bool) (*election.Plugin, error) {
	if r == nil {
		return nil, nil
	}
	return r.election.Of(plugin, ownLease)
}

// changed is called when the replica has begun or ceased to lead.
func (r *replicas) changed(lease *election.Lease) {
	if lease.Leads() {
		r.logger.Info("this replica leads", "lease", lease.Name)
		for _, plugin := range r.election.PluginsOf(lease) {
			r.catalog().Reconsider(plugin.Name)
		}
		return
	}
	r.logger.Info("this replica does not lead any more", "lease", lease.Name)
	for _, plugin := range r.election.PluginsOf(lease) {
		r.mu.Lock()
		delete(r.retried, plugin.Name)
		delete(r.files, plugin.Name)
		r.mu.Unlock()
		r.catalog().Restart(plugin.Name, "another replica may lead it, and is to find nothing of it running here")
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
		r.catalog().Reconsider(plugin)
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
	s, _ := r.catalog().Status(plugin)
	return s.Digest
}

// Loaded implements [catalog.Replicas]: it keeps the module, and of the plugin's others those that may run again.
func (r *replicas) Loaded(m *catalog.Module) {
	s, _ := r.catalog().Status(m.Name)
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

// close frees what newReplicas has made.
func (r *replicas) close() {
	if r != nil {
		r.kept.close()
	}
}

// retire lets the replica take nothing over any more.
func (r *replicas) retire() {
	if r != nil {
		r.election.Retire()
	}
}

// run takes part in the election until ctx is done.
func (r *replicas) run(ctx context.Context) {
	if r == nil {
		return
	}
	var recording sync.WaitGroup
	recording.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(recordEvery):
				r.record(ctx)
			}
		}
	})
	r.election.Run(ctx)
	recording.Wait()
}

// describe adds to the status of a plugin who leads it.
func (r *replicas) describe(s *runner.PluginStatus) {
	if r == nil {
		return
	}
	p := r.election.Plugin(s.Name)
	if p == nil {
		return
	}
	s.Leader = p.Leader()
	if p.Leads() {
		s.LastGoodProblem = r.kept.problem(s.Name)
		return
	}
	if s.State == catalog.Running || s.State == catalog.Degraded || s.State == catalog.Quarantined {
		s.State = catalog.Standby
	}
	if running := r.recordOf(p.Lease, s.Name).Running; running != s.Digest {
		s.OtherModule = running
	}
}

// leads reports for each Lease whether this replica leads.
func (r *replicas) leads() map[string]bool {
	leads := map[string]bool{}
	if r != nil {
		for _, lease := range r.election.Leases() {
			leads[lease.Name] = lease.Leads()
		}
	}
	return leads
}

// leadsPlugin reports whether this replica leads a plugin.
func (r *replicas) leadsPlugin(plugin string) bool {
	if r == nil {
		return true
	}
	p := r.election.Plugin(plugin)
	return p != nil && p.Leads()
}

// othersLead reports whether another replica leads a plugin, or may.
func (r *replicas) othersLead(plugin string) bool {
	if r == nil {
		return false
	}
	if r.election.Err() != nil {
		return true
	}
	return slices.ContainsFunc(r.election.Leases(), func(lease *election.Lease) bool {
		_, recorded := lease.Annotations()[annotationPrefix+plugin]
		return recorded && !lease.Leads()
	})
}

// readiness returns the parts of /readyz: each Lease is led, or could be taken over.
func (r *replicas) readiness() (checks []serve.Check) {
	if r == nil {
		return nil
	}
	checks = append(checks, serve.Check{Name: "Leases", Ready: r.election.Err})
	for _, lease := range r.election.Leases() {
		name := "Lease " + lease.Name
		if leader := lease.Holder(); leader != "" {
			name += ", led by " + leader
		}
		checks = append(checks, serve.Check{Name: name, Ready: func() error {
			if err := lease.Err(); err != nil && !lease.Leads() {
				return fmt.Errorf("this replica cannot lead: %w", explain.Forbidden(err))
			}
			return nil
		}})
	}
	return checks
}
