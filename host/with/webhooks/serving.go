package webhooks

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
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/host/certificates"
	"github.com/thole-dev/thole/host/kube"
	"github.com/thole-dev/thole/host/runner"
)

// capability serves the reviews and conversions of the plugins of a host.
type capability struct {
	env     runner.Environment
	logger  hclog.Logger
	metrics metrics
	plugins *plugins
	// directory is that of the host, once it was made.
	directory runner.Directory

	// nil if there is no address to serve them on.
	server    *Server
	keeper    *certificates.Keeper
	registrar *Registrar
}

func newCapability(env runner.Environment) runner.Capability {
	c := &capability{env: env, logger: env.Logger.Named("webhook"), metrics: newMetrics(env.Metrics), plugins: newPlugins()}
	env.Metrics.Registry.MustRegister(newExpiry(c.expires))
	return runner.Capability{
		Start: c.start, Stop: c.close, Ready: c.certified, Problem: c.problem,
		Starting: c.plugins.start, Discarded: c.plugins.discard, Plugin: c.plugin,
	}
}

// start listens, if there is an address.
func (c *capability) start(ctx context.Context, host runner.Host) (run func(context.Context) error, err error) {
	c.directory = host.Directory
	s := *c.env.Section.(*HostSettings)
	if s.Listen == "" {
		return nil, nil
	}
	endpoint, err := endpointOf(&s, c.env.Pod)
	if err != nil {
		return nil, fmt.Errorf("webhooks: %w", err)
	}
	clients, err := NewClients(s.ClientCA, s.ClientNames)
	if err != nil {
		return nil, err
	}
	own := rest.CopyConfig(c.env.Cluster)
	own.RateLimiter, own.QPS, own.Burst = nil, 50, 100
	written, err := kube.New(own)
	if err != nil {
		return nil, err
	}
	objects, err := dynamic.NewForConfig(own)
	if err != nil {
		return nil, err
	}
	c.keeper = certificates.NewKeeper(certificates.KeeperConfig{
		Secrets: written.Secrets(s.Secret.Namespace), Namespace: s.Secret.Namespace, Name: s.Secret.Name, Hosts: endpoint.Hosts(), Validity: s.Validity.Duration,
		Arrived: func(ctx context.Context, bundle []byte) bool { return c.registrar.Arrived(ctx, bundle) },
		Changed: func() { c.registrar.Kick() }, DryRun: c.env.DryRun, Logger: c.logger,
	})
	c.registrar = NewRegistrar(RegistrarConfig{
		Client: objects, Endpoint: endpoint, Host: s.Secret.Namespace + "/" + s.Secret.Name, Namespace: s.Secret.Namespace, Bundle: c.keeper.Bundle,
		Plugins: c.registered, Known: c.known, KnownToOthers: c.directory.OthersLead, Logger: c.logger,
	})
	c.metrics.serving()
	c.server, err = Listen(context.WithoutCancel(ctx), Config{
		Address: s.Listen, Certificate: c.keeper.Certificate, Clients: clients,
		Controller: c.plugins.controller, Plugin: c.knownOf, Handlers: host.Handlers, Metrics: c.metrics, Logger: c.logger,
	})
	return c.run, err
}

// endpointOf returns where the API server reaches the host, and completes s by the pod.
func endpointOf(s *HostSettings, pod *corev1.ObjectReference) (Endpoint, error) {
	if pod != nil {
		s.Secret.Namespace = cmp.Or(s.Secret.Namespace, pod.Namespace)
		s.Service.Namespace = cmp.Or(s.Service.Namespace, pod.Namespace)
	}
	switch {
	case s.Secret.Namespace == "":
		return Endpoint{}, errors.New("the namespace of the Secret with the certificates is not known: name it by webhooks.secret.namespace in the file of --config, or set POD_NAME, POD_NAMESPACE and POD_UID by the downward API")
	case s.URL != "":
		return Endpoint{URL: s.URL}, nil
	case s.Service.Namespace == "":
		return Endpoint{}, errors.New("the Service by which the API server reaches the host is not known: name it by webhooks.service in the file of --config, or write webhooks.url for a host outside of the cluster")
	}
	return Endpoint{Service: s.Service}, nil
}

// run serves until ctx is done, and then until the requests in progress have ended. Meanwhile
// everything that they need must run.
func (c *capability) run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	keeping, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	running.Go(func() { c.keeper.Run(keeping) })
	running.Go(func() { c.registrar.Run(ctx) })
	return c.server.Run(ctx)
}

// close frees the address of a server that has not run.
func (c *capability) close() {
	if c.server != nil {
		c.server.Close()
	}
}

// expires returns when the certificate expires, the zero time if there is none.
func (c *capability) expires() time.Time {
	if c.keeper == nil {
		return time.Time{}
	}
	return c.keeper.Expires()
}

// registered implements [RegistrarConfig].Plugins.
func (c *capability) registered() []Plugin {
	all, directory := c.plugins.all(), c.directory
	for _, s := range directory.Statuses() {
		policy, known := directory.Policy(s.Name)
		runs := slices.ContainsFunc(all, func(p Plugin) bool { return p.Name == s.Name })
		if !runs && known && SettingsOf(policy) == nil {
			all = append(all, Plugin{Name: s.Name, Leads: func() bool { return directory.Leads(s.Name) }, DryRun: policy.DryRun})
		}
	}
	slices.SortFunc(all, func(a, b Plugin) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// known reports whether the directory has a plugin. Before it was read it might have any.
func (c *capability) known(plugin string) bool {
	_, known := c.directory.Status(plugin)
	return known || !c.directory.Updated()
}

// knownOf implements [Config].Plugin.
func (c *capability) knownOf(plugin string) (Known, bool) {
	s, known := c.directory.Status(plugin)
	if !known {
		return Known{}, false
	}
	k := Known{State: string(s.State), Loading: s.IsLoading(), Controllers: s.Controllers}
	if p := c.plugins.of(plugin); p != nil {
		k.Webhooks = p.Webhooks
	} else if policy, read := c.directory.Policy(plugin); read {
		k.Webhooks = SettingsOf(policy)
	}
	return k, true
}

const (
	notServed     = "its reviews and conversions are not served: start the host with --webhooks-listen"
	notRegistered = "the API server has not been told yet what it reviews or converts"
)

// started is called when a revision of a plugin starts. What is offered and not served is logged.
func (c *capability) started(plugin string, all offers) {
	switch {
	case c.server != nil:
		c.metrics.started(plugin, all)
	case len(all) > 0:
		c.logger.Warn(notServed, "plugin", plugin)
	}
}

// problem returns why the API server does not ask a plugin, "" if it does or need not.
func (c *capability) problem(plugin string) string {
	p := c.plugins.of(plugin)
	offers := p != nil && len(p.Reviewed) > 0
	switch {
	case c.server == nil && offers:
		return notServed
	case c.server == nil:
		return ""
	}
	if problem := expired(c.keeper.Expires(), time.Now(), c.keeper.Err()); offers && problem != "" {
		return problem
	}
	if problem, known := c.registrar.Problem(plugin); known || !offers {
		return problem
	}
	if err := c.certified(); err != nil {
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

// certified returns why there is no certificate yet, nil if there is one, or reviews are not served. A host without
// one is not ready.
func (c *capability) certified() error {
	if c.keeper == nil {
		return nil
	}
	if _, err := c.keeper.Certificate(); err != nil {
		return errors.Join(err, c.keeper.Err())
	}
	return nil
}
