package abi

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/thole-dev/thole/abi/rawjson"
)

var update = flag.Bool("update", false, "rewrite the golden files")

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
		of("result", fullResult(), EncodeResult, DecodeResult),
		of("get_call", fullGetCall(), EncodeGetCall, DecodeGetCall),
		of("list_call", fullListCall(), EncodeListCall, DecodeListCall),
		of("index_request", fullIndexRequest(), EncodeIndexRequest, DecodeIndexRequest),
		of("index_result", fullIndexResult(), EncodeIndexResult, DecodeIndexResult),
		of("index_get_call", fullIndexGetCall(), EncodeIndexGetCall, DecodeIndexGetCall),
		of("index_reply", fullIndexReply(), EncodeIndexReply, DecodeIndexReply),
		of("list_reply", fullListReply(), EncodeListReply, DecodeListReply),
		of("list_reply_empty", &ListReply{}, EncodeListReply, DecodeListReply),
	}
}

// TestMessagesMatchGoldenFiles compacts the golden files, which are indented for
// readability: a message has no white space.
func TestMessagesMatchGoldenFiles(t *testing.T) {
	for _, m := range messages() {
		t.Run(m.name, func(t *testing.T) {
			path := filepath.Join("testdata", m.name+".json")
			if *update {
				writeGolden(t, path, m.encoded())
			}
			golden, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var compact bytes.Buffer
			if err := json.Compact(&compact, golden); err != nil {
				t.Fatal(err)
			}
			if got := m.encoded(); string(got) != compact.String() {
				t.Errorf("encoded is %s\nthe file has %s", got, compact.Bytes())
			}
			if got, err := m.decode(compact.Bytes()); err != nil || !reflect.DeepEqual(got, m.sample) {
				t.Errorf("decoded is %+v, %v\nwant %+v", got, err, m.sample)
			}
			got, err := m.decode(golden)
			if err != nil || !rawjson.Equal(m.encode(got), golden) {
				t.Errorf("the file as it is decodes to %+v, %v", got, err)
			}
		})
	}
}

func writeGolden(t *testing.T, path string, text []byte) {
	t.Helper()
	var indented bytes.Buffer
	if err := json.Indent(&indented, text, "", "  "); err != nil {
		t.Fatal(err)
	}
	indented.WriteByte('\n')
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, indented.Bytes(), 0o644); err != nil {
		t.Fatal(err)
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
