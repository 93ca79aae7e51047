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
	// A known kind is looked up again after discoveryTTL, since its CRD may
	// have gained /status, and at once when its resource answers 404.
	discoveryTTL = 10 * time.Minute
	// An unknown kind is asked for at most once per unknownTTL, however many
	// callers wait for it.
	unknownTTL = time.Second
	// discoveryTimeout bounds one request.
	discoveryTimeout = 30 * time.Second
)

// served is a kind as the API server serves it.
type served struct {
	object.Resource
	missing string // "" or the verb that an informer would need
}

// discovery maps kinds to resources. It asks for one API version at a time,
// the ones that are used, and remembers the answer.
type discovery struct {
	ctx    context.Context //nolint:containedctx // ends with the cache
	client rest.Interface
	clock  clock.PassiveClock
	flight singleflight.Group

	mu       sync.Mutex
	versions map[string]apiVersion // by apiVersion
}

// apiVersion is what one group and version serves; it is not changed.
type apiVersion struct {
	kinds map[string]served
	asked time.Time
}

func newDiscovery(ctx context.Context, client rest.Interface, clock clock.PassiveClock) *discovery {
	return &discovery{ctx: ctx, client: client, clock: clock, versions: map[string]apiVersion{}}
}

// find returns the resource of a kind. While the API server cannot be asked, a
// kind that was known stays known.
func (d *discovery) find(ctx context.Context, kind abi.Kind) (served, error) {
	known, fresh := d.recall(kind.APIVersion)
	s, ok := known.kinds[kind.Kind]
	if age := d.clock.Since(known.asked); fresh && (ok && age < discoveryTTL || !ok && age < unknownTTL) {
		return s, unknownUnless(ok, kind)
	}
	asked, err := d.ask(ctx, kind.APIVersion)
	if err != nil {
		if ok {
			return s, nil
		}
		return served{}, fmt.Errorf("look up %s: %w", kind, err)
	}
	s, ok = asked.kinds[kind.Kind]
	return s, unknownUnless(ok, kind)
}

func unknownUnless(ok bool, kind abi.Kind) error {
	if ok {
		return nil
	}
	return &UnknownKindError{Kind: kind}
}

func (d *discovery) recall(version string) (apiVersion, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	known, ok := d.versions[version]
	return known, ok
}

// invalidate makes the next find of the API version ask.
func (d *discovery) invalidate(version string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.versions, version)
}

// ask asks the API server once for all who want to know at the same time.
func (d *discovery) ask(ctx context.Context, version string) (apiVersion, error) {
	answer := d.flight.DoChan(version, func() (any, error) {
		ctx, cancel := context.WithTimeout(d.ctx, discoveryTimeout)
		defer cancel()
		kinds, err := d.fetch(ctx, version)
		if err != nil {
			return apiVersion{}, err
		}
		v := apiVersion{kinds: kinds, asked: d.clock.Now()}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.versions[version] = v
		return v, nil
	})
	select {
	case a := <-answer:
		return a.Val.(apiVersion), a.Err
	case <-ctx.Done():
		return apiVersion{}, context.Cause(ctx)
	}
}

func (d *discovery) fetch(ctx context.Context, version string) (map[string]served, error) {
	gv, err := schema.ParseGroupVersion(version)
	if err != nil {
		return nil, err
	}
	path := []string{"/apis", gv.Group, gv.Version}
	if gv.Group == "" {
		path = []string{"/api", gv.Version}
	}
	result := d.client.Get().AbsPath(path...).Do(ctx)
	if apierrors.IsNotFound(result.Error()) {
		return nil, nil // no kind of this group and version is installed
	}
	if err := result.Error(); err != nil {
		return nil, err
	}
	body, _ := result.Raw()
	var list metav1.APIResourceList
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("read discovery of %s: %w", version, err)
	}
	return readResources(gv, list.APIResources), nil
}

// readResources turns an answer of the discovery API into kinds. Entries with
// a slash are subresources.
func readResources(gv schema.GroupVersion, list []metav1.APIResource) map[string]served {
	hasStatus := map[string]bool{}
	for _, r := range list {
		if resource, ok := strings.CutSuffix(r.Name, "/status"); ok {
			hasStatus[resource] = true
		}
	}
	kinds := map[string]served{}
	for _, r := range list {
		if strings.Contains(r.Name, "/") {
			continue
		}
		s := served{missing: missingVerb(r.Verbs)}
		s.Resource = object.Resource{
			Kind:       abi.Kind{APIVersion: gv.String(), Kind: r.Kind},
			GVR:        gv.WithResource(r.Name),
			Namespaced: r.Namespaced,
			Status:     hasStatus[r.Name],
		}
		if before, twice := kinds[r.Kind]; !twice || before.missing != "" {
			kinds[r.Kind] = s
		}
	}
	return kinds
}

func missingVerb(verbs []string) string {
	for _, verb := range []string{"list", "watch"} {
		if !slices.Contains(verbs, verb) {
			return verb
		}
	}
	return ""
}
