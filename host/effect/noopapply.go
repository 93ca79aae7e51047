package effect

import (
	"context"
	"slices"
	"strings"

	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/object"
)

// This file finds out whether an apply would change nothing: from the record of
// the previous apply or, if the object has changed since or the host has been
// restarted, from the object itself.

// isNoop reports whether an apply would change nothing, and records it then: the
// previous apply had the same intent, and the object still has the body that it led to,
// or shows that nobody has changed what was applied.
func (s *session) isNoop(ctx context.Context, a plannedApply, have *object.Object) (bool, error) {
	last, version := s.records.lastApply(a.id()), sumStrings(have.ResourceVersion)
	switch {
	case s.lacksLabel(a, have):
		return false, nil
	case last != nil && last.intent != a.digest:
		return false, nil
	case last != nil && last.version == version && have.ResourceVersion != "":
		return true, nil
	}
	state, err := s.sumState(a, have)
	if err != nil {
		return false, err
	}
	if last == nil || state == (digest{}) || state != last.state {
		if unchanged, err := s.isUnchanged(ctx, a, have); err != nil || !unchanged {
			return false, err
		}
	}
	s.records.setApplied(applyRecord{id: a.id(), intent: a.digest, state: state, version: version})
	return true, nil
}

// sumState returns a digest of what an object shows of an apply: its body or, if only
// metadata is known, the annotation and which fields the field manager of the location
// has applied. Another manager that changes one of them takes it away. The digest is
// zero if the fields are not known, or do not show it.
func (s *session) sumState(a plannedApply, have *object.Object) (digest, error) {
	if !have.MetadataOnly {
		return sumBody(have.Raw)
	}
	fields, _ := have.AppliedBy(s.managerOf(a.location), a.Kind.APIVersion)
	if fields == nil || a.hidden {
		return digest{}, nil
	}
	applied, err := sum(fields)
	return sumStrings(applied.String(), have.Annotations[a.annotation]), err
}

// isUnchanged reports whether an object shows that an apply would change nothing. It
// sends no write, and a read of metadata only if the cache has not kept what the
// object's managedFields show. The object shows it:
//
//   - its annotation holds the digest of the intent, so the last apply of our
//     manager had exactly the same fields with the same values;
//   - and no value has been changed since. Either the object is, literally,
//     the intent; or its managedFields show it. A manager that gives a field
//     another value takes the field away from the applier. As long as our
//     manager owns every field of the intent, the server has kept their
//     values, in whatever form it stores them (defaults, quantities,
//     webhooks).
//
// The annotation alone would miss changes by others. If the object does not show it,
// the apply is sent, which is idempotent.
func (s *session) isUnchanged(ctx context.Context, a plannedApply, have *object.Object) (bool, error) {
	noted, _ := object.CutNotedBytes(have.Annotations[a.annotation])
	wanted, _ := object.CutNotedBytes(a.value(have)) // an earlier version of the host has noted no size
	if a.hidden || noted != wanted {
		return false, nil
	}
	labelled, err := a.with(have, func(w *rawjson.Writer) { s.writeLabel(w, a) })
	if err != nil {
		return false, err
	}
	if same, err := isExactly(have, labelled); err != nil || same {
		return same, err
	}
	return s.ownsFields(ctx, a, have)
}

// setByServer are the members that the server adds to every object.
var setByServer = omit{
	top:      []string{"status"},
	metadata: []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"},
}

// isExactly reports whether an object is the body of an apply and nothing
// else.
func isExactly(have *object.Object, body []byte) (bool, error) {
	want, err := sum(body)
	if err != nil {
		return false, err
	}
	got, err := sumWithout(have.Raw, setByServer)
	return got == want, err
}

