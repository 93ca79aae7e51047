package lastgood

import (
	"bytes"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/thole-dev/thole/host/kube"
)

// Secrets have a module of each plugin in one Secret. Only the replica that leads a plugin may call
// Write for it.
type Secrets struct {
	Client    kube.Secrets // of the namespace
	Namespace string
	Prefix    string // of their names, which end with the name of the plugin
	MaxModule int64  // bytes; what takes more is none of the host's
}

const (
	keyModule      = "module.wasm.gz"
	labelManagedBy = "app.kubernetes.io/managed-by"
	managedBy      = "thole"
	fieldManager   = "thole-last-good"
)

// Name returns the name of the Secret of a plugin.
func (s Secrets) Name(plugin string) string { return s.Prefix + plugin }

// Write makes a module that of a plugin. It sends no write if it is already.
func (s Secrets) Write(ctx context.Context, plugin string, p Packed) error {
	if err := p.FitsSecret(); err != nil {
		return err
	}
	secret, err := s.get(ctx, plugin)
	switch {
	case apierrors.IsNotFound(err):
		secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name(plugin)}}
		secret.Labels = map[string]string{"app.kubernetes.io/name": "thole", labelManagedBy: managedBy}
		secret.Data = map[string][]byte{keyModule: p}
		_, err = s.Client.Create(ctx, secret, metav1.CreateOptions{FieldManager: fieldManager})
		return err
	case err != nil:
		return err
	case bytes.Equal(secret.Data[keyModule], p):
		return nil
	}
	secret.Data = map[string][]byte{keyModule: p}
	_, err = s.Client.Update(ctx, secret, metav1.UpdateOptions{FieldManager: fieldManager})
	return err
}

// Read returns the module of a plugin if it has that digest. The error is an [ErrNotKept] if it has
// not.
func (s Secrets) Read(ctx context.Context, plugin, digest string) ([]byte, error) {
	secret, err := s.get(ctx, plugin)
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("%w: %w", ErrNotKept, err)
	case err != nil:
		return nil, err
	}
	return Packed(secret.Data[keyModule]).module(digest, s.MaxModule)
}

// get returns the Secret of a plugin, unless it is somebody else's.
func (s Secrets) get(ctx context.Context, plugin string) (*corev1.Secret, error) {
	secret, err := s.Client.Get(ctx, s.Name(plugin), metav1.GetOptions{})
	if err == nil && secret.Labels[labelManagedBy] != managedBy {
		return nil, fmt.Errorf("the Secret %s/%s is somebody else's, without the label %s: %s: delete it, or choose another resourceName of leaderElection", s.Namespace, secret.Name, labelManagedBy, managedBy)
	}
	return secret, err
}
