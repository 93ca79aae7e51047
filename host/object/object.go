// Package object has the types that the stages of the host share: an object as
// the bytes that the API server sent beside its parsed metadata, the key of an
// object, and the resource of a kind.
package object

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
)

// Object is one object at one resourceVersion. It is immutable, because caches,
// workers and indexes share it.
type Object struct {
	// ObjectMeta is metadata. Its strings alias Raw, but for what outlives the object in
	// many places: name, namespace, UID and resourceVersion, its own and of its owners.
	// Its ManagedFields are only for [Object.AppliedBy] and [Object.BytesBy], and shared with
	// other objects.
	metav1.ObjectMeta
	Kind abi.Kind
	// Raw is the object as JSON, without metadata.managedFields and the
	// annotation kubectl.kubernetes.io/last-applied-configuration. It ends
	// with the closing brace.
	Raw []byte
	// MetadataOnly is set if Raw has nothing but apiVersion, kind and metadata, whatever
	// the object has.
	MetadataOnly bool
}

var (
	_ runtime.Object = (*Object)(nil)
	_ metav1.Object  = (*Object)(nil)
)

// Key identifies an object of a kind.
type Key struct {
	Namespace string // "" for a cluster-scoped object
	Name      string
}

func (k Key) String() string {
	if k.Namespace == "" {
		return k.Name
	}
	return k.Namespace + "/" + k.Name
}

// Compare returns a negative number, zero or a positive one: by namespace, then by name.
func (k Key) Compare(other Key) int {
	return cmp.Or(strings.Compare(k.Namespace, other.Namespace), strings.Compare(k.Name, other.Name))
}

// Validate returns an error if the key names no object, or would change the path
// of a URL.
func (k Key) Validate() error {
	if k.Name == "" {
		return errors.New("metadata.name is required")
	}
	for _, name := range []string{k.Name, k.Namespace} {
		if wrong := content.IsPathSegmentName(name); len(wrong) > 0 {
			return fmt.Errorf("the name %q %s", name, wrong[0])
		}
	}
	return nil
}

// Key returns the key of the object.
func (o *Object) Key() Key { return Key{Namespace: o.Namespace, Name: o.Name} }

// Ref returns a reference to the object with its UID.
func (o *Object) Ref() abi.Ref {
	return abi.Ref{APIVersion: o.Kind.APIVersion, Kind: o.Kind.Kind, Namespace: o.Namespace, Name: o.Name, UID: string(o.UID)}
}

// Deleting reports whether the object has a deletionTimestamp.
func (o *Object) Deleting() bool { return o.DeletionTimestamp != nil }

// Controller returns the owner reference that has controller set, nil if
// there is none.
func (o *Object) Controller() *metav1.OwnerReference { return metav1.GetControllerOfNoCopy(o) }

// ControllerUID returns the UID of the object's controller, "" if it has none.
func (o *Object) ControllerUID() string {
	if owner := o.Controller(); owner != nil {
		return string(owner.UID)
	}
	return ""
}

// GetObjectKind implements runtime.Object.
func (o *Object) GetObjectKind() schema.ObjectKind { return kindAccessor{o} }

// DeepCopyObject implements runtime.Object. It returns the object itself, which
// is immutable.
func (o *Object) DeepCopyObject() runtime.Object { return o }

type kindAccessor struct{ o *Object }

func (k kindAccessor) GroupVersionKind() schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(k.o.Kind.APIVersion, k.o.Kind.Kind)
}

// SetGroupVersionKind does nothing, because the kind is part of Raw.
func (kindAccessor) SetGroupVersionKind(schema.GroupVersionKind) {}

// Parse parses an object in the form in which the API server sends it. kind is
// used if apiVersion and kind are missing, as in the items of a typed list. The
// object does not alias raw, and its Raw has no unused capacity.
func Parse(raw []byte, kind abi.Kind) (*Object, error) { return parse(raw, kind, false) }

