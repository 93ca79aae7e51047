package effect

import (
	"context"
	"strings"

	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/object"
)

// After a restart nothing is remembered of what was applied. That an apply
// would change nothing is then proved from the object itself:
//
//   - its annotation holds the digest of the intent, so the last apply of
//     this controller asked for exactly the same fields with the same values;
//   - and no value has been changed since. Either the object is, to the
//     letter, what is wanted; or managedFields says so: a field that somebody
//     gives another value is no longer the applier's. As long as all fields
//     of the intent are still held by our manager, the server has kept them,
//     however it has written them down (defaults, quantities, webhooks).
//
// A copy of the digest alone would miss a change made while the host was
// down. What cannot be proved is applied once more, which is idempotent.

// proved says whether an apply of an object would change nothing, and records
// it. It costs at most one read of metadata, and no write.
func (s *session) proved(ctx context.Context, a application, have *object.Object) (bool, error) {
	if have.Annotations[a.mark] != a.digest.String() {
		return false, nil
	}
	same, err := a.literally(have)
	if err != nil {
		return false, err
	}
	if !same && !s.held(ctx, a, have) {
		return false, nil
	}
	return true, s.remember(a, have)
}

// kept is what the server adds to every object.
var kept = omit{
	top:      []string{"status"},
	metadata: []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"},
}

// literally says whether an object is what the intent asks for and nothing
// else.
func (a application) literally(have *object.Object) (bool, error) {
	body, err := a.request(nil)
	if err != nil {
		return false, err
	}
	want, err := sum(body)
	if err != nil {
		return false, err
	}
	got, err := sumWithout(have.Raw, kept)
	return got == want, err
}

// held says whether our manager holds every field of the intent. Without an
// answer it does not.
func (s *session) held(ctx context.Context, a application, have *object.Object) bool {
	raw, err := s.client.metadata(ctx, a.Resource, a.key)
	if err != nil {
		return false
	}
	uid, _ := rawjson.Lookup(raw, "metadata", "uid")
	mark, _ := rawjson.Lookup(raw, "metadata", "annotations", a.mark)
	if string(uid) != quote(string(have.UID)) || string(mark) != quote(a.digest.String()) {
		return false // it is another one by now
	}
	body, err := a.request(nil)
	if err != nil {
		return false
	}
	wanted, err := rawjson.MergePatch(body, identity)
	fields := appliedFields(raw, s.manager(s.target.Controller), a.Kind.APIVersion)
	return err == nil && fields != nil && covers(fields, wanted)
}

// identity is the merge patch that removes what names an object: nobody
// holds it.
var identity = []byte(`{"apiVersion":null,"kind":null,"metadata":{"name":null,"namespace":null}}`)

// appliedFields returns the fieldsV1 that a manager holds by apply.
func appliedFields(raw []byte, manager, apiVersion string) []byte {
	list, _ := rawjson.Lookup(raw, "metadata", "managedFields")
	entries, err := rawjson.Elements(list)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		is := func(name, value string) bool {
			got, ok := rawjson.Lookup(e, name)
			return ok && string(got) == quote(value)
		}
		_, sub := rawjson.Lookup(e, "subresource")
		if !sub && is("manager", manager) && is("operation", "Apply") && is("apiVersion", apiVersion) && is("fieldsType", "FieldsV1") {
			fields, _ := rawjson.Lookup(e, "fieldsV1")
			return fields
		}
	}
	return nil
}

// covers says whether a set of fields (FieldsV1, see the documentation of
// server-side apply) holds every field of a value. It needs no schema: a set
// without members stands for all that is below it, which is how atomic lists
// and maps are written.
func covers(fields, value []byte) bool {
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
		return err == nil && coversMembers(set, members)
	case '[':
		elements, err := rawjson.Elements(value)
		return err == nil && coversElements(set, elements)
	default:
		return false // a set with members is of an object or a list
	}
}

func coversMembers(set, members []rawjson.Member) bool {
	for _, m := range members {
		if string(m.Value) == "null" {
			continue // asks for nothing
		}
		fields, ok := find(set, "f:"+m.Name)
		if !ok || !covers(fields, m.Value) {
			return false
		}
	}
	return true
}

func coversElements(set []rawjson.Member, elements [][]byte) bool {
	for _, e := range elements {
		if !coversElement(set, e) {
			return false
		}
	}
	return true
}

func coversElement(set []rawjson.Member, element []byte) bool {
	for _, m := range set {
		kind, identity, _ := strings.Cut(m.Name, ":")
		switch kind {
		case "k": // of an associative list: its keys and their values
			if hasKeys(element, identity) && covers(m.Value, element) {
				return true
			}
		case "v": // of a set of scalars: the value
			if rawjson.Equal(element, []byte(identity)) {
				return true
			}
		}
	}
	return false
}

// hasKeys says whether an element has the keys of an associative list. One
// that it does not name is one that the server fills in, such as a port's
// protocol.
func hasKeys(element []byte, identity string) bool {
	keys, err := rawjson.Members([]byte(identity))
	if err != nil {
		return false
	}
	for _, k := range keys {
		got, ok := rawjson.Lookup(element, k.Name)
		if ok && !rawjson.Equal(got, k.Value) {
			return false
		}
	}
	return true
}

func find(members []rawjson.Member, name string) ([]byte, bool) {
	for _, m := range members {
		if m.Name == name {
			return m.Value, true
		}
	}
	return nil, false
}
