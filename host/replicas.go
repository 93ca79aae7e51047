package host

import (
	"context"
	"encoding/json"
	"fmt"
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
	"github.com/thole-dev/thole/host/sandbox"
	"github.com/thole-dev/thole/host/serve"
)

// replicas is what this replica tells the others by the Leases that it leads, and learns by
// those that they lead.
type replicas struct {
	election *election.Election
	catalog  func() *catalog.Catalog[*sandbox.Guest]
	logger   hclog.Logger

	untold map[*election.Lease]string // why nothing could be told last; of tell alone

	mu      sync.Mutex
	leases  map[string]*election.Lease // by plugin
	retried map[string]string          // the digest that is tried again although it was rolled back, by plugin
}

var _ catalog.Replicas = (*replicas)(nil)

// newReplicas returns nil if there is one replica.
func newReplicas(c config.LeaderElection, cluster *rest.Config, pod *corev1.ObjectReference, logger hclog.Logger) (*replicas, error) {
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
	r := &replicas{logger: logger, leases: map[string]*election.Lease{}, untold: map[*election.Lease]string{}, retried: map[string]string{}}
	r.election, err = election.New(election.Config{
		Client: client, Namespace: namespace, Name: c.ResourceName, Identity: name + "_" + string(uuid.NewUUID()), Shards: c.Shards,
		LeaseDuration: c.LeaseDuration.Duration, RenewDeadline: c.RenewDeadline.Duration, RetryPeriod: c.RetryPeriod.Duration,
		Changed: r.changed, Annotated: r.annotated, Logger: logger,
	})
	return r, err
}

// leaseOf returns the Lease of a plugin, nil if there is one replica.
func (r *replicas) leaseOf(plugin string, own bool) (*election.Lease, error) {
	if r == nil {
		return nil, nil
	}
	lease, err := r.election.Of(plugin, own)
	if err == nil {
		r.mu.Lock()
		r.leases[plugin] = lease
		r.mu.Unlock()
	}
	return lease, err
}

// pluginsOf returns the plugins of a Lease.
func (r *replicas) pluginsOf(lease *election.Lease) (all []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for plugin, of := range r.leases {
		if of == lease {
			all = append(all, plugin)
		}
	}
	return all
}

// changed is called when the replica has begun or ceased to lead.
func (r *replicas) changed(lease *election.Lease) {
	if lease.Leads() {
		r.logger.Info("this replica leads", "lease", lease.Name)
		return
	}
	r.logger.Info("this replica does not lead any more", "lease", lease.Name)
	for _, plugin := range r.pluginsOf(lease) {
		r.catalog().Restart(plugin, "another replica may lead it, and is to find nothing of it running here")
	}
}

// annotated is called when a leader has told something.
func (r *replicas) annotated(lease *election.Lease) {
	for _, plugin := range r.pluginsOf(lease) {
		r.catalog().Reconsider(plugin)
	}
}

// told is what the leader of a plugin tells of it, in an annotation of its Lease.
type told struct {
	Running  string `json:"running,omitempty"`  // the digest of the module that runs, in hex
	Rejected string `json:"rejected,omitempty"` // the digest of one that was rolled back
}

// annotationPrefix precedes the name of a plugin.
const annotationPrefix = "plugins.thole.dev/"

// toldOf returns what the leader of a plugin has told of it.
func toldOf(lease *election.Lease, plugin string) (t told) {
	_ = json.Unmarshal([]byte(lease.Annotations()[annotationPrefix+plugin]), &t) // others may write there what they like
	return t
}

// Rejected implements [catalog.Replicas].
func (r *replicas) Rejected(m *catalog.Module) (digest string, err error) {
	lease, err := r.leaseOf(m.Name, m.Policy.OwnLease)
	if err == nil {
		err = r.election.Err()
	}
	if err != nil {
		return "", err
	}
	digest = toldOf(lease, m.Name).Rejected
	r.mu.Lock()
	defer r.mu.Unlock()
	if lease.Leads() && digest == r.retried[m.Name] {
		return "", nil
	}
	return digest, nil
}

