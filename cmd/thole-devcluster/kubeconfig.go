package main

import (
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/thole-dev/thole/cmd/thole-devcluster/internal/atomicfile"
	"github.com/thole-dev/thole/cmd/thole-devcluster/internal/pki"
)

// writeKubeconfig writes how user, a pair in pkiDir, reaches the server. The
// file holds the key itself, so that it works from anywhere.
func writeKubeconfig(path, server, pkiDir, user string) error {
	var failed error
	read := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join(pkiDir, name))
		if err != nil && failed == nil {
			failed = err
		}
		return data
	}
	const name = "thole-devcluster"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{
		Server:                   server,
		CertificateAuthorityData: read(pki.CertFile(pki.Authority)),
	}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{
		ClientCertificateData: read(pki.CertFile(user)),
		ClientKeyData:         read(pki.KeyFile(user)),
	}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: user}
	config.CurrentContext = name
	if failed != nil {
		return fmt.Errorf("make kubeconfig: %w", failed)
	}
	data, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("make kubeconfig: %w", err)
	}
	return atomicfile.Write(path, data, 0o600)
}
