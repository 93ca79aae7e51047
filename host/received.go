package host

import (
	"net/http"
	"slices"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/thole-dev/thole/host/access"
	"github.com/thole-dev/thole/host/catalog"
	"github.com/thole-dev/thole/host/receive"
)

// What a caller may do is believed for a moment: it sends its events one after the other.
const (
	callerAllowedFor = 10 * time.Second
	callerDeniedFor  = 2 * time.Second
	// callerAnswers bounds what is remembered of the rights of each caller.
	callerAnswers = 1024
)

// newReceived returns what serves events from outside: it joins host/receive to runner and catalog.
func newReceived(h *Host, client *kubernetes.Clientset) http.Handler {
	return receive.New(receive.Config{
		Receivers: h.runner.Receivers,
		Starting:  h.isStarting,
		Tokens:    client.AuthenticationV1(),
		Access:    access.New(access.Config{Client: client.AuthorizationV1(), AllowedFor: callerAllowedFor, DeniedFor: callerDeniedFor, MaxAnswers: callerAnswers}),
		Audiences: h.config.Events.Audiences,
		Metrics:   h.metrics.Received(receive.Codes()),
		Logger:    h.logger.Named("receive"),
	})
}

// isStarting reports whether a plugin is being loaded, started again or stopped with the host, or it is
// not known yet which there are.
func (h *Host) isStarting() bool {
	return !h.catalog.Updated() || awaited(h.catalog.Statuses(), h.runner.KnowsReceivers)
}

// awaited reports whether there is a plugin that is about to run. One that is started again, because of a
// change of its kinds for example, keeps its state meanwhile.
func awaited(all []catalog.Status, runs func(plugin string) bool) bool {
	return slices.ContainsFunc(all, func(s catalog.Status) bool {
		return s.State == catalog.Loading || (s.State == catalog.Running || s.State == catalog.Degraded) && !runs(s.Name)
	})
}
