package cache

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

const (
	// A known kind is looked up again after discoveryTTL, because its CRD may
	// have got a status subresource, and after a response 404 of its resource.
	discoveryTTL = 10 * time.Minute
	// An unknown kind is looked up at most once per unknownTTL, whatever the
	// number of callers that wait for it.
	unknownTTL = time.Second
	// discoveryTimeout is the timeout of one request.
	discoveryTimeout = 30 * time.Second
)

// served describes how the API server serves a kind.
type served struct {
	object.Resource
	verbs []string
}

// discovery maps kinds to resources. It requests the API versions that are
// used, one at a time, and caches the responses.
type discovery struct {
	ctx    context.Context //nolint:containedctx // ends with the cache
	client rest.Interface
	clock  clock.PassiveClock
	flight singleflight.Group

	mu       sync.Mutex
	versions map[string]apiVersion      // by apiVersion
	others   map[abi.Kind]otherVersions // of kinds that are not served in their own
}

// otherVersions are the versions in which a kind is served that was looked up in another one.
type otherVersions struct {
	versions []string
	fetched  time.Time
}

// apiVersion holds the kinds of one group and version. It is immutable.
type apiVersion struct {
	kinds   map[string]served // by kind; missing ones are not served
	fetched time.Time
}

func newDiscovery(ctx context.Context, client rest.Interface, clock clock.PassiveClock) *discovery {
	return &discovery{ctx: ctx, client: client, clock: clock, versions: map[string]apiVersion{}, others: map[abi.Kind]otherVersions{}}
}

// find returns the resource of a kind. While the API server does not respond, a
// kind that was found before is returned from the cache.
func (d *discovery) find(ctx context.Context, kind abi.Kind) (served, error) {
	known := d.cached(kind.APIVersion)
	s, ok := known.kinds[kind.Kind]
	ttl := unknownTTL
	if ok {
		ttl = discoveryTTL
	}
	if d.clock.Since(known.fetched) >= ttl {
		switch current, err := d.refresh(ctx, kind.APIVersion); {
		case err == nil:
			s, ok = current.kinds[kind.Kind]
		case !ok:
			return s, fmt.Errorf("look up %s: %w", kind, err)
		}
	}
	if !ok {
		return s, &object.UnknownKindError{Kind: kind, Versions: d.otherVersions(ctx, kind)}
	}
	return s, nil
}

// otherVersions returns the versions in which the API server serves a kind that it does not serve in that of
// kind, the preferred one first. They are looked up at most once per unknownTTL.
func (d *discovery) otherVersions(ctx context.Context, kind abi.Kind) []string {
	d.mu.Lock()
	known := d.others[kind]
	d.mu.Unlock()
	if d.clock.Since(known.fetched) < unknownTTL {
		return known.versions
	}
	known = otherVersions{d.fetchOthers(ctx, kind), d.clock.Now()}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.others[kind] = known
	return known.versions
}

// fetchOthers is otherVersions of the API server. What cannot be found out is left out: it is for a message.
func (d *discovery) fetchOthers(ctx context.Context, kind abi.Kind) (versions []string) {
	var group metav1.APIGroup
	body, err := d.client.Get().AbsPath("/apis", kind.Group()).Do(ctx).Raw()
	if err != nil || kind.Group() == "" || json.Unmarshal(body, &group) != nil {
		return nil
	}
	for _, v := range group.Versions {
		if v.GroupVersion == kind.APIVersion {
			continue
		}
		if known, err := d.refresh(ctx, v.GroupVersion); err == nil {
			if _, served := known.kinds[kind.Kind]; served {
				versions = append(versions, v.Version)
			}
		}
	}
	return versions
}

// cached returns the last response for an API version; the zero value, which is
// too old to be used, if there was none.
func (d *discovery) cached(version string) apiVersion {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.versions[version]
}

// invalidate makes the next find of the API version send a request.
func (d *discovery) invalidate(version string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.versions, version)
}

