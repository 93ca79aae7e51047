package egress

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/thole-dev/thole/host/kube"
	"github.com/thole-dev/thole/host/rights"
)

// NewSecretReader returns what reads Secrets as a service account, or as the host if there is none.
func NewSecretReader(cluster *rest.Config, account rights.Account, userAgent string) (SecretReader, error) {
	config := rest.CopyConfig(cluster)
	config.UserAgent = userAgent
	config.RateLimiter, config.QPS = nil, -1 // see secretPause
	if account != (rights.Account{}) {
		config.Impersonate = rest.ImpersonationConfig{UserName: account.User()} // without groups: see effect.newClient
	}
	clients, err := kube.New(config)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, ref SecretRef) (map[string][]byte, error) {
		secret, err := clients.Secrets(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return secret.Data, nil
	}, nil
}
