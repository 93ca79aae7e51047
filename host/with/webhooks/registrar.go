package webhooks

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/thole-dev/thole/host/certificates"
	"github.com/thole-dev/thole/host/internal/explain"
)

// RegistrarConfig configures a [Registrar].
type RegistrarConfig struct {
	Client    dynamic.Interface
	Endpoint  Endpoint
	Host      string // what tells this host from others: the Secret of its certificates
	Namespace string // of that Secret, and so of the host
	// Bundle returns the authorities that the API server is to trust, nil if there are none yet.
	Bundle func() []byte
	// Plugins returns the plugins that run, and those whose policy allows them no webhooks, in the
	// order of their names.
	Plugins func() []Plugin
	// Known reports whether there is a plugin, in whatever state, and KnownToOthers whether
	// another replica leads it.
	Known         func(plugin string) bool
	KnownToOthers func(plugin string) bool
	Logger        hclog.Logger
}

// Registrar tells the API server what the plugins that this replica leads review and convert, and
// keeps it as it is to be. What is there is followed by watches, and looked at once in a
// [resyncEvery] besides.
type Registrar struct {
	RegistrarConfig
	label  string
	stores map[schema.GroupVersionResource]cache.Store // of webhook configurations with the label
	synced []cache.InformerSynced
	kicked chan struct{} // capacity 1

	// Of the goroutine of Run.
	written  map[target]*written
	led      map[string]bool      // plugins for which this replica has written something
	missing  map[string]time.Time // since when plugins are not known that have something
	watching map[string]context.CancelFunc

	mu       sync.Mutex
	changed  map[string]bool   // CustomResourceDefinitions of which an event has come
	problems map[string]string // "" for a plugin without any
}

// written is what was written last.
type written struct {
	text    string // what was applied last, or was to be; "" if it is to be deleted
	version string // the resourceVersion that it has since
	at      time.Time
	failed  int       // attempts in a row
	again   time.Time // not before that
}

const (
	lookEvery   = time.Second
	resyncEvery = 10 * time.Minute
	// repairPause is between two writes of the same: somebody may undo each of them at once.
	repairPause = time.Second
	maxPause    = time.Minute // between attempts that fail
	// goneAfter is longer than the directories of replicas differ as a rule, and short for those
	// whose requests fail until the webhook of a plugin is deleted that is gone.
	goneAfter = 30 * time.Second
)

// NewRegistrar returns a registrar that begins with [Registrar.Run].
func NewRegistrar(c RegistrarConfig) *Registrar {
	sum := sha256.Sum256([]byte(c.Host))
	return &Registrar{
		RegistrarConfig: c, label: hex.EncodeToString(sum[:8]),
		stores: map[schema.GroupVersionResource]cache.Store{}, kicked: make(chan struct{}, 1),
		written: map[target]*written{}, led: map[string]bool{}, missing: map[string]time.Time{}, watching: map[string]context.CancelFunc{},
		changed: map[string]bool{}, problems: map[string]string{},
	}
}

// Kick makes the registrar look now.
func (r *Registrar) Kick() {
	select {
	case r.kicked <- struct{}{}:
	default:
	}
}

// Problem returns why something of a plugin is not registered as it is to be, "" if everything is, or
// another replica is to register it. known is false before the registrar has looked at the plugin.
func (r *Registrar) Problem(plugin string) (problem string, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	problem, known = r.problems[plugin]
	return problem, known
}

// Run registers until ctx is done.
func (r *Registrar) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.follow(ctx, &running)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.kicked:
		case <-tick.C:
		}
		r.look(ctx, &running)
	}
}

// look makes everything as it is to be.
func (r *Registrar) look(ctx context.Context, running *sync.WaitGroup) {
	bundle := r.Bundle()
	if bundle == nil {
		return
	}
	converted := map[string]string{} // the plugin, by CustomResourceDefinition
	for _, p := range r.Plugins() {
		if !p.Leads() || p.DryRun {
			delete(r.led, p.Name)
			r.setProblem(p.Name, nil)
			continue
		}
		r.setProblem(p.Name, r.lookAt(ctx, p, bundle, converted))
	}
	r.watchOnly(ctx, running, converted)
	r.removeOrphans(ctx)
}