// refresh sends one request for all concurrent callers.
func (d *discovery) refresh(ctx context.Context, version string) (apiVersion, error) {
	result := d.flight.DoChan(version, func() (any, error) {
		ctx, cancel := context.WithTimeout(d.ctx, discoveryTimeout)
		defer cancel()
		kinds, err := d.fetch(ctx, version)
		if err != nil {
			return apiVersion{}, err
		}
		v := apiVersion{kinds: kinds, fetched: d.clock.Now()}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.versions[version] = v
		return v, nil
	})
	select {
	case r := <-result:
		return r.Val.(apiVersion), r.Err
	case <-ctx.Done():
		return apiVersion{}, context.Cause(ctx)
	}
}

func (d *discovery) fetch(ctx context.Context, version string) (map[string]served, error) {
	gv, err := schema.ParseGroupVersion(version)
	if err != nil {
		return nil, err
	}
	result := d.client.Get().AbsPath(object.APIPath(gv)...).Do(ctx)
	switch err := result.Error(); { // decodes the server's Status, which Raw does not
	case apierrors.IsNotFound(err): // no kind of this group and version is installed
		return nil, nil
	case err != nil:
		return nil, err
	}
	body, err := result.Raw()
	if err != nil {
		return nil, err
	}
	var list metav1.APIResourceList
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, err
	}
	return readResources(gv, list.APIResources), nil
}

// readResources returns the kinds of a response of the discovery API. Names
// with a slash are those of subresources.
func readResources(gv schema.GroupVersion, list []metav1.APIResource) map[string]served {
	status := map[string][]string{}
	for _, r := range list {
		if name, ok := strings.CutSuffix(r.Name, "/status"); ok {
			status[name] = r.Verbs
		}
	}
	kinds := map[string]served{}
	for _, r := range list {
		if strings.Contains(r.Name, "/") {
			continue
		}
		s := served{verbs: r.Verbs}
		s.Resource = object.Resource{
			Kind:       abi.Kind{APIVersion: gv.String(), Kind: r.Kind},
			GVR:        gv.WithResource(r.Name),
			Namespaced: r.Namespaced,
			Status:     slices.Contains(status[r.Name], "patch"),
			Polled:     s.listed() && !slices.Contains(r.Verbs, "watch"),
		}
		s.ReadOnly = s.Polled && !slices.Contains(r.Verbs, "patch")
		if before, twice := kinds[r.Kind]; !twice || s.isBetterThan(before) {
			kinds[r.Kind] = s
		}
	}
	return kinds
}

// isBetterThan reports whether an informer can follow the kind by this resource, and not, or
// not as well, by another one of the kind.
func (s served) isBetterThan(other served) bool {
	if s.listed() != other.listed() {
		return s.listed()
	}
	return other.Polled && !s.Polled
}

func (s served) listed() bool { return slices.Contains(s.verbs, "list") }

const (
	// pingTimeout is less than the second that a kubelet grants a probe.
	pingTimeout = 900 * time.Millisecond
	// reachableFor is how long a response counts, unreachableFor how long its
	// absence.
	reachableFor   = 5 * time.Second
	unreachableFor = time.Second
)

// ping remembers whether the API server has responded.
type ping struct {
	mu    sync.Mutex
	err   error
	until time.Time // err counts until then
}

// Reachable returns nil if the API server has responded within the last seconds.
// It may block for 0.9 s.
func (c *Cache) Reachable() error {
	p := &c.ping
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Now().Before(p.until) {
		return p.err
	}
	ctx, cancel := context.WithTimeout(c.ctx, pingTimeout)
	defer cancel()
	counts := reachableFor
	if _, p.err = c.discovery.client.Get().AbsPath("/version").DoRaw(ctx); p.err != nil {
		counts = unreachableFor
	}
	p.until = time.Now().Add(counts)
	return p.err
}
