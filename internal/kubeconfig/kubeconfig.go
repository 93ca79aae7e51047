// Package kubeconfig reads kubeconfigs.
package kubeconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// Load returns how to reach the cluster of the current context of a kubeconfig. A
// file without one is an error: client-go would look for another cluster.
func Load(path string) (*rest.Config, error) {
	config, _, err := LoadContext(path)
	return config, err
}

// LoadContext is Load, and also returns the namespace of the current context.
func LoadContext(path string) (config *rest.Config, namespace string, err error) {
	if config, namespace, err = load(path); err != nil {
		return nil, "", fmt.Errorf("read kubeconfig %s: %w", path, withoutPath(err))
	}
	return config, namespace, nil
}

func load(path string) (*rest.Config, string, error) {
	file, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return nil, "", err
	}
	if err := check(file, path); err != nil {
		return nil, "", err
	}
	if err := clientcmd.ResolveLocalPaths(file); err != nil {
		return nil, "", err
	}
	loader := clientcmd.NewDefaultClientConfig(*file, nil)
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, "", err
	}
	if _, _, err := rest.DefaultServerUrlFor(config); err != nil {
		return nil, "", fmt.Errorf("server: %q is not an address such as https://host:6443", config.Host)
	}
	namespace, _, err := loader.Namespace()
	return config, namespace, err
}

func check(file *api.Config, path string) error {
	contexts := strings.Join(slices.Sorted(maps.Keys(file.Contexts)), ", ")
	current := file.Contexts[file.CurrentContext]
	switch {
	case contexts == "":
		return errors.New("it has no context: name a file as `kubectl config view --raw` prints it")
	case file.CurrentContext == "":
		return fmt.Errorf("it has no current context: choose one of %s by `kubectl config use-context NAME --kubeconfig %s`", contexts, path)
	case current == nil:
		return fmt.Errorf("its current context %q is not one of %s: choose one of them by `kubectl config use-context NAME --kubeconfig %s`", file.CurrentContext, contexts, path)
	case file.Clusters[current.Cluster] == nil || file.Clusters[current.Cluster].Server == "":
		return fmt.Errorf("its current context %q has the cluster %q, which has no server", file.CurrentContext, current.Cluster)
	}
	return nil
}

// withoutPath returns an error of the file system without its path, which the caller
// adds.
func withoutPath(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
