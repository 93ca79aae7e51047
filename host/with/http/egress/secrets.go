package egress

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	contract "github.com/thole-dev/thole/abi/http"
)

// SecretReader reads the data of a Secret with the rights of the plugin's service account.
type SecretReader func(ctx context.Context, ref SecretRef) (map[string][]byte, error)

const (
	// secretAge is for how long a Secret is used without reading it again.
	secretAge = time.Minute
	// secretPause is how long no Secret is read again, whatever the host that it is for
	// answers and however often a plugin asks.
	secretPause = time.Second
)

// secrets are the Secrets of the entries.
type secrets struct {
	read     SecretReader
	now      func() time.Time
	withheld *withheld

	mu   sync.Mutex
	kept map[SecretRef]*secret
}

// secret is a Secret that was read.
type secret struct {
	turn chan struct{} // capacity 1; held by who reads it

	mu         sync.Mutex
	credential *credential // nil if there is an error
	err        error
	at         time.Time // when it was read; zero: never
}

func newSecrets(read SecretReader, now func() time.Time, withheld *withheld) *secrets {
	return &secrets{read: read, now: now, withheld: withheld, kept: map[SecretRef]*secret{}}
}

// get returns a credential that was read at most [secretAge] ago.
func (s *secrets) get(ctx context.Context, ref SecretRef) (*credential, error) {
	return s.of(ref).get(ctx, s, ref, func(age time.Duration, err error) bool {
		return age < secretAge && (err == nil || age < secretPause)
	})
}

// refused returns the credential that the Secret has after a host has refused one, and
// whether it is another.
func (s *secrets) refused(ctx context.Context, ref SecretRef, refused *credential) (*credential, bool) {
	c, err := s.of(ref).get(ctx, s, ref, func(age time.Duration, _ error) bool { return age < secretPause })
	return c, err == nil && c.all != refused.all
}

func (s *secrets) of(ref SecretRef) *secret {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept[ref] == nil {
		s.kept[ref] = &secret{turn: make(chan struct{}, 1)}
	}
	return s.kept[ref]
}

// get returns what was read, unless it is not fresh. One caller at a time reads.
func (k *secret) get(ctx context.Context, s *secrets, ref SecretRef, fresh func(age time.Duration, err error) bool) (*credential, error) {
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	k.mu.Lock()
	c, err, at := k.credential, k.err, k.at
	k.mu.Unlock()
	if !at.IsZero() && fresh(s.now().Sub(at), err) {
		return c, err
	}
	c, err = s.load(ctx, ref)
	if ctx.Err() != nil {
		return nil, ctx.Err() // which says nothing about the Secret
	}
	if c != nil {
		c = s.withheld.add(ref, c)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.credential, k.err, k.at = c, err, s.now()
	return c, err
}

// load reads a Secret. The error is for the log, not for the plugin.
func (s *secrets) load(ctx context.Context, ref SecretRef) (*credential, error) {
	if s.read == nil {
		return nil, fmt.Errorf("the Secret %s/%s cannot be read", ref.Namespace, ref.Name)
	}
	data, err := s.read(ctx, ref)
	switch {
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("the Secret %s/%s cannot be read: %w; thole rbac prints the rights that are needed", ref.Namespace, ref.Name, err)
	case err != nil:
		return nil, fmt.Errorf("the Secret %s/%s cannot be read: %w", ref.Namespace, ref.Name, err)
	}
	c, err := parseCredential(data)
	if err != nil {
		return nil, fmt.Errorf("the Secret %s/%s has no credential: %w", ref.Namespace, ref.Name, err)
	}
	return c, nil
}

// credentialFor returns the credential of a request, nil if its entry has none.
func (c *Client) credentialFor(ctx context.Context, r *rule) (*credential, error) {
	if r.SecretRef == nil {
		return nil, nil
	}
	credential, err := c.secrets.get(ctx, *r.SecretRef)
	if err != nil {
		return nil, c.secretFailure(ctx, r, err)
	}
	return credential, nil
}

// readSecrets reads the Secrets of all entries that were not read yet, so that their credentials are
// withheld from an answer whichever entry it is sent by: the host may have sent them before it was
// restarted, and a server may have several names. Those for the host of the request are read again like
// its own. A Secret that cannot be read is passed over, as the entry of the request does not need it.
func (c *Client) readSecrets(ctx context.Context, t target) {
	for _, r := range c.rules {
		if r.SecretRef != nil && (r.hosts.matchesHost(t) || !c.secrets.withheld.has(*r.SecretRef)) {
			_, _ = c.secrets.get(ctx, *r.SecretRef)
		}
	}
}

// secretFailure returns what a plugin gets if a Secret cannot be used: not its name, nor what the
// API server has answered, which the log has.
func (c *Client) secretFailure(ctx context.Context, r *rule, err error) error {
	if ctx.Err() != nil {
		return failed(contract.Timeout, "the credential of the host could not be read in time")
	}
	c.config.Logger.Warn("a request of the plugin was not sent: the credential of its host is missing", "host", r.Host, "error", err)
	return failed(contract.Credential, "the credential of the host cannot be read; the host's log has the reason")
}
