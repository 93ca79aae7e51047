package certificates

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"

	"github.com/thole-dev/thole/host/internal/explain"
	"github.com/thole-dev/thole/host/kube"
)

// KeeperConfig configures a [Keeper].
type KeeperConfig struct {
	Secrets   kube.Secrets // of the namespace
	Namespace string       // of the Secret
	Name      string
	Hosts     []string // DNS names and IP addresses by which clients reach the host
	Validity  time.Duration
	// Arrived reports whether all clients have a bundle: the API server, wherever it needs one. If that
	// is never known, the next certificate is served when nine tenths of the life of the one before are over.
	Arrived func(ctx context.Context, bundle []byte) bool
	// Changed is called when there is another bundle. It must not block.
	Changed func()
	DryRun  bool // nothing is stored: the certificate is this replica's alone
	Logger  hclog.Logger
}

// Keeper keeps the certificates of the host in a Secret, which all replicas share: each of them
// reads it, and may take the next step of a rotation. The resourceVersion keeps two from taking
// different ones.
type Keeper struct {
	KeeperConfig

	mu      sync.Mutex
	current *certificates // nil: they were not read yet
	err     error         // why they could not be read or written last
}

// NewKeeper returns a keeper that has no certificate before [Keeper.Run].
func NewKeeper(c KeeperConfig) *Keeper { return &Keeper{KeeperConfig: c} }

// The data of the Secret. The first two are those of its type.
const (
	keyCertificate     = corev1.TLSCertKey
	keyPrivate         = corev1.TLSPrivateKeyKey
	keyBundle          = "ca.crt"
	keyNextCertificate = "next.crt"
	keyNextPrivate     = "next.key"
)

const (
	// labelManagedBy and managedBy are a label of the Secret.
	labelManagedBy = "app.kubernetes.io/managed-by"
	managedBy      = "thole"
	// fieldManager is that of the Secret.
	fieldManager = "thole-certificates"
)

// Certificate returns the one to serve.
func (k *Keeper) Certificate() (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.current == nil {
		return nil, errors.New("there is no certificate yet: the log of the host states why")
	}
	return &k.current.now.tls, nil
}

// Bundle returns the authorities that clients are to trust, nil if there are none yet.
func (k *Keeper) Bundle() []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.current == nil {
		return nil
	}
	return k.current.bundle
}

// Expires returns when the certificate that is served expires; zero if there is none.
func (k *Keeper) Expires() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.current == nil {
		return time.Time{}
	}
	return k.current.now.leaf.NotAfter
}

// Err returns why there is no certificate, or why the Secret could not be read or written last.
func (k *Keeper) Err() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.err
}

