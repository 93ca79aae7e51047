package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	contract "github.com/thole-dev/thole/abi/webhooks"
	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/certificates"
	"github.com/thole-dev/thole/host/config"
	"github.com/thole-dev/thole/host/election"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/serve"
	"github.com/thole-dev/thole/host/telemetry"
	"github.com/thole-dev/thole/host/webhook"
)

// webhooks serves the reviews and conversions of plugins: it joins host/webhook to catalog, runner
// and election.
type webhooks struct {
	h         *Host
	server    *webhook.Server
	keeper    *certificates.Keeper
	registrar *webhook.Registrar
	metrics   telemetry.WebhookMetrics
}

// newWebhooks returns nil if there is no address to serve them on.
func newWebhooks(ctx context.Context, h *Host, cluster *rest.Config, pod *corev1.ObjectReference) (*webhooks, error) {
	c, _ := h.config.Values[contract.Name].(*webhook.HostSettings)
	if c == nil || c.Listen == "" {
		return nil, nil
	}
	w := &webhooks{h: h, metrics: h.metrics.Webhooks(webhook.Reasons())}
	endpoint, err := endpointOf(c, pod)
	if err != nil {
		return nil, fmt.Errorf("webhooks: %w", err)
	}
	clients, err := webhook.NewClients(c.ClientCA, c.ClientNames)
	if err != nil {
		return nil, err
	}
	own := rest.CopyConfig(cluster)
	own.RateLimiter, own.QPS, own.Burst = nil, 50, 100
	typed, err := kubernetes.NewForConfig(own)
	if err != nil {
		return nil, err
	}
	objects, err := dynamic.NewForConfig(own)
	if err != nil {
		return nil, err
	}
	logger := h.logger.Named("webhook")
	w.keeper = certificates.NewKeeper(certificates.KeeperConfig{
		Secrets: typed.CoreV1(), Namespace: c.Secret.Namespace, Name: c.Secret.Name, Hosts: endpoint.Hosts(), Validity: c.Validity.Duration,
		Arrived: func(ctx context.Context, bundle []byte) bool { return w.registrar.Arrived(ctx, bundle) },
		Changed: func() { w.registrar.Kick() }, DryRun: h.config.DryRun, Logger: logger,
	})
	w.registrar = webhook.NewRegistrar(webhook.RegistrarConfig{
		Client: objects, Endpoint: endpoint, Host: c.Secret.Namespace + "/" + c.Secret.Name, Namespace: c.Secret.Namespace, Bundle: w.keeper.Bundle,
		Plugins: w.plugins, Known: w.known, KnownToOthers: h.replicas.knowOf, Logger: logger,
	})
	w.server, err = webhook.Listen(context.WithoutCancel(ctx), webhook.Config{
		Address: c.Listen, Certificate: w.keeper.Certificate, Clients: clients,
		Controller: h.runner.Reviewer, Plugin: w.knownOf, Handlers: h.handlers, Metrics: w.metrics, Logger: logger,
	})
	if err != nil {
		return nil, err
	}
	return w, nil
}

// endpointOf returns where the API server reaches the host, and completes c by the pod.
func endpointOf(c *webhook.HostSettings, pod *corev1.ObjectReference) (webhook.Endpoint, error) {
	if pod != nil {
		c.Secret.Namespace = cmp.Or(c.Secret.Namespace, pod.Namespace)
		c.Service.Namespace = cmp.Or(c.Service.Namespace, pod.Namespace)
	}
	switch {
	case c.Secret.Namespace == "":
		return webhook.Endpoint{}, errors.New("the namespace of the Secret with the certificates is not known: name it by webhooks.secret.namespace in the file of --config, or set POD_NAME, POD_NAMESPACE and POD_UID by the downward API")
	case c.URL != "":
		return webhook.Endpoint{URL: c.URL}, nil
	case c.Service.Namespace == "":
		return webhook.Endpoint{}, errors.New("the Service by which the API server reaches the host is not known: name it by webhooks.service in the file of --config, or write webhooks.url for a host outside of the cluster")
	}
	return webhook.Endpoint{Service: c.Service}, nil
}

// run serves until ctx is done, and then until the requests in progress have ended. Meanwhile
// everything that they need must run.
func (w *webhooks) run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	keeping, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	running.Go(func() { w.keeper.Run(keeping) })
	running.Go(func() { w.registrar.Run(ctx) })
	return w.server.Run(ctx)
}

// expires returns when the certificate expires, the zero time if there is none.
func (w *webhooks) expires() time.Time {
	if w == nil {
		return time.Time{}
	}
	return w.keeper.Expires()
}

