package devloop

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/inspect"
	"github.com/thole-dev/thole/host/sanitize"
)

// objectChange is a change of an object: old is nil for one that was created, new
// for one that was deleted. An object that existed before the session has neither
// been created nor changed: it is existing.
type objectChange struct {
	old, new *object
	existing bool
}

// objectWatch follows the primaries of the plugin, the objects that they control,
// and the Kubernetes Events on them.
type objectWatch struct {
	report  func(*objectChange)
	begin   time.Time
	running *sync.WaitGroup
	kinds   map[schema.GroupVersionKind]bool // that are followed

	primaries *primaries
}

// primaries is the set of primary kinds; safe for concurrent use.
type primaries struct {
	mu    sync.Mutex
	kinds map[schema.GroupKind]bool
}

func (p *primaries) add(kind schema.GroupKind) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kinds[kind] = true
}

func (p *primaries) has(apiVersion, kind string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.kinds[schema.FromAPIVersionAndKind(apiVersion, kind).GroupKind()]
}

func newObjectWatch(report func(*objectChange)) objectWatch {
	return objectWatch{
		report: report, begin: time.Now().Add(-time.Second), running: &sync.WaitGroup{}, kinds: map[schema.GroupVersionKind]bool{},
		primaries: &primaries{kinds: map[schema.GroupKind]bool{}},
	}
}

// wait blocks until the informers have ended, which the end of their context
// causes.
func (w *objectWatch) wait() { w.running.Wait() }

// watchPlugin follows the kinds of a plugin that has started.
func (s *session) watchPlugin(ctx context.Context, e events.PluginStarted) {
	statuses, err := inspect.Statuses(ctx, s.cluster, e.Manifest)
	if err != nil && ctx.Err() == nil {
		s.out.say("watch", bad, "what the host writes into the status is not known: %v", err)
	}
	clear(s.sample.ready)
	for i, c := range e.Manifest.Controllers {
		primary := gvk(c.For.Kind).GroupKind()
		s.watch.primaries.add(primary)
		s.sample.primaries[c.Name] = primary
		if err != nil || slices.Contains(statuses[i].Conditions, ready) && len(statuses[i].After) == 0 {
			s.sample.ready[primary] = true
		}
		for _, kind := range append([]abi.Kind{c.For.Kind}, abi.Kinds(c.Owns)...) {
			s.followKind(ctx, gvk(kind))
		}
	}
}

func gvk(k abi.Kind) schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(k.APIVersion, k.Kind)
}

var eventKind = schema.GroupVersionKind{Version: "v1", Kind: "Event"}

// followKind reports the changes of the objects of a kind from now on, and returns
// when it has read those that exist, or may not.
func (s *session) followKind(ctx context.Context, kind schema.GroupVersionKind) {
	w := &s.watch
	if len(w.kinds) == 0 && kind != eventKind {
		s.followKind(ctx, eventKind)
	}
	if w.kinds[kind] {
		return
	}
	resource, _, err := s.client.find(kind)
	if err != nil {
		return // whoever needs the kind reports that it is not served
	}
	w.kinds[kind] = true
	informer := s.newInformer(resource)
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(o any, initial bool) { w.changed(nil, o, initial) },
		UpdateFunc: func(from, to any) { w.changed(from, to, false) },
		DeleteFunc: func(o any) { w.changed(o, nil, false) },
	})
	if err != nil {
		return // only after the informer has stopped
	}
	bounded, cancel := context.WithTimeout(ctx, servedTimeout)
	defer cancel()
	if err := informer.SetWatchErrorHandler(func(*cache.Reflector, error) { cancel() }); err != nil {
		return // only after the informer has started
	}
	quiet := klog.NewContext(ctx, logr.Discard()) // it tries again by itself
	w.running.Go(func() { informer.RunWithContext(quiet) })
	cache.WaitForCacheSync(bounded.Done(), registration.HasSynced)
}

// newInformer returns what client-go's dynamicinformer does, which would link every typed
// client and informer of Kubernetes into the program.
func (s *session) newInformer(r schema.GroupVersionResource) cache.SharedIndexInformer {
	objects := s.client.Resource(r).Namespace(s.Host.Namespace)
	return cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return objects.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return objects.Watch(ctx, options)
		},
	}, &object{}, 0, cache.Indexers{})
}