// Reject implements [catalog.Replicas].
func (r *replicas) Reject(m *catalog.Module, digest string) {
	lease, err := r.leaseOf(m.Name, m.Policy.OwnLease)
	if err == nil {
		r.mu.Lock()
		delete(r.retried, m.Name)
		r.mu.Unlock()
		now := toldOf(lease, m.Name)
		now.Rejected = digest
		err = lease.Annotate(context.Background(), map[string]*string{annotationPrefix + m.Name: now.text()})
	}
	if err != nil {
		r.logger.Error("other replicas do not know that a module was rolled back, and may run it if they take over", "plugin", m.Name, "digest", digest, "error", err)
	}
}

// text returns the annotation, nil for none.
func (t told) text() *string {
	if t == (told{}) {
		return nil
	}
	text, _ := json.Marshal(t) // cannot fail
	return new(string(text))
}

// retry lets modules run again that were rolled back, where this replica leads.
func (r *replicas) retry() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for plugin, lease := range r.leases {
		if lease.Leads() {
			r.retried[plugin] = toldOf(lease, plugin).Rejected
		}
	}
}

// tellEvery is how often the annotations are brought up to date.
const tellEvery = time.Second

// run takes part in the election until ctx is done.
func (r *replicas) run(ctx context.Context) {
	if r == nil {
		return
	}
	var telling sync.WaitGroup
	telling.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(tellEvery):
				r.tell(ctx)
			}
		}
	})
	r.election.Run(ctx)
	telling.Wait()
}

// tell writes what has changed of the plugins that this replica leads.
func (r *replicas) tell(ctx context.Context) {
	statuses := map[string]catalog.Status{}
	for _, s := range r.catalog().Statuses() {
		statuses[s.Name] = s
	}
	for _, lease := range r.election.Leases() {
		if !lease.Leads() {
			continue
		}
		changes := map[string]*string{}
		for _, plugin := range r.pluginsOf(lease) {
			before := toldOf(lease, plugin)
			if now := r.after(before, plugin, statuses[plugin]); now != before {
				changes[annotationPrefix+plugin] = now.text()
			}
		}
		if len(changes) == 0 {
			continue
		}
		r.toldOrNot(ctx, lease, lease.Annotate(ctx, changes))
	}
}

// toldOrNot logs an error that is another one than the last.
func (r *replicas) toldOrNot(ctx context.Context, lease *election.Lease, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if err != nil && text != r.untold[lease] && ctx.Err() == nil {
		r.logger.Warn("cannot tell other replicas what runs", "lease", lease.Name, "error", explain.Forbidden(err))
	}
	r.untold[lease] = text
}

// after returns what is to be told of a plugin. That a module was rolled back stays until
// another one runs, or it is tried again.
func (r *replicas) after(before told, plugin string, s catalog.Status) (now told) {
	r.mu.Lock()
	retried := r.retried[plugin]
	r.mu.Unlock()
	now.Running = s.Digest
	switch {
	case s.FailedStep == catalog.StepProbation:
		now.Rejected = s.Rejected
	case before.Rejected == retried, s.State == catalog.Running && s.Digest != before.Rejected:
	case s.Name != "":
		now.Rejected = before.Rejected
	}
	return now
}

// describe adds to the status of a plugin who leads it.
func (r *replicas) describe(s *PluginStatus) {
	if r == nil {
		return
	}
	r.mu.Lock()
	lease := r.leases[s.Name]
	r.mu.Unlock()
	if lease == nil {
		return
	}
	s.Leader = lease.Holder()
	if lease.Leads() {
		return
	}
	if s.State == catalog.Running || s.State == catalog.Degraded || s.State == catalog.Quarantined {
		s.State = catalog.Standby
	}
	if running := toldOf(lease, s.Name).Running; running != s.Digest {
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