// plugins implements [webhook.RegistrarConfig].Plugins.
func (w *webhooks) plugins() []webhook.Plugin {
	all := w.h.runner.Reviewed()
	for _, s := range w.h.catalog.Statuses() {
		policy, known := w.h.policies.of(s.Name)
		runs := slices.ContainsFunc(all, func(p webhook.Plugin) bool { return p.Name == s.Name })
		if !runs && known && webhook.SettingsOf(policy) == nil {
			all = append(all, webhook.Plugin{Name: s.Name, Leads: w.h.replicas.leadsPlugin(s.Name), DryRun: policy.DryRun})
		}
	}
	slices.SortFunc(all, func(a, b webhook.Plugin) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// known reports whether the directory has a plugin. Before it was read it might have any.
func (w *webhooks) known(plugin string) bool {
	_, known := w.h.catalog.Status(plugin)
	return known || !w.h.catalog.Updated()
}

// knownOf implements [webhook.Config].Plugin.
func (w *webhooks) knownOf(plugin string) (webhook.Known, bool) {
	s, known := w.h.catalog.Status(plugin)
	if !known {
		return webhook.Known{}, false
	}
	k := webhook.Known{State: string(s.State), Loading: s.State == catalog.Loading, Controllers: s.Controllers}
	if p, runs := w.h.runner.ReviewedOf(plugin); runs {
		k.Webhooks = p.Webhooks
	} else if policy, read := w.h.policies.of(plugin); read {
		k.Webhooks = webhook.SettingsOf(policy)
	}
	return k, true
}

// problem returns why the API server does not ask a plugin, "" if it does or need not.
func (w *webhooks) problem(plugin string, offers bool) string {
	switch {
	case w == nil && offers:
		return notServed
	case w == nil:
		return ""
	}
	if problem := expired(w.keeper.Expires(), time.Now(), w.keeper.Err()); offers && problem != "" {
		return problem
	}
	if problem, known := w.registrar.Problem(plugin); known || !offers {
		return problem
	}
	if err := w.certified(); err != nil {
		return notRegistered + ": " + err.Error()
	}
	return notRegistered
}

// expired returns that the certificate has expired, and why there is no other one; "" if it has not, or
// there has been none.
func expired(at, now time.Time, err error) string {
	if at.IsZero() || now.Before(at) {
		return ""
	}
	text := "the certificate of the host has expired at " + at.UTC().Format(time.RFC3339) + ", so that the API server cannot ask it"
	if err != nil {
		text += ": " + err.Error()
	}
	return text
}

// certified returns why there is no certificate yet, nil if there is one.
func (w *webhooks) certified() error {
	if _, err := w.keeper.Certificate(); err != nil {
		return errors.Join(err, w.keeper.Err())
	}
	return nil
}

// Reviews returns how many requests of the API server a plugin has had for a review, which is
// [webhooks.ExportValidate], [webhooks.ExportMutate] or [webhooks.ExportConvert].
func (h *Host) Reviews(plugin, review string) int {
	if h.webhooks == nil {
		return 0
	}
	return h.webhooks.metrics.Total(plugin, review, webhook.Results(review))
}

const (
	notServed     = "its reviews and conversions are not served: start the host with --webhooks-listen"
	notRegistered = "the API server has not been told yet what it reviews or converts"
)

// readiness returns the part of /readyz: there is a certificate.
func (w *webhooks) readiness() []serve.Check {
	if w == nil {
		return nil
	}
	return []serve.Check{{Name: "certificate of reviews", Ready: w.certified}}
}

// close frees the address of webhooks that have not run.
func (w *webhooks) close() {
	if w != nil {
		w.server.Close()
	}
}

// observe creates the series of what a plugin reviews.
func (w *webhooks) observe(event events.Event, logger hclog.Logger) {
	e, started := event.(events.PluginStarted)
	switch {
	case !started:
	case w != nil:
		w.metrics.Started(e.Plugin, e.Manifest, webhook.Results)
	case webhook.Offers(e.Manifest):
		logger.Warn(notServed, "plugin", e.Plugin)
	}
}

// policies has the policy of each plugin whose file could be read last.
type policies struct {
	mu       sync.Mutex
	byPlugin map[string]config.Policy
}

// set replaces all.
func (p *policies) set(all map[string]config.Policy) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.byPlugin = maps.Clone(all)
}

func (p *policies) of(plugin string) (policy config.Policy, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	policy, known = p.byPlugin[plugin]
	return policy, known
}

// leadsPlugin reports whether this replica leads a plugin.
func (r *replicas) leadsPlugin(plugin string) bool {
	if r == nil {
		return true
	}
	p := r.election.Plugin(plugin)
	return p != nil && p.Leads()
}

// knowOf reports whether another replica leads a plugin, or may.
func (r *replicas) knowOf(plugin string) bool {
	if r == nil {
		return false
	}
	if r.election.Err() != nil {
		return true
	}
	return slices.ContainsFunc(r.election.Leases(), func(lease *election.Lease) bool {
		_, told := lease.Annotations()[annotationPrefix+plugin]
		return told && !lease.Leads()
	})
}