func (w *objectWatch) changed(from, to any, initial bool) {
	c := &objectChange{old: asObject(from), new: asObject(to)}
	if c.old != nil && w.concerns(c.old) || c.new != nil && w.concerns(c.new) {
		c.existing = initial && c.new.GetCreationTimestamp().Time.Before(w.begin)
		w.report(c)
	}
}

func asObject(v any) *object {
	if unknown, ok := v.(cache.DeletedFinalStateUnknown); ok {
		v = unknown.Obj
	}
	o, _ := v.(*object)
	return o
}

// concerns reports whether an object is a primary, controlled by one, or an Event
// on one.
func (w *objectWatch) concerns(o *object) bool {
	if o.GroupVersionKind() == eventKind {
		return w.primaries.has(field(o, "involvedObject", "apiVersion"), field(o, "involvedObject", "kind"))
	}
	owner := metav1.GetControllerOf(o)
	return w.primaries.has(o.GetAPIVersion(), o.GetKind()) || owner != nil && w.primaries.has(owner.APIVersion, owner.Kind)
}

// describeChange describes the change of an object, in no line if it is not worth
// any.
func describeChange(c *objectChange) []line {
	switch {
	case c.existing:
		return nil
	case c.new == nil && c.old.GetKind() == "Event":
		return nil // the API server deletes them after an hour
	case c.new == nil:
		return []line{about(c.old, plain, "gone")}
	case c.new.GetKind() == "Event":
		return describeKubernetesEvent(c)
	case c.old == nil:
		return append([]line{about(c.new, plain, created(c.new))}, describeConditions(&object{}, c.new)...)
	case c.old.GetUID() != c.new.GetUID():
		return append(describeChange(&objectChange{old: c.old}), describeChange(&objectChange{new: c.new})...)
	}
	lines := describeSpec(c.old, c.new)
	if text := difference(statusFields(c.old), statusFields(c.new)); text != "" {
		lines = append(lines, about(c.new, plain, "status: "+text))
	}
	return append(lines, describeConditions(c.old, c.new)...)
}

func about(o *object, t tone, text string) line {
	return line{"object", strings.ToLower(o.GetKind()) + "/" + o.GetName() + ": " + text, t}
}

// created describes who created an object, and for whom.
func created(o *object) string {
	text := "created"
	if managed := o.GetManagedFields(); len(managed) > 0 {
		text += " by " + managed[0].Manager // the first write was the creation
	}
	if owner := metav1.GetControllerOf(o); owner != nil {
		text += ", owned by " + strings.ToLower(owner.Kind) + "/" + owner.Name
	}
	return text
}

// describeKubernetesEvent describes an Event that is new or was counted up.
func describeKubernetesEvent(c *objectChange) []line {
	count := func(o *object) int64 {
		n, _, _ := unstructured.NestedInt64(o.Object, "count")
		return n
	}
	if c.old != nil && count(c.old) == count(c.new) {
		return nil
	}
	text := fmt.Sprintf("%s on %s/%s: %s", field(c.new, "reason"),
		strings.ToLower(field(c.new, "involvedObject", "kind")), field(c.new, "involvedObject", "name"), oneLine(field(c.new, "message")))
	if n := count(c.new); n > 1 {
		text += fmt.Sprintf(" (%d times)", n)
	}
	if field(c.new, "type") == "Warning" {
		return []line{{"event", text, bad}}
	}
	return []line{{"event", text, plain}}
}

func field(o *object, path ...string) string {
	s, _, _ := unstructured.NestedString(o.Object, path...)
	return s
}

// describeSpec describes changes of metadata and spec.
func describeSpec(from, to *object) (lines []line) {
	say := func(format string, args ...any) {
		lines = append(lines, about(to, plain, fmt.Sprintf(format, args...)))
	}
	for _, name := range without(to.GetFinalizers(), from.GetFinalizers()) {
		say("finalizer %s added", name)
	}
	for _, name := range without(from.GetFinalizers(), to.GetFinalizers()) {
		say("finalizer %s removed", name)
	}
	if from.GetDeletionTimestamp() == nil && to.GetDeletionTimestamp() != nil {
		held := ""
		if len(to.GetFinalizers()) > 0 {
			held = ", waits for its finalizers"
		}
		say("deletion requested%s", held)
	}
	for _, part := range []struct {
		name     string
		from, to any
	}{
		{"labels", asAny(from.GetLabels()), asAny(to.GetLabels())},
		{"annotations", asAny(from.GetAnnotations()), asAny(to.GetAnnotations())},
		{"spec", from.Object["spec"], to.Object["spec"]},
	} {
		if text := difference(part.from, part.to); text != "" {
			say("%s: %s", part.name, text)
		}
	}
	return lines
}

