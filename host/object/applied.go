package object

import (
	"bytes"
	"cmp"
	"strconv"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/thole-dev/thole/abi/rawjson"
)

// This file keeps which fields the host's field managers have applied to an object, and
// how many bytes each has written (written.go). metadata.managedFields shows it, which is
// as large as half of the object. But it is the same for most objects that one controller
// applies: they share one copy.

// ManagerPrefix is the beginning of the field manager of every controller.
const ManagerPrefix = "thole/"

// controllerUID replaces the UID of an object's controller, which names the fields of
// its owner reference. It occurs in no JSON text, so that the UID can be put back.
const controllerUID = "\x00"

// appliedEntries holds entries of metadata.managedFields that objects share, by their
// text. It never drops any: what is full keeps no others.
type appliedEntries struct {
	most int // bytes

	mu     sync.Mutex
	size   int // bytes
	byText map[string][]metav1.ManagedFieldsEntry
}

var (
	applied = &appliedEntries{most: 4 << 20}
	// withoutFields has the entries of objects whose fields are not kept: there are as
	// many as field managers, with some sizes each.
	withoutFields = &appliedEntries{most: 4 << 20}
)

// AppliedBy returns the set of fields (FieldsV1, see the documentation of server-side
// apply) that a field manager of the host has applied to the object in a version of
// its kind, nil if there is none. known is false if the object's managedFields have to
// be read for it: the text that was parsed does not have them, or they are not kept.
func (o *Object) AppliedBy(manager, apiVersion string) (fields []byte, known bool) {
	return o.fieldsBy(metav1.ManagedFieldsOperationApply, manager, apiVersion)
}

// CreatedBy is [Object.AppliedBy] of the fields that a field manager of the host has set when it
// created the object by POST, with those that the API server has set by default.
func (o *Object) CreatedBy(manager, apiVersion string) (fields []byte, known bool) {
	return o.fieldsBy(metav1.ManagedFieldsOperationUpdate, manager, apiVersion)
}

func (o *Object) fieldsBy(operation metav1.ManagedFieldsOperationType, manager, apiVersion string) (fields []byte, known bool) {
	for _, e := range o.ManagedFields {
		switch {
		case e.Operation != operation || e.APIVersion == "":
		case e.FieldsV1 == nil:
			return nil, false
		case e.Manager == manager && e.APIVersion == apiVersion:
			return bytes.ReplaceAll(e.FieldsV1.GetRawBytes(), []byte(controllerUID), []byte(cmp.Or(o.ControllerUID(), controllerUID))), true
		}
	}
	return nil, len(o.ManagedFields) > 0
}

// keepApplied keeps what managedFields has of the host's field managers.
func (o *Object) keepApplied(managedFields []byte) {
	if !bytes.Contains(managedFields, []byte(`"`+ManagerPrefix)) {
		return
	}
	entries := o.hostEntries(managedFields)
	if o.ManagedFields = applied.share(appliedText(entries, []byte(cmp.Or(o.ControllerUID(), controllerUID)))); o.ManagedFields != nil {
		return
	}
	for i := range entries {
		entries[i].fields = nil
	}
	o.ManagedFields = withoutFields.share(appliedText(entries, []byte(controllerUID)))
}

// share returns the entries of a text of [appliedText], nil if they are not kept.
func (a *appliedEntries) share(text []byte) []metav1.ManagedFieldsEntry {
	a.mu.Lock()
	defer a.mu.Unlock()
	kept, ok := a.byText[string(text)]
	if size := 4 * len(text); !ok && a.size+size <= a.most { // about what text and entries take
		kept = readApplied(text)
		if a.byText == nil {
			a.byText = map[string][]metav1.ManagedFieldsEntry{}
		}
		a.byText[string(text)] = kept
		a.size += size
	}
	return kept
}

// hostEntry is an entry of metadata.managedFields of one of the host's field managers.
type hostEntry struct {
	metav1.ManagedFieldsEntry
	fields []byte // of an apply or a creation
	size   int    // see [Object.BytesBy]
}

// MayBeCreation reports whether a set of fields that a field manager of the host has updated is one
// with which it has created an object: it has the object's owner, or the annotation of the host. So
// has an adoption. The manager of one primary, whose name has one part more, updates nothing.
func MayBeCreation(manager string, fields []byte) bool {
	return bytes.Contains(fields, []byte(`"f:ownerReferences"`)) || bytes.Contains(fields, []byte(appliedMark)) || strings.Count(manager, "/") == 3
}

// hostEntries returns the entries of the host's field managers.
func (o *Object) hostEntries(managedFields []byte) (all []hostEntry) {
	r := rawjson.NewReader(managedFields)
	r.Array(func(int) {
		entry, fields := readEntry(r)
		if !strings.HasPrefix(entry.Manager, ManagerPrefix) {
			return
		}
		e := hostEntry{entry, fields, roughly(o.writtenBy(entry, fields))}
		if e.Subresource != "" || e.Operation != metav1.ManagedFieldsOperationApply && !MayBeCreation(e.Manager, e.fields) {
			e.Operation, e.APIVersion, e.fields = metav1.ManagedFieldsOperationUpdate, "", nil
		}
		all = append(all, e)
	})
	return all
}

// appliedText returns entries as a JSON array of strings: operation, manager, apiVersion,
// fields and size of each, with controllerUID instead of uid.
func appliedText(entries []hostEntry, uid []byte) []byte {
	w := rawjson.NewWriter(nil)
	w.Array(func() {
		for _, e := range entries {
			w.String(string(e.Operation))
			w.String(e.Manager)
			w.String(e.APIVersion)
			w.String(string(bytes.ReplaceAll(e.fields, uid, []byte(controllerUID))))
			w.String(strconv.Itoa(e.size))
		}
	})
	return w.Bytes()
}

// readApplied returns the entries of a text of [appliedText], which they do not alias.
func readApplied(text []byte) (all []metav1.ManagedFieldsEntry) {
	var e metav1.ManagedFieldsEntry
	r := rawjson.NewReader(text)
	r.Array(func(i int) {
		s := strings.Clone(r.String())
		switch i % 5 {
		case 0:
			e = metav1.ManagedFieldsEntry{Operation: metav1.ManagedFieldsOperationType(s)}
		case 1:
			e.Manager = s
		case 2:
			e.APIVersion = s
		case 3:
			if s != "" {
				e.FieldsV1 = &metav1.FieldsV1{}
				e.FieldsV1.SetRawBytes([]byte(s))
			}
		case 4:
			e.FieldsType = s
			all = append(all, e)
		}
	})
	return all
}

// readEntry reads an entry of metadata.managedFields. What it returns aliases the text.
func readEntry(r *rawjson.Reader) (e metav1.ManagedFieldsEntry, fields []byte) {
	r.Object(func(field string) {
		switch field {
		case "manager":
			e.Manager = r.String()
		case "operation":
			e.Operation = metav1.ManagedFieldsOperationType(r.String())
		case "apiVersion":
			e.APIVersion = r.String()
		case "subresource":
			e.Subresource = r.String()
		case "fieldsV1":
			fields = r.Raw()
		}
	})
	return e, fields
}
