// Package kubeconfig reads how to reach a cluster.
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

// Load reads a kubeconfig and returns how to reach the cluster of its current
// context. A file that names none is an error: client-go would look for
// another cluster.
func Load(path string) (*rest.Config, error) {
	file, err := clientcmd.LoadFromFile(path)
	if err == nil {
		err = check(file, path)
	}
	var config *rest.Config
	if err == nil {
		config, err = clientcmd.BuildConfigFromFlags("", path)
	}
	if err == nil {
		if _, _, invalid := rest.DefaultServerUrlFor(config); invalid != nil {
			err = fmt.Errorf("its server %q is no address such as https://host:6443", config.Host)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %s: %w", path, bare(err))
	}
	return config, nil
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
		return fmt.Errorf("its current context %q is none of %s: choose one of them by `kubectl config use-context NAME --kubeconfig %s`", file.CurrentContext, contexts, path)
	case file.Clusters[current.Cluster] == nil || file.Clusters[current.Cluster].Server == "":
		return fmt.Errorf("its current context %q is of cluster %q, of which it names no server", file.CurrentContext, current.Cluster)
	}
	return nil
}

// bare is an error of the file system without the path, which is told anyway.
func bare(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
