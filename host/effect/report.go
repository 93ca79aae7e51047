package effect

import (
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/object"
)

// This file reports what was written or, in a dry run (KEP-576), logs what
// would have been. In a dry run each write is sent with dryRun=All: the API
// server checks and admits it and returns what it would have stored, but
// stores nothing.

// Write is one write that changed something.
type Write struct {
	Verb string // abi.VerbFinalizer to abi.VerbStatus
	Kind abi.Kind
	Key  object.Key
	UID  types.UID
	// ResourceVersion is the version that the write led to or, of an object that
	// is gone, the last one that it is known to have had.
	ResourceVersion string
	// Object is what the API server returned; nil if the object is gone.
	Object *object.Object
	// Content is the same for writes of the same content.
	Content [16]byte
}

// Gone reports whether the object does not exist any more.
func (w *Write) Gone() bool { return w.Object == nil }

// newWrite returns the write that led to an object. Its strings but those of Object
// are its own: what is remembered of it must not keep a reply in memory.
func newWrite(verb string, o *object.Object, content digest) Write {
	return Write{
		Verb: verb, Kind: o.Kind,
		Key:             object.Key{Namespace: strings.Clone(o.Namespace), Name: strings.Clone(o.Name)},
		UID:             types.UID(strings.Clone(string(o.UID))),
		ResourceVersion: strings.Clone(o.ResourceVersion),
		Object:          o,
		Content:         content,
	}
}

// newDeletion returns the write after which an object is gone.
func newDeletion(verb string, last *object.Object) Write {
	w := newWrite(verb, last, digest{})
	w.Object = nil
	return w
}

// Report is what an effect has written, also if it failed half-way.
type Report struct {
	Writes []Write
	// Groups are the failures of groups of intents, the first of each: the other intents were
	// performed, unless another failure has ended them.
	Groups []*Failure
	// Primary is the primary as the API server returned it after it was
	// written, without more than metadata if nothing else was known of it before; nil
	// if it was not written, or does not exist any more.
	Primary *object.Object
	// Before is the primary that a status was written to: newer than the target if
	// somebody else had changed it meanwhile. Nothing came between the two, because
	// the write names its resourceVersion. It is nil for other writes.
	Before *object.Object
}

// like returns the reply to a write as the cache holds the object: with metadata only
// if nothing else was known before the write. before is nil for a creation.
func like(before, reply *object.Object) *object.Object {
	if before != nil && before.MetadataOnly {
		return reply.Metadata()
	}
	return reply
}

// add adds a write to the report if it changed something; before is nil if the
// write created the object. When the server found nothing to change, the
// watch sends no event either. content identifies what was written.
func (p *Performer) add(report *Report, verb string, before, reply *object.Object, content digest) (changed bool) {
	if p.DryRun {
		p.logDryRun(verb, before, reply)
		return false
	}
	if before != nil && before.IsStateOf(reply) {
		return false
	}
	p.Logger.Debug("wrote", "verb", verb, "object", reply.Ref().String(), "resourceVersion", reply.ResourceVersion)
	report.Writes = append(report.Writes, newWrite(verb, reply, content))
	return true
}

// logDryRun logs what a write would have changed; before is nil if it would
// have created the object.
func (p *Performer) logDryRun(verb string, before, after *object.Object) {
	logger := p.Logger.With("verb", verb, "object", after.Ref().String())
	if before == nil {
		logger.Info("dry run: would create", "content", string(redactSecret(after.Kind, withoutServerFields(after.Raw))))
		return
	}
	diff, _ := rawjson.Diff(withoutServerFields(before.Raw), withoutServerFields(like(before, after).Raw)) // both are valid JSON
	switch {
	case diff != nil:
		logger.Info("dry run: would change", "difference", string(redactSecret(after.Kind, diff)))
	case before.MetadataOnly:
		logger.Info("dry run: may change", "difference", "unknown, because only the metadata of the object is kept; not in metadata")
	}
}

// serverFields is a merge patch that removes what the server sets with every
// write.
var serverFields = []byte(`{"metadata":{"resourceVersion":null,"generation":null,"uid":null,"creationTimestamp":null}}`)

func withoutServerFields(raw []byte) []byte {
	out, _ := rawjson.MergePatch(raw, serverFields) // both are valid JSON
	return out
}

// redactSecret replaces the values of a Secret, or of a patch of one. Names of
// the values and null, which removes one, remain.
func redactSecret(kind abi.Kind, text []byte) []byte {
	if kind != secretKind {
		return text
	}
	var secret map[string]any
	_ = json.Unmarshal(text, &secret) // it is an object as JSON
	for _, field := range []string{"data", "stringData"} {
		if values, ok := secret[field].(map[string]any); ok {
			for name := range values {
				if values[name] != nil {
					values[name] = "hidden"
				}
			}
		} else if secret[field] != nil {
			secret[field] = "hidden"
		}
	}
	out, _ := json.Marshal(secret) // what was decoded can be encoded
	return out
}
