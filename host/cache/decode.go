package cache

import (
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/object"
)

const mediaType = "application/json"

// serializer returns the serializer of client-go's REST client for one kind. It
// decodes responses to *object.Object, of which only the metadata is kept if metadataOnly is set, *objectList and *metav1.Status.
func serializer(kind abi.Kind, metadataOnly bool) runtime.NegotiatedSerializer {
	return runtime.NewSimpleNegotiatedSerializer(runtime.SerializerInfo{
		MediaType:        mediaType,
		MediaTypeType:    "application",
		MediaTypeSubType: "json",
		EncodesAsText:    true,
		Serializer:       runtime.NoopEncoder{Decoder: objectCodec{kind: kind, metadataOnly: metadataOnly}},
		StreamSerializer: &runtime.StreamSerializerInfo{
			EncodesAsText: true,
			Serializer:    runtime.NoopEncoder{Decoder: eventCodec{}},
			Framer:        framer{},
		},
	})
}

// objectList is a page of a list in the form that the pager and the reflector
// expect.
type objectList struct {
	metav1.ListMeta
	Items []*object.Object
	kind  abi.Kind // of the list
}

var _ runtime.Object = (*objectList)(nil)

func (*objectList) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject implements runtime.Object. It returns the list itself, which
// nobody changes.
func (l *objectList) DeepCopyObject() runtime.Object { return l }

// objectCodec decodes the body of a response, and the object of a watch event.
type objectCodec struct {
	kind         abi.Kind
	metadataOnly bool
}

func (c objectCodec) parse(text []byte) (*object.Object, error) {
	if c.metadataOnly {
		return object.ParseMetadata(text, c.kind)
	}
	return object.Parse(text, c.kind)
}

// Decode implements runtime.Decoder. The result does not alias data.
func (c objectCodec) Decode(data []byte, _ *schema.GroupVersionKind, _ runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	top, err := readTop(data)
	if err != nil {
		return nil, nil, err
	}
	switch {
	case top.kind == abi.Kind{APIVersion: "v1", Kind: "Status"} && c.kind != top.kind:
		status := &metav1.Status{}
		if err := json.Unmarshal(data, status); err != nil {
			return nil, nil, fmt.Errorf("read status: %w", err)
		}
		return status, nil, nil
	case top.kind != c.kind && (top.items != nil || top.isListOf(c.kind)):
		return c.list(top)
	}
	o, err := c.parse(data)
	if err != nil {
		return nil, nil, err
	}
	return o, nil, nil
}

// list parses each item into bytes of its own, so that an object in the store
// does not keep the page in memory.
func (c objectCodec) list(top top) (runtime.Object, *schema.GroupVersionKind, error) {
	list := &objectList{kind: top.kind}
	if top.metadata != nil {
		if err := json.Unmarshal(top.metadata, &list.ListMeta); err != nil {
			return nil, nil, fmt.Errorf("read list: metadata: %w", err)
		}
	}
	if top.items == nil { // null, or left out
		return list, nil, nil
	}
	items, err := rawjson.Elements(top.items)
	if err != nil {
		return nil, nil, fmt.Errorf("read list: %w", err)
	}
	for i, item := range items {
		o, err := c.parse(item)
		if err != nil {
			return nil, nil, fmt.Errorf("read list: item %d: %w", i, err)
		}
		list.Items = append(list.Items, o)
	}
	return list, nil, nil
}

// top holds the fields that distinguish an object, a list and a status.
type top struct {
	kind            abi.Kind
	metadata, items []byte // items is nil unless it is an array
}

// isListOf reports whether the response is the list that goes with a kind by its name.
func (t top) isListOf(kind abi.Kind) bool {
	return t.kind == abi.Kind{APIVersion: kind.APIVersion, Kind: kind.Kind + "List"}
}

// isOf reports whether the list may be one of a kind. Its own kind may have any name that
// ends in List; that of metadata alone, and of a list of anything, is of Kubernetes.
func (l *objectList) isOf(kind abi.Kind) bool {
	switch l.kind {
	case abi.Kind{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"}, abi.Kind{APIVersion: "v1", Kind: "List"}:
		return true
	}
	return l.kind.APIVersion == kind.APIVersion && strings.HasSuffix(l.kind.Kind, "List")
}

func readTop(data []byte) (t top, err error) {
	r := rawjson.NewReader(data)
	r.Object(func(field string) {
		switch field {
		case "apiVersion":
			t.kind.APIVersion = r.String()
		case "kind":
			t.kind.Kind = r.String()
		case "metadata":
			t.metadata = r.Raw()
		case "items":
			if r.Kind() == '[' {
				t.items = r.Raw()
			}
		}
	})
	if err := r.End(); err != nil {
		return t, fmt.Errorf("read response: %w", err)
	}
	return t, nil
}

// eventCodec decodes the frame of a watch event. The object of the event
// aliases the frame: client-go decodes it before it reads the next frame.
type eventCodec struct{}

// Decode implements runtime.Decoder.
func (eventCodec) Decode(data []byte, _ *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	event, ok := into.(*metav1.WatchEvent)
	if !ok {
		return nil, nil, fmt.Errorf("read watch event: cannot decode into %T", into)
	}
	r := rawjson.NewReader(data)
	r.Object(func(field string) {
		switch field {
		case "type":
			event.Type = strings.Clone(r.String()) // does not alias the frame
		case "object":
			event.Object.Raw = r.Raw()
		}
	})
	if err := r.End(); err != nil {
		return nil, nil, fmt.Errorf("read watch event: %w", err)
	}
	return event, nil, nil
}
