package sdk

import (
	"bytes"
	"errors"
	"maps"
	"strconv"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/abi/webhooks"
	"github.com/thole-dev/thole/sdk/internal/guest"
)

// This file has the conversion between versions: abi/webhooks/SPEC.md, "Conversion".

// Convert returns what converts the objects of a [Controller], those of a custom resource, between
// the versions of the kind. It belongs into the field Convert.
//
//	Convert: sdk.Convert(
//		sdk.Version("v1alpha1", fromV1Alpha1, toV1Alpha1),
//		sdk.Version("v1beta1", fromV1Beta1, toV1Beta1),
//	)
//
// The version of For, with the types of the controller, is the hub: every other version is converted
// to it and from it, and one of two others to another by way of it. It should have a field for
// everything that another version has. What a version has no field for belongs into an annotation, or
// it is lost; sdktest.RoundTrip finds out.
//
// The metadata of an object stays as it is, except for labels and annotations. So do members of the
// object besides spec and status, and what the host writes into the status: conditions,
// observedGeneration and lastHandledReconcileAt. An error fails the request that needs the conversion, and with it
// each list of the kind.
func Convert[Spec, Status Value](versions ...VersionOf[Spec, Status]) *ConverterOf[Spec, Status] {
	return &ConverterOf[Spec, Status]{func(c *abi.Controller, w *webhooks.Webhooks) {
		w.Convert = true
		group, hub := c.For.Group(), hubVersion[Spec, Status](c.For.APIVersion)
		known := converter[Spec, Status]{hub.apiVersion: hub}
		for _, v := range versions {
			apiVersion := group + "/" + v.name
			if _, ok := known[apiVersion]; ok {
				panic("sdk.Convert: the version " + strconv.Quote(v.name) + " is given twice, or is that of For")
			}
			known[apiVersion] = version[Spec, Status]{apiVersion, v.read, v.write}
			guest.AddWarm(c.Name, v.warm)
		}
		guest.AddConverter(c.Name, func(q *webhooks.ConvertRequest) (abi.Code, *webhooks.ConvertResult) {
			object, err := known.convert(q)
			if err != nil {
				code, failure := failureOf(err)
				failure.After = 0
				return code, &webhooks.ConvertResult{Error: failure}
			}
			return abi.CodeOK, &webhooks.ConvertResult{Object: object}
		})
	}}
}

// ConverterOf is made by [Convert].
type ConverterOf[Spec, Status Value] struct {
	register func(*abi.Controller, *webhooks.Webhooks)
}

// Version returns a version of a kind for [Convert], such as v1beta1, with the functions that convert
// from it and to it. Each gets an object, and another one that has its metadata and is otherwise
// empty, which it fills.
func Version[Spec, Status, HubSpec, HubStatus Value](
	name string,
	from func(object *Object[Spec, Status], hub *Object[HubSpec, HubStatus]) error,
	to func(hub *Object[HubSpec, HubStatus], object *Object[Spec, Status]) error,
) VersionOf[HubSpec, HubStatus] {
	if from == nil || to == nil {
		panic("sdk.Version: a function of " + strconv.Quote(name) + " is nil")
	}
	require[Spec]()
	require[Status]()
	return VersionOf[HubSpec, HubStatus]{
		name: name,
		read: func(text []byte) (*Object[HubSpec, HubStatus], error) {
			object := new(Object[Spec, Status])
			if err := object.read(text); err != nil {
				return nil, err
			}
			hub := &Object[HubSpec, HubStatus]{ObjectMeta: object.copied()}
			return hub, from(object, hub)
		},
		write: func(hub *Object[HubSpec, HubStatus]) (*written, error) {
			object := &Object[Spec, Status]{ObjectMeta: hub.copied()}
			if err := to(hub, object); err != nil {
				return nil, err
			}
			return object.written()
		},
		warm: func() error {
			var object Object[Spec, Status]
			if err := warm(&object.Spec); err != nil {
				return err
			}
			return warm(&object.Status)
		},
	}
}

// VersionOf is made by [Version].
type VersionOf[HubSpec, HubStatus Value] struct {
	name  string
	read  func(text []byte) (*Object[HubSpec, HubStatus], error)
	write func(*Object[HubSpec, HubStatus]) (*written, error)
	warm  func() error
}

// version is a [VersionOf] with its group.
type version[Spec, Status Value] struct {
	apiVersion string
	read       func(text []byte) (*Object[Spec, Status], error)
	write      func(*Object[Spec, Status]) (*written, error)
}

func hubVersion[Spec, Status Value](apiVersion string) version[Spec, Status] {
	return version[Spec, Status]{
		apiVersion: apiVersion,
		read: func(text []byte) (*Object[Spec, Status], error) {
			hub := new(Object[Spec, Status])
			return hub, hub.read(text)
		},
		write: func(hub *Object[Spec, Status]) (*written, error) { return hub.written() },
	}
}