// Run keeps the certificates until ctx is done.
func (k *Keeper) Run(ctx context.Context) {
	pause := min(max(k.Validity/200, 50*time.Millisecond), time.Minute)
	for ctx.Err() == nil {
		wait := pause
		if err := k.step(ctx); k.report(ctx, err) {
			wait = min(pause, 2*time.Second)
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// report records and logs an error, once. It returns whether another attempt is to come soon.
func (k *Keeper) report(ctx context.Context, err error) (again bool) {
	if ctx.Err() != nil {
		return false
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) { // another replica was faster
		return true
	}
	if err != nil {
		err = explain.Forbidden(err)
	}
	k.mu.Lock()
	news := fmt.Sprint(err) != fmt.Sprint(k.err)
	k.err = err
	k.mu.Unlock()
	if news && err != nil {
		k.Logger.Error("cannot keep the certificates of the host; trying again", "secret", k.Namespace+"/"+k.Name, "error", err)
	}
	return err != nil
}

// step reads the Secret, and takes the next step of a rotation.
func (k *Keeper) step(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	secret, err := k.Secrets.Get(ctx, k.Name, metav1.GetOptions{})
	exists := err == nil
	switch {
	case apierrors.IsNotFound(err):
		secret = &corev1.Secret{Type: corev1.SecretTypeTLS}
		secret.Namespace, secret.Name = k.Namespace, k.Name
	case err != nil:
		return err
	case len(secret.Data) > 0 && secret.Labels[labelManagedBy] != managedBy:
		return fmt.Errorf("the Secret is somebody else's, without the label %s: %s: name another one in the file of --config", labelManagedBy, managedBy)
	}
	stored, err := certificatesOf(secret)
	if err != nil {
		k.Logger.Warn("the Secret of the certificates is damaged, and is written anew", "secret", k.Namespace+"/"+k.Name, "error", err)
	}
	w, now := wanted{k.Hosts, k.Validity}, time.Now()
	k.mu.Lock()
	served := k.current
	k.mu.Unlock()
	next, done, err := stored.keep(served, w, now).advance(w, now, func(bundle []byte) bool { return k.Arrived(ctx, bundle) })
	if err != nil {
		return err
	}
	if data := next.data(); !maps.EqualFunc(data, secret.Data, bytes.Equal) {
		if err := k.write(ctx, secret, exists, data); err != nil {
			return err
		}
		k.logStep(done, next)
	}
	k.use(next)
	return nil
}

// logStep logs what was written.
func (k *Keeper) logStep(done string, next *certificates) {
	if done == "" && k.DryRun {
		return // what is not stored is made again in each step
	}
	k.Logger.Info("certificate of the host: "+cmp.Or(done, "the Secret was written again"), "secret", k.Namespace+"/"+k.Name, "expires", next.now.leaf.NotAfter.Format(time.RFC3339))
}

func (k *Keeper) write(ctx context.Context, secret *corev1.Secret, exists bool, data map[string][]byte) (err error) {
	if k.DryRun {
		return nil
	}
	secret.Data = data
	if secret.Labels == nil {
		secret.Labels = map[string]string{}
	}
	secret.Labels["app.kubernetes.io/name"], secret.Labels[labelManagedBy] = "thole", managedBy
	if exists {
		_, err = k.Secrets.Update(ctx, secret, metav1.UpdateOptions{FieldManager: fieldManager})
	} else {
		_, err = k.Secrets.Create(ctx, secret, metav1.CreateOptions{FieldManager: fieldManager})
	}
	return err
}

// use makes certificates those of this replica, once they are in the Secret.
func (k *Keeper) use(next *certificates) {
	k.mu.Lock()
	changed := k.current == nil || !bytes.Equal(k.current.bundle, next.bundle)
	k.current = next
	k.mu.Unlock()
	if changed {
		k.Changed()
	}
}

// certificatesOf returns what a Secret has, nil if it has nothing that could be served.
func certificatesOf(secret *corev1.Secret) (*certificates, error) {
	if len(secret.Data[keyCertificate]) == 0 {
		return nil, nil
	}
	now, err := parsePair(secret.Data[keyCertificate], secret.Data[keyPrivate])
	if err != nil {
		return nil, err
	}
	c := &certificates{now: now, bundle: secret.Data[keyBundle]}
	if len(secret.Data[keyNextCertificate]) > 0 {
		if c.next, err = parsePair(secret.Data[keyNextCertificate], secret.Data[keyNextPrivate]); err != nil {
			return nil, err
		}
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	return c, nil
}

// check returns an error if the bundle is not valid, or does not have the authorities of the
// certificates: whoever trusts it would refuse them.
func (c *certificates) check() error {
	if _, err := cert.ParseCertsPEM(c.bundle); err != nil { // AppendCertsFromPEM passes over what is none
		return fmt.Errorf("%s: %w", keyBundle, err)
	}
	for _, p := range []*pair{c.now, c.next} {
		if p != nil && !p.isTrustedBy(c.bundle) {
			return errors.New(keyBundle + " does not have the authority of a certificate")
		}
	}
	return nil
}

func (c *certificates) data() map[string][]byte {
	data := map[string][]byte{keyCertificate: c.now.certificate, keyPrivate: c.now.key, keyBundle: c.bundle}
	if c.next != nil {
		data[keyNextCertificate], data[keyNextPrivate] = c.next.certificate, c.next.key
	}
	return data
}
