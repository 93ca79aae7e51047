package effect

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

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
	case last != nil && last.intent != a.intent():
		return false, nil
	case last != nil && last.version == version && have.ResourceVersion != "":
		return true, nil
	}
	state, err := s.sumState(a, have)
	if err != nil {
		return false, err
	}
	if last == nil || state == (digest{}) || state != last.state {
		if unchanged, err := s.isUnchanged(a, have, func() (fieldSets, error) { return s.fieldsOf(ctx, a, have) }); err != nil || !unchanged {
			return false, err
		}
	}
	s.records.setApplied(applyRecord{id: a.id(), intent: a.intent(), state: state, version: version})
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
	if fields == nil || a.annotation == "" {
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
//     manager had exactly the same fields with the same values. Without annotations,
//     our manager owns no other fields than those of the intent, and they have,
//     literally, its values;
//   - and no value has been changed since. Either the object is, literally,
//     the intent; or its managedFields show it. A manager that gives a field
//     another value takes the field away from the applier. As long as our
//     manager owns every field of the intent, the server has kept their
//     values, in whatever form it stores them (defaults, quantities,
//     webhooks).
//
// The annotation alone would miss changes by others. If the object does not show it,
// the apply is sent, which is idempotent.
func (p *plan) isUnchanged(a plannedApply, have *object.Object, fieldsOf func() (fieldSets, error)) (bool, error) {
	noted, _ := object.CutNotedBytes(have.Annotations[a.annotation])
	wanted, _ := object.CutNotedBytes(a.value(have)) // an earlier version of the host has noted no size
	if noted != wanted {
		return false, nil
	}
	labelled, err := a.with(have, func(w *rawjson.Writer) { p.writeLabels(w, a) })
	if err != nil {
		return false, err
	}
	if same, err := isExactly(have, labelled); err != nil || same {
		return same, err
	}
	fields, _ := fieldsOf() // if they cannot be read, the apply finds out
	if !fields.current {
		return false, nil
	}
	// What was created does not count: another patch of the same manager has its fields, too.
	if owns, err := a.isOwned(have, fields.applied); err != nil || !owns || a.annotation != "" {
		return owns, err
	}
	return new(comparison).isSame(fields.applied, labelled, have.Raw), nil
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

// isOwned reports whether a set of fields, nil for none, has every field of an apply. The label
// need not be among them: its value is seen, and [Performer.LabelChildren] may have set it.
func (a plannedApply) isOwned(have *object.Object, fields []byte) (bool, error) {
	body, err := a.with(have, func(*rawjson.Writer) {})
	if err != nil {
		return false, err
	}
	wanted, err := rawjson.MergePatch(body, withoutIdentity)
	if metadata, _ := rawjson.Lookup(wanted, "metadata"); isEmpty(metadata) {
		wanted, _ = rawjson.MergePatch(wanted, []byte(`{"metadata":null}`))
	}
	return err == nil && fields != nil && new(comparison).owns(fields, wanted), err
}

// fieldSets are the sets of fields (FieldsV1) that a field manager has of an object, nil for none.
type fieldSets struct {
	applied []byte
	created []byte // when it created the object by POST, or adopted it
	current bool   // the object may not have other values of them by now
}

// fieldsOf returns which fields the field manager of the location has. They are read from the API
// server if the cache has not kept them.
func (s *session) fieldsOf(ctx context.Context, a plannedApply, have *object.Object) (sets fieldSets, err error) {
	if sets = s.keptFields(a, have); sets.current {
		return sets, nil
	}
	manager := s.managerOf(a.location)
	meta, err := s.client.metadata(ctx, a.Resource, a.key)
	if apierrors.IsNotFound(err) || err == nil && meta.UID != have.UID {
		return fieldSets{}, nil
	}
	if err != nil {
		return fieldSets{}, err
	}
	of := func(i int) []byte {
		if i < 0 || meta.ManagedFields[i].APIVersion != a.Kind.APIVersion || meta.ManagedFields[i].FieldsV1 == nil {
			return nil
		}
		return meta.ManagedFields[i].FieldsV1.GetRawBytes()
	}
	current := meta.ResourceVersion == have.ResourceVersion || a.annotation != "" && meta.Annotations[a.annotation] == have.Annotations[a.annotation]
	return fieldSets{of(applierOf(meta, manager)), of(creatorOf(meta, manager)), current}, nil
}

// keptFields is [session.fieldsOf] as the cache has kept it; none are current if it has not.
func (p *plan) keptFields(a plannedApply, have *object.Object) fieldSets {
	manager := p.managerOf(a.location)
	applied, known := have.AppliedBy(manager, a.Kind.APIVersion)
	created, alsoKnown := have.CreatedBy(manager, a.Kind.APIVersion)
	if !known || !alsoKnown {
		return fieldSets{}
	}
	return fieldSets{applied, created, true}
}

// withoutIdentity is a merge patch that removes what names an object, which no
// manager owns.
var withoutIdentity = []byte(`{"apiVersion":null,"kind":null,"metadata":{"name":null,"namespace":null}}`)
