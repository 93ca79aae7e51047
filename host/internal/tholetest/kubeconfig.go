package tholetest

import (
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Kubeconfig writes a kubeconfig and returns its path.
func Kubeconfig(tb testing.TB, cluster clientcmdapi.Cluster, user clientcmdapi.AuthInfo) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "kubeconfig")
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": &cluster},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"a": &user},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "a"}},
		CurrentContext: "x",
	}, path)
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

// Server returns the API server of a configuration, for a kubeconfig. If address
// is not empty, the server is reached there instead.
func Server(config *rest.Config, address string) clientcmdapi.Cluster {
	c := clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	if address != "" {
		c.Server, c.TLSServerName = "https://"+address, "127.0.0.1"
	}
	return c
}

// User returns the client certificate of a configuration, for a kubeconfig.
func User(config *rest.Config) clientcmdapi.AuthInfo {
	return clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}
}