// ownsFields reports whether the field manager of the location owns every field
// of an apply. If that cannot be read, it reports false. The label need not be owned:
// its value is seen, and [Performer.LabelChildren] may have set it.
func (s *session) ownsFields(ctx context.Context, a plannedApply, have *object.Object) (bool, error) {
	body, err := a.with(have, func(*rawjson.Writer) {})
	if err != nil {
		return false, err
	}
	fields, known := have.AppliedBy(s.managerOf(a.location), a.Kind.APIVersion)
	if !known {
		fields = s.readFields(ctx, a, have)
	}
	wanted, err := rawjson.MergePatch(body, withoutIdentity)
	return err == nil && fields != nil && ownsValue(fields, wanted), err
}

// readFields reads from the API server which fields the field manager of the
// location has applied, nil for none. The object must be as it is in the cache.
func (s *session) readFields(ctx context.Context, a plannedApply, have *object.Object) []byte {
	meta, err := s.client.metadata(ctx, a.Resource, a.key)
	if err != nil || meta.UID != have.UID || meta.Annotations[a.annotation] != have.Annotations[a.annotation] {
		return nil // also if the object has been replaced or applied again
	}
	i := applierOf(meta, s.managerOf(a.location))
	if i < 0 || meta.ManagedFields[i].APIVersion != a.Kind.APIVersion || meta.ManagedFields[i].FieldsV1 == nil {
		return nil
	}
	return meta.ManagedFields[i].FieldsV1.GetRawBytes()
}

// withoutIdentity is a merge patch that removes what names an object, which no
// manager owns.
var withoutIdentity = []byte(`{"apiVersion":null,"kind":null,"metadata":{"name":null,"namespace":null}}`)

// ownsValue reports whether a set of fields (FieldsV1, see the documentation
// of server-side apply) contains every field of a value. This needs no schema:
// a set without members stands for everything below it, as it is written for
// atomic lists and maps.
func ownsValue(fields, value []byte) bool {
	set, err := rawjson.Members(fields)
	if err != nil {
		return false
	}
	if len(set) == 0 {
		return true
	}
	switch r := rawjson.NewReader(value); r.Kind() {
	case '{':
		members, err := rawjson.Members(value)
		return err == nil && ownsMembers(set, members)
	case '[':
		elements, err := rawjson.Elements(value)
		return err == nil && !slices.ContainsFunc(elements, func(e []byte) bool { return !ownsElement(set, e) })
	default:
		return false // a set with members is of an object or a list
	}
}

// ownsMembers reports whether a set of fields contains every member of an
// object, with everything below. A member that is null asks for nothing.
func ownsMembers(set, members []rawjson.Member) bool {
	for _, m := range members {
		if string(m.Value) == "null" {
			continue
		}
		i := slices.IndexFunc(set, func(owned rawjson.Member) bool { return owned.Name == "f:"+m.Name })
		if i < 0 || !ownsValue(set[i].Value, m.Value) {
			return false
		}
	}
	return true
}

// ownsElement reports whether a set of fields contains an element of a list. The
// set names elements by keys ("k:") or by value ("v:"), never by position.
func ownsElement(set []rawjson.Member, element []byte) bool {
	for _, m := range set {
		kind, identity, _ := strings.Cut(m.Name, ":")
		switch kind {
		case "k": // an element of an associative list, by its keys and their values
			if hasKeys(element, identity) && ownsValue(m.Value, element) {
				return true
			}
		case "v": // an element of a set of scalars, by its value
			if rawjson.Equal(element, []byte(identity)) {
				return true
			}
		}
	}
	return false
}

// hasKeys reports whether an element of an associative list has these keys. A
// key that the element does not have is one that the server fills in, such as
// the protocol of a port.
func hasKeys(element []byte, identity string) bool {
	keys, err := rawjson.Members([]byte(identity))
	return err == nil && !slices.ContainsFunc(keys, func(k rawjson.Member) bool {
		got, ok := rawjson.Lookup(element, k.Name)
		return ok && !rawjson.Equal(got, k.Value)
	})
}
