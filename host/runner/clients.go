package runner

import (
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

// Clients are the typed clients of a host, one for each API group that it needs. The clientset of client-go, with
// clients of all groups, would be the largest part of the program.
type Clients struct {
	Core           coreclient.CoreV1Interface
	Coordination   coordinationclient.CoordinationV1Interface
	Authentication authenticationclient.AuthenticationV1Interface
	Authorization  authorizationclient.AuthorizationV1Interface
}

// NewClients returns clients that share their connections.
func NewClients(config *rest.Config) (c Clients, err error) {
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		return Clients{}, err
	}
	if c.Core, err = coreclient.NewForConfigAndClient(config, transport); err != nil {
		return Clients{}, err
	}
	if c.Coordination, err = coordinationclient.NewForConfigAndClient(config, transport); err != nil {
		return Clients{}, err
	}
	if c.Authentication, err = authenticationclient.NewForConfigAndClient(config, transport); err != nil {
		return Clients{}, err
	}
	c.Authorization, err = authorizationclient.NewForConfigAndClient(config, transport)
	return c, err
}