// converter has the versions of a kind, by apiVersion.
type converter[Spec, Status Value] map[string]version[Spec, Status]

// convert returns an object in another version.
func (c converter[Spec, Status]) convert(q *webhooks.ConvertRequest) ([]byte, error) {
	from, ok := c[apiVersionOf(q.Object)]
	to, known := c[q.APIVersion]
	switch {
	case !ok:
		return nil, unknownVersion(apiVersionOf(q.Object))
	case !known:
		return nil, unknownVersion(q.APIVersion)
	case from.apiVersion == to.apiVersion:
		return q.Object, nil
	}
	before, err := changeableOf(q.Object)
	if err != nil {
		return nil, err
	}
	hub, err := from.read(q.Object)
	if err != nil {
		return nil, err
	}
	converted, err := to.write(hub)
	if err != nil {
		return nil, err
	}
	return converted.replace(q.Object, q.APIVersion, before), nil
}

func unknownVersion(apiVersion string) error {
	return Stalled("UnknownVersion", errors.New("the plugin does not convert the version "+strconv.Quote(apiVersion)))
}

func apiVersionOf(object []byte) string {
	text, _ := rawjson.Lookup(object, "apiVersion")
	return rawjson.NewReader(text).String()
}

// changeable returns what a conversion may change of the metadata.
func (m *ObjectMeta) changeable() []byte {
	return appendJSONObjectMeta(nil, &ObjectMeta{Labels: m.Labels, Annotations: m.Annotations})
}

// copied returns the metadata with copies of what a conversion may change.
func (m *ObjectMeta) copied() ObjectMeta {
	out := *m
	out.Labels, out.Annotations = maps.Clone(m.Labels), maps.Clone(m.Annotations)
	return out
}

func changeableOf(object []byte) ([]byte, error) {
	var meta ObjectMeta
	var ignored Raw
	_, err := readObject(rawjson.NewReader(object), &meta, &ignored, &ignored)
	return meta.changeable(), err
}

// written is an object in the version that is wanted.
type written struct {
	meta             ObjectMeta
	spec, status     []byte
	noSpec, noStatus []byte // those of an empty object
}

// withHostStatus returns a status with what the host has written into the one before, which the types
// of plugins do not have. All versions have it in common.
func withHostStatus(status, before []byte) []byte {
	add := rawjson.NewWriter(nil)
	add.Object(func() {
		for _, name := range []string{"conditions", "observedGeneration", "lastHandledReconcileAt"} {
			_, written := rawjson.Lookup(status, name)
			if value, ok := rawjson.Lookup(before, name); ok && !written {
				add.Name(name).Raw(value)
			}
		}
	})
	if merged, err := rawjson.MergePatch(status, add.Bytes()); err == nil {
		return merged
	}
	return status
}

func (o *Object[Spec, Status]) written() (n *written, err error) {
	n = &written{meta: o.ObjectMeta}
	var empty Object[Spec, Status]
	for _, part := range []struct {
		text  *[]byte
		value any
	}{{&n.spec, &o.Spec}, {&n.status, &o.Status}, {&n.noSpec, &empty.Spec}, {&n.noStatus, &empty.Status}} {
		if *part.text, err = encode(part.value); err != nil {
			return nil, Stalled("InvalidObject", errors.New("encode the converted object: "+err.Error()))
		}
	}
	return n, nil
}

// replace returns an object with what was converted in place of what it had. before is what could be
// changed of its metadata.
func (n *written) replace(object []byte, apiVersion string, before []byte) []byte {
	have, _ := rawjson.Members(object)
	with := map[string][]byte{}
	for _, m := range have {
		with[m.Name] = m.Value
	}
	_, hasSpec := with["spec"]
	_, hasStatus := with["status"]
	with["apiVersion"] = rawjson.AppendString(nil, apiVersion)
	with["metadata"] = rebase(with["metadata"], before, n.meta.changeable())
	if with["spec"] = n.spec; !hasSpec && bytes.Equal(n.spec, n.noSpec) {
		delete(with, "spec")
	}
	with["status"] = withHostStatus(n.status, with["status"])
	if !hasStatus && bytes.Equal(n.status, n.noStatus) {
		delete(with, "status")
	}
	w := rawjson.NewWriter(make([]byte, 0, len(object)+len(n.spec)+len(n.status)))
	w.Object(func() {
		write := func(name string) {
			if value := with[name]; value != nil {
				w.Name(name).Raw(value)
			}
			delete(with, name)
		}
		for _, m := range have {
			write(m.Name)
		}
		for _, name := range []string{"metadata", "spec", "status"} {
			write(name)
		}
	})
	return w.Bytes()
}
