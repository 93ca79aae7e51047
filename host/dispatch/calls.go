package dispatch

import (
	"context"
	"errors"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/internal/printable"
	"github.com/thole-dev/thole/host/object"
)

// Get answers the guest's get from the cache (SPEC.md, "get").
func (r *run) Get(ctx context.Context, message []byte) ([]byte, int64) {
	call, err := abi.DecodeGetCall(message)
	if err != nil {
		r.warn("get: message not understood", "error", err)
		return nil, abi.CodeInvalid
	}
	kind := abi.Kind{APIVersion: call.Ref.APIVersion, Kind: call.Ref.Kind}
	namespace := call.Ref.Namespace
	if namespace == "" {
		namespace = r.given.Namespace
	}
	namespace, code := r.scope(ctx, kind, namespace)
	if code != 0 {
		return nil, code
	}
	obj, ok, err := r.reads.Get(ctx, kind, object.Key{Namespace: namespace, Name: call.Ref.Name})
	switch {
	case err != nil:
		return nil, r.unavailable("get", kind, err)
	case !ok || call.Ref.UID != "" && call.Ref.UID != string(obj.UID):
		return nil, abi.CodeNotFound
	}
	return obj.Raw, int64(len(obj.Raw))
}

// List answers the guest's list from the cache (SPEC.md, "list").
func (r *run) List(ctx context.Context, message []byte) ([]byte, int64) {
	call, err := abi.DecodeListCall(message)
	if err != nil {
		r.warn("list: message not understood", "error", err)
		return nil, abi.CodeInvalid
	}
	selector, err := labels.Parse(call.LabelSelector)
	if err != nil {
		r.warn("list: label selector not understood", "selector", call.LabelSelector, "error", err)
		return nil, abi.CodeInvalid
	}
	kind := abi.Kind{APIVersion: call.APIVersion, Kind: call.Kind}
	namespace, code := r.scope(ctx, kind, call.Namespace)
	if code != 0 {
		return nil, code
	}
	objects, err := r.reads.List(ctx, kind, namespace, selector)
	if err != nil {
		return nil, r.unavailable("list", kind, err)
	}
	reply := abi.ListReply{Items: make([][]byte, 0, len(objects))}
	for _, o := range objects {
		reply.Items = append(reply.Items, o.Raw)
	}
	text := abi.EncodeListReply(&reply)
	return text, int64(len(text))
}

// scope checks a read against the manifest and returns the namespace to read
// in, "" for all. A namespaced primary reads in its own namespace and what is
// cluster-scoped, unless the policy lets it cross namespaces.
func (r *run) scope(ctx context.Context, kind abi.Kind, namespace string) (string, int64) {
	c := &r.generation.Controller
	if kind != c.For && !slices.Contains(c.Owns, kind) && !slices.Contains(c.Reads, kind) {
		r.warn("read denied: the manifest does not name the kind in owns or reads", "kind", kind.String())
		return "", abi.CodeDenied
	}
	namespaced, err := r.c.Cache.Namespaced(ctx, kind)
	if err != nil {
		return "", r.unavailable("read", kind, err)
	}
	own := r.given.Namespace
	switch {
	case !namespaced:
		return "", 0
	case own == "" || r.generation.CrossNamespace:
		return namespace, 0
	case namespace != "" && namespace != own:
		r.warn("read denied: another namespace than the object's; a policy with crossNamespace allows it", "kind", kind.String(), "namespace", namespace)
		return "", abi.CodeDenied
	}
	return own, 0
}

// unavailable ends the run without counting an attempt if the kind's informer
// has not synced.
func (r *run) unavailable(verb string, kind abi.Kind, err error) int64 {
	if errors.Is(err, ErrNotSynced) {
		r.unsynced = true
		return abi.CodeUnavailable
	}
	r.warn(verb+" failed", "kind", kind.String(), "error", err)
	return abi.CodeUnavailable
}

// Log writes a line of the guest (SPEC.md, "log"), unless the plugin has
// written too many.
func (r *run) Log(level int32, message []byte) {
	if !r.mayLog() {
		return
	}
	text, fields := logLine(message)
	logger := r.logger.Named("guest")
	switch level {
	case abi.LogDebug:
		logger.Debug(text, fields...)
	case abi.LogInfo:
		logger.Info(text, fields...)
	case abi.LogWarn:
		logger.Warn(text, fields...)
	default:
		logger.Error(text, fields...)
	}
}

// warn tells why a call of the guest came to nothing. It counts as a line of the
// guest, which may call ten thousand times in a run.
func (r *run) warn(text string, fields ...any) {
	if r.mayLog() {
		r.logger.Warn(text, fields...)
	}
}

// mayLog takes one line off what the plugin may log.
func (r *run) mayLog() bool {
	if r.c.Lines == nil || r.c.Lines.Allow() {
		return true
	}
	r.c.Metrics.Dropped()
	return false
}

// logLine reads the object that a guest logs; anything else is a text. Text and
// names hold nothing that makes another line or steers a terminal; values are
// quoted by the logger.
func logLine(message []byte) (text string, fields []any) {
	members, err := rawjson.Members(message)
	if err != nil {
		return printable.Line(string(message)), nil
	}
	for _, m := range members {
		value := scalar(m.Value)
		if m.Name == "message" {
			text = printable.Line(value)
			continue
		}
		fields = append(fields, fieldName(printable.Line(m.Name)), value)
	}
	return text, fields
}

// fieldName keeps a guest from speaking for the host: a field that the host
// sets itself gets another name.
func fieldName(name string) string {
	switch name {
	case "plugin", "controller", "object", "generation", "reconcileID":
		return "guest." + name
	}
	if strings.HasPrefix(name, "@") { // hclog's own
		return "guest." + name
	}
	return name
}

// scalar returns a string's content, or the text of another value.
func scalar(value []byte) string {
	r := rawjson.NewReader(value)
	if r.Kind() != '"' {
		return string(value)
	}
	return r.String()
}