func without(all, these []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(these, s) })
}

// asAny leaves out annotations that the host keeps for itself.
func asAny(m map[string]string) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		if !strings.HasSuffix(k, effect.AppliedAnnotation) {
			out[k] = v
		}
	}
	return out
}

// statusFields is the status without its conditions.
func statusFields(o *object) any {
	status, _ := o.Object["status"].(map[string]any)
	status = maps.Clone(status)
	delete(status, "conditions")
	return status
}

const ready = "Ready"

// conditions returns the conditions of an object, ordered by type.
func conditions(o *object) (all []metav1.Condition) {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, item := range list {
		m, _ := item.(map[string]any)
		get := func(name string) string { s, _ := m[name].(string); return s }
		all = append(all, metav1.Condition{
			Type: get("type"), Status: metav1.ConditionStatus(get("status")), Reason: get("reason"), Message: get("message"),
		})
	}
	slices.SortFunc(all, func(a, b metav1.Condition) int { return strings.Compare(a.Type, b.Type) })
	return all
}

// describeConditions describes conditions that were added, changed or removed.
func describeConditions(from, to *object) (lines []line) {
	before, after := conditions(from), conditions(to)
	described := map[string]bool{"": true}
	for _, c := range after {
		if slices.Contains(before, c) {
			continue
		}
		text := conditionText(c)
		if !described[c.Message] && !isReadyCondition(c) {
			text += ": " + oneLine(c.Message)
		}
		described[c.Message] = true // usually several conditions have the same
		lines = append(lines, about(to, conditionTone(c), text))
	}
	for _, c := range before {
		if !slices.ContainsFunc(after, func(a metav1.Condition) bool { return a.Type == c.Type }) {
			lines = append(lines, about(to, plain, "condition "+c.Type+" removed"))
		}
	}
	return lines
}

func conditionText(c metav1.Condition) string {
	return strings.TrimSpace(c.Type + "=" + string(c.Status) + " " + c.Reason)
}

func isReadyCondition(c metav1.Condition) bool {
	return c.Type == ready && c.Status == metav1.ConditionTrue
}

func conditionTone(c metav1.Condition) tone {
	switch {
	case isReadyCondition(c):
		return good
	case c.Type == ready && c.Status == metav1.ConditionFalse:
		return wait
	case c.Type == "Stalled" && c.Status == metav1.ConditionTrue:
		return bad
	}
	return plain
}

const (
	maxDifferences = 4
	maxValue       = 60 // bytes of a value
)

// difference describes on one line what has changed in a JSON value, "" if nothing
// has. Elements of lists are identified by their name, if they have one.
func difference(from, to any) string {
	before, after := map[string]string{}, map[string]string{}
	flatten("", from, before)
	flatten("", to, after)
	both := maps.Clone(before)
	maps.Copy(both, after)
	var all []string
	for _, path := range slices.Sorted(maps.Keys(both)) {
		old, had := before[path]
		value, has := after[path]
		switch {
		case old == value && had == has:
		case !has:
			all = append(all, path+" removed")
		case !had:
			all = append(all, path+" "+value)
		default:
			all = append(all, path+" "+old+" -> "+value)
		}
	}
	if more := len(all) - maxDifferences; more > 0 {
		all = append(all[:maxDifferences], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(all, ", ")
}

// flatten puts the scalars in a value into out, by path.
func flatten(path string, v any, out map[string]string) {
	switch v := v.(type) {
	case map[string]any:
		for name, child := range v {
			flatten(strings.TrimPrefix(path+"."+name, "."), child, out)
		}
	case []any:
		for i, child := range v {
			id := strconv.Itoa(i)
			if m, _ := child.(map[string]any); m["name"] != nil {
				id = fmt.Sprint(m["name"])
			}
			flatten(path+"["+id+"]", child, out)
		}
	case nil:
	default:
		out[path] = scalar(v)
	}
}

// scalar is a value as people write it: a text is quoted only if necessary.
func scalar(v any) string {
	s, ok := v.(string)
	if !ok {
		text, _ := json.Marshal(v)
		s = string(text)
	} else if s == "" || strings.ContainsAny(s, " \t\r\n,") {
		s = strconv.Quote(s)
	}
	return sanitize.Truncate(s, maxValue)
}