// lookAt makes everything of one plugin as it is to be.
func (r *Registrar) lookAt(ctx context.Context, p Plugin, bundle []byte, converted map[string]string) (problems []error) {
	wanted := configurations(p, r.Endpoint, r.label, r.Namespace, bundle)
	for _, t := range slices.SortedFunc(maps.Keys(wanted), func(a, b target) int { return strings.Compare(a.String(), b.String()) }) {
		if t.resource == crdResource {
			if other, taken := converted[t.name]; taken {
				problems = append(problems, fmt.Errorf("%s is converted by the plugin %q already: remove convert from one of them", t, other))
				continue
			}
			converted[t.name] = p.Name
		}
		if err := r.ensure(ctx, t, wanted[t]); err != nil {
			problems = append(problems, err)
		}
		r.led[p.Name] = true
	}
	if p.Starting || !r.hasSynced() {
		return problems
	}
	for _, resource := range []schema.GroupVersionResource{validatingResource, mutatingResource} { // it may not offer them any more
		t := target{resource, ConfigurationName(p.Name)}
		if wanted[t] == nil && r.shown(t) != nil {
			if err := r.remove(ctx, t); err != nil {
				problems = append(problems, err)
			}
		}
	}
	return problems
}

// ensure writes an object if it is not as it is to be.
func (r *Registrar) ensure(ctx context.Context, t target, o *unstructured.Unstructured) error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	w, now := r.writtenOf(t), time.Now()
	switch same := w.text == string(text); {
	case same && now.Before(w.again):
		return errUnchanged
	case same && w.failed == 0 && (now.Sub(w.at) < repairPause || r.isAsWritten(t, w)):
		return nil
	case !same:
		w.failed = 0
	}
	version, err := r.apply(ctx, t, o, w.version != "")
	w.at, w.text = now, string(text)
	if err != nil {
		w.postpone(now)
		return fmt.Errorf("%s: %w", t, explain.Forbidden(err, "get", "create", "patch", "delete"))
	}
	w.version, w.failed, w.again = version, 0, time.Time{}
	return nil
}

func (r *Registrar) writtenOf(t target) *written {
	w := r.written[t]
	if w == nil {
		w = &written{}
		r.written[t] = w
	}
	return w
}

// postpone makes the next attempt wait after one that has failed.
func (w *written) postpone(now time.Time) {
	w.again = now.Add(min(lookEvery<<min(w.failed, 10), maxPause))
	w.failed++
}

// errUnchanged is returned for what has failed and is not tried again yet.
var errUnchanged = errors.New("not tried again yet")

