package abi

import (
	"reflect"
	"testing"

	"github.com/thole-dev/thole/abi/internal/goldentest"
	"github.com/thole-dev/thole/abi/rawjson"
)

// messageType is one type of message with its codec, for tests over all of them.
type messageType struct {
	name    string // of the golden file
	sample  any
	encoded func() []byte
	decode  func([]byte) (any, error)
	encode  func(any) []byte
}

func of[T any](name string, sample *T, encode func(*T) []byte, decode func([]byte) (*T, error)) messageType {
	return messageType{
		name: name, sample: sample,
		encoded: func() []byte { return encode(sample) },
		decode: func(data []byte) (any, error) {
			m, err := decode(data)
			if err != nil {
				return nil, err
			}
			return m, nil
		},
		encode: func(m any) []byte { return encode(m.(*T)) },
	}
}

func messages() []messageType {
	return []messageType{
		of("manifest_minimal", minimalManifest(), EncodeManifest, DecodeManifest),
		of("manifest", fullManifest(), EncodeManifest, DecodeManifest),
		of("request_minimal", minimalRequest(), EncodeRequest, DecodeRequest),
		of("request", fullRequest(), EncodeRequest, DecodeRequest),
		of("result_minimal", minimalResult(), EncodeResult, DecodeResult),
		of("result", fullResult(), EncodeResult, decodeResultWithSections),
		of("get_call", fullGetCall(), EncodeGetCall, DecodeGetCall),
		of("list_call", fullListCall(), EncodeListCall, DecodeListCall),
		of("list_reply", fullListReply(), EncodeListReply, DecodeListReply),
		of("list_reply_empty", &ListReply{}, EncodeListReply, DecodeListReply),
	}
}

func TestMessagesMatchGoldenFiles(t *testing.T) {
	for _, m := range messages() {
		t.Run(m.name, func(t *testing.T) {
			encoded := m.encoded()
			golden := goldentest.Expect(t, m.name, encoded)
			if got, err := m.decode(encoded); err != nil || !reflect.DeepEqual(got, m.sample) {
				t.Errorf("decoded is %+v, %v\nwant %+v", got, err, m.sample)
			}
			got, err := m.decode(golden)
			if err != nil || !rawjson.Equal(m.encode(got), golden) {
				t.Errorf("the file as it is decodes to %+v, %v", got, err)
			}
		})
	}
}

// TestSamplesSetEveryField keeps the golden files complete: it fails for a new
// field that no sample sets.
func TestSamplesSetEveryField(t *testing.T) {
	exempt := map[string]bool{
		"Condition.LastTransitionTime": true, // not part of a result
		"Condition.ObservedGeneration": true,
	}
	seen := map[string]bool{}
	for _, m := range messages() {
		visit(reflect.ValueOf(m.sample), seen)
	}
	for field, set := range seen {
		if !set && !exempt[field] {
			t.Errorf("no sample sets %s", field)
		}
	}
}

// visit records for each field of each struct of this package whether any sample
// sets it.
func visit(v reflect.Value, seen map[string]bool) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			visit(v.Elem(), seen)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		for i := range v.Len() {
			visit(v.Index(i), seen)
		}
	case reflect.Struct:
		if v.Type().PkgPath() != reflect.TypeFor[Manifest]().PkgPath() {
			return
		}
		for i := range v.NumField() {
			name := v.Type().Name() + "." + v.Type().Field(i).Name
			seen[name] = seen[name] || !v.Field(i).IsZero()
			visit(v.Field(i), seen)
		}
	}
}

// decodeResultWithSections decodes a result for a host with a capability for each section.
func decodeResultWithSections(data []byte) (*Result, error) {
	any := func(string) func([]byte) error { return func([]byte) error { return nil } }
	return DecodeResultFor("", MaxIntents, any, data)
}
