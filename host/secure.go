package host

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"

	"github.com/thole-dev/thole/host/access"
	"github.com/thole-dev/thole/host/certificates"
	"github.com/thole-dev/thole/host/kube"
	"github.com/thole-dev/thole/host/serve"
)

// secure protects what the server serves: it joins host/access and host/certificates to host/serve. It is
// nil if everything is served to everybody.
type secure struct {
	h       *Host
	viewers *access.Viewers
	keeper  *certificates.Keeper // nil outside of a pod
	own     *tls.Certificate     // while the keeper has none
	asked   rate.Sometimes       // limits what is logged
}

// metricsValidity is that of the certificate.
const metricsValidity = 90 * 24 * time.Hour

func newSecure(h *Host, clients *kube.Clients, pod *corev1.ObjectReference) (*secure, error) {
	c := h.config.Metrics
	if !*c.Secure {
		return nil, nil
	}
	s := &secure{
		h: h,
		viewers: access.NewViewers(access.NewTokens(access.TokensConfig{Reviews: clients.TokenReviews}),
			access.New(access.OfCallers(clients.AccessReviews))),
		asked: rate.Sometimes{First: 1, Interval: 10 * time.Second},
	}
	names := []string{"localhost", "127.0.0.1", "::1"}
	if pod != nil {
		service := c.Service + "." + pod.Namespace
		names = append([]string{c.Service, service, service + ".svc"}, names...)
		s.keeper = certificates.NewKeeper(certificates.KeeperConfig{
			Secrets: clients.Secrets(pod.Namespace), Namespace: pod.Namespace, Name: c.Secret, Hosts: names, Validity: metricsValidity,
			// Who verifies it does not tell: they have from two thirds to nine tenths of its life to read the
			// next authority.
			Arrived: func(context.Context, []byte) bool { return false }, Changed: func() {},
			DryRun: h.config.DryRun, Logger: h.logger.Named("serve"),
		})
	}
	var err error
	if s.own, _, err = certificates.SelfSigned(names, 10*365*24*time.Hour); err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	return s, nil
}

// run keeps the certificate until ctx is done.
func (s *secure) run(ctx context.Context) {
	if s != nil && s.keeper != nil {
		s.keeper.Run(ctx)
	}
}

// serve returns what the server asks, nil if it is to ask nothing.
func (s *secure) serve() *serve.Secure {
	if s == nil {
		return nil
	}
	return &serve.Secure{Certificate: s.certificate, Authorize: s.authorize}
}

// certificate returns the one to serve. Probes are to be answered even if the Secret cannot be read: then
// it is one that nobody knows, and that the kubelet does not verify.
func (s *secure) certificate() (*tls.Certificate, error) {
	if s.keeper != nil {
		if kept, err := s.keeper.Certificate(); err == nil {
			return kept, nil
		}
	}
	return s.own, nil
}

// authorize implements [serve.Secure].Authorize.
func (s *secure) authorize(ctx context.Context, from, token, path string) (status int, why string) {
	caller, allowed, err := s.viewers.MayGet(ctx, from, token, path)
	switch {
	case errors.Is(err, access.ErrAsking), access.TooOften(err):
		return http.StatusServiceUnavailable, err.Error()
	case err != nil:
		s.asked.Do(func() {
			s.h.logger.Named("serve").Warn("who sends a request, or what they may get, is not known", "path", path, "error", err)
		})
		return http.StatusServiceUnavailable, "the API server cannot be asked who you are, or what you may get: the log of the host states why"
	case caller == nil:
		return http.StatusUnauthorized, "the token is not valid: make one with kubectl create token NAME"
	case !allowed:
		return http.StatusForbidden, fmt.Sprintf("%s may not get %s: a ClusterRole with nonResourceURLs: [%s] and the verb get allows it", caller.Name(), path, path)
	}
	return http.StatusOK, ""
}