// apply applies an object, unless it is somebody else's. A CustomResourceDefinition without the label
// has no host yet. wrote states that the host has written the object before: then somebody has taken
// the label away.
func (r *Registrar) apply(ctx context.Context, t target, o *unstructured.Unstructured, wrote bool) (version string, err error) {
	bounded, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	client := r.Client.Resource(t.resource)
	before, err := client.Get(bounded, t.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && t.resource != crdResource:
	case err != nil:
		return "", err
	case r.isOfAnother(before):
		free := "delete it, or give the plugin another name"
		if t.resource == crdResource {
			free = "kubectl label crd " + t.name + " " + labelHost + "-"
		}
		return "", errors.New("it is written by another host, which has its certificates in another Secret: run the plugin in one of them; if it does not run there any more: " + free)
	case before.GetLabels()[labelHost] == "" && t.resource != crdResource && !wrote:
		return "", errors.New("it is somebody else's, without the label " + labelHost + ": delete it, or give the plugin another name")
	}
	applied, err := client.Apply(bounded, t.name, o, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	if err != nil {
		return "", err
	}
	if before == nil || before.GetResourceVersion() != applied.GetResourceVersion() {
		r.Logger.Info("written", "object", t.String())
	}
	return applied.GetResourceVersion(), nil
}

// isOfAnother reports whether another host writes an object.
func (r *Registrar) isOfAnother(o *unstructured.Unstructured) bool {
	host := o.GetLabels()[labelHost]
	return host != "" && host != r.label
}

// remove deletes a webhook configuration of the host.
func (r *Registrar) remove(ctx context.Context, t target) error {
	w, now := r.writtenOf(t), time.Now()
	switch {
	case w.text != "": // it was to be there until now
		w.text, w.failed = "", 0
	case now.Before(w.again):
		return errUnchanged
	}
	bounded, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	err := r.Client.Resource(t.resource).Delete(bounded, t.name, metav1.DeleteOptions{})
	switch {
	case err == nil:
		r.Logger.Info("deleted", "object", t.String())
	case !apierrors.IsNotFound(err):
		w.postpone(now)
		return fmt.Errorf("delete %s: %w", t, explain.Forbidden(err))
	}
	delete(r.written, t)
	return nil
}

// removeOrphans deletes the webhook configurations of plugins that are gone: at once if this
// replica has written them, else when no replica knows of the plugin.
func (r *Registrar) removeOrphans(ctx context.Context) {
	if !r.hasSynced() {
		return
	}
	for resource, store := range r.stores {
		for _, o := range store.List() {
			shown := o.(*unstructured.Unstructured)
			plugin := shown.GetLabels()[labelPlugin]
			if shown.GetName() != ConfigurationName(plugin) || !r.isGone(plugin) {
				continue
			}
			t := target{resource, shown.GetName()}
			if err := r.remove(ctx, t); err != nil && r.written[t].failed == 1 && !errors.Is(err, errUnchanged) {
				r.Logger.Error("a webhook of a plugin that is gone is left; trying again", "plugin", plugin, "error", err)
			}
		}
	}
	for plugin := range r.missing {
		if r.Known(plugin) {
			delete(r.missing, plugin)
		}
	}
	for plugin := range r.led {
		if !r.Known(plugin) && r.shown(target{validatingResource, ConfigurationName(plugin)}) == nil && r.shown(target{mutatingResource, ConfigurationName(plugin)}) == nil {
			delete(r.led, plugin)
			r.mu.Lock()
			delete(r.problems, plugin)
			r.mu.Unlock()
		}
	}
}

// isGone reports whether a plugin was removed. What this replica has not written itself is left for a
// while: another one may have the plugin, whose directory of this one is yet to show.
func (r *Registrar) isGone(plugin string) bool {
	if r.Known(plugin) {
		return false
	}
	if r.led[plugin] {
		return true
	}
	since, missed := r.missing[plugin]
	if !missed {
		since = time.Now()
		r.missing[plugin] = since
	}
	return time.Since(since) > goneAfter && !r.KnownToOthers(plugin)
}

// setProblem records and logs why something of a plugin is not as it is to be.
func (r *Registrar) setProblem(plugin string, problems []error) {
	if slices.Contains(problems, errUnchanged) {
		return
	}
	var texts []string
	for _, err := range problems {
		texts = append(texts, err.Error())
	}
	text := strings.Join(texts, "; ")
	r.mu.Lock()
	before := r.problems[plugin]
	r.problems[plugin] = text
	r.mu.Unlock()
	if text != "" && text != before {
		r.Logger.Error("what the plugin reviews or converts is not registered as it is to be; trying again", "plugin", plugin, "error", text)
	}
}

// Arrived reports whether the API server has a bundle in everything that the host has written, as
// far as this replica can tell.
func (r *Registrar) Arrived(ctx context.Context, bundle []byte) bool {
	if !r.hasSynced() {
		return false
	}
	has := func(o *unstructured.Unstructured) bool {
		return !slices.ContainsFunc(bundles(o), func(b []byte) bool { return !certificates.Contains(b, bundle) })
	}
	for _, store := range r.stores {
		for _, o := range store.List() {
			if !has(o.(*unstructured.Unstructured)) {
				return false
			}
		}
	}
	for _, p := range r.Plugins() {
		for t := range configurations(p, r.Endpoint, r.label, r.Namespace, bundle) {
			if t.resource != crdResource || p.DryRun {
				continue
			}
			o, err := r.Client.Resource(t.resource).Get(ctx, t.name, metav1.GetOptions{})
			if err != nil || !has(o) && !r.isOfAnother(o) {
				return false
			}
		}
	}
	return true
}

// hostOf returns the host of a URL that was checked.
func hostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return text
	}
	return u.Hostname()
}