func parse(raw []byte, kind abi.Kind, metadataOnly bool) (*Object, error) {
	if !utf8.Valid(raw) { // guests are promised UTF-8
		raw = bytes.ToValidUTF8(raw, []byte("\uFFFD"))
	}
	parts, err := findParts(raw)
	if err != nil {
		return nil, fmt.Errorf("parse object: %w", err)
	}
	if parts.metadata.to == 0 {
		return nil, errors.New("parse object: metadata is required")
	}
	head, kind, err := parts.head(kind)
	if err != nil {
		return nil, fmt.Errorf("parse object: %w", err)
	}
	text, metadata := parts.tidy(raw, head)
	o := &Object{Raw: text, Kind: kind, MetadataOnly: metadataOnly}
	r := rawjson.NewReader(text[metadata.from:metadata.to])
	readMeta(r, &o.ObjectMeta)
	if err := r.End(); err != nil {
		return nil, fmt.Errorf("parse object: metadata: %w", err)
	}
	o.ownIdentity()
	o.keepApplied(raw[parts.managed.from:parts.managed.to])
	return o, nil
}

// ownIdentity makes the strings that identify the object not alias Raw.
func (o *Object) ownIdentity() {
	id := o.Namespace + o.Name + string(o.UID) + o.ResourceVersion
	take := func(n int) (part string) {
		part, id = id[:n], id[n:]
		return part
	}
	o.Namespace, o.Name = take(len(o.Namespace)), take(len(o.Name))
	o.UID, o.ResourceVersion = types.UID(take(len(o.UID))), take(len(o.ResourceVersion))
}

func readMeta(r *rawjson.Reader, m *metav1.ObjectMeta) {
	r.Object(func(field string) {
		switch field {
		case "name":
			m.Name = r.String()
		case "namespace":
			m.Namespace = r.String()
		case "generateName":
			m.GenerateName = r.String()
		case "uid":
			m.UID = types.UID(r.String())
		case "resourceVersion":
			m.ResourceVersion = r.String()
		case "generation":
			m.Generation = r.Int()
		case "creationTimestamp":
			m.CreationTimestamp = readTime(r)
		case "deletionTimestamp":
			if t := readTime(r); !t.IsZero() {
				m.DeletionTimestamp = &t
			}
		case "deletionGracePeriodSeconds":
			if !r.Null() {
				seconds := r.Int()
				m.DeletionGracePeriodSeconds = &seconds
			}
		case "labels":
			m.Labels = readMap(r)
		case "annotations":
			m.Annotations = readMap(r)
		case "finalizers":
			if !r.Null() {
				r.Array(func(int) { m.Finalizers = append(m.Finalizers, r.String()) })
			}
		case "ownerReferences":
			if !r.Null() {
				r.Array(func(int) { m.OwnerReferences = append(m.OwnerReferences, readOwner(r)) })
			}
		}
	})
}

func readOwner(r *rawjson.Reader) (owner metav1.OwnerReference) {
	r.Object(func(field string) {
		switch field {
		case "apiVersion":
			owner.APIVersion = r.String()
		case "kind":
			owner.Kind = r.String()
		case "name":
			owner.Name = r.String()
		case "uid":
			owner.UID = types.UID(r.String())
		case "controller":
			owner.Controller = readFlag(r)
		case "blockOwnerDeletion":
			owner.BlockOwnerDeletion = readFlag(r)
		}
	})
	id := owner.Name + string(owner.UID)
	owner.Name, owner.UID = id[:len(owner.Name)], types.UID(id[len(owner.Name):])
	return owner
}

func readFlag(r *rawjson.Reader) *bool {
	if r.Null() {
		return nil
	}
	b := r.Bool()
	return &b
}

func readMap(r *rawjson.Reader) map[string]string {
	if r.Null() {
		return nil
	}
	m := map[string]string{}
	r.Object(func(name string) { m[name] = r.String() })
	return m
}

func readTime(r *rawjson.Reader) (out metav1.Time) {
	if r.Null() {
		return out
	}
	t, err := time.Parse(time.RFC3339, r.String())
	if err != nil {
		r.Fail("expected a time in RFC 3339")
	}
	return metav1.Time{Time: t}
}
