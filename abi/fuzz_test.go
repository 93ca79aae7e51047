package abi

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"unicode/utf8"

	"github.com/thole-dev/thole/abi/rawjson"
)

// addGoldens seeds a fuzz target with the golden files of these names and with
// damaged copies of them.
func addGoldens(f *testing.F, names ...string) {
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join("testdata", name+".json"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
		f.Add(bytes.Replace(text, []byte(`"name"`), []byte(`"name":"x","name"`), 1))
		f.Add(bytes.ReplaceAll(text, []byte(`[`), []byte(`[null,`)))
		f.Add(bytes.ReplaceAll(text, []byte(`: "`), []byte(`: "\ud800`)))
		f.Add(text[:len(text)/2])
	}
}

// roundTrip checks that a message which decodes is the same after encoding and
// decoding it, and that errors are short.
func roundTrip[T any](t *testing.T, data []byte, decode func([]byte) (*T, error), encode func(*T) []byte) {
	t.Helper()
	m, err := decode(data)
	if err != nil {
		if len(err.Error()) > 4<<10 {
			t.Fatalf("an error of %d bytes", len(err.Error()))
		}
		return
	}
	if !utf8.Valid(data) { // the encoder replaces invalid bytes
		return
	}
	text := encode(m)
	if err := rawjson.Valid(text, 0); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	again, err := decode(text)
	if err != nil || !reflect.DeepEqual(again, m) {
		t.Fatalf("%s\ndecodes to %+v\nencoded as %s\nwhich decodes to %+v, %v", data, m, text, again, err)
	}
}

func FuzzDecodeManifest(f *testing.F) {
	addGoldens(f, "manifest", "manifest_minimal")
	f.Fuzz(func(t *testing.T, data []byte) { roundTrip(t, data, DecodeManifest, EncodeManifest) })
}

func FuzzDecodeRequest(f *testing.F) {
	addGoldens(f, "request", "request_minimal")
	f.Fuzz(func(t *testing.T, data []byte) { roundTrip(t, data, DecodeRequest, EncodeRequest) })
}

func FuzzDecodeResult(f *testing.F) {
	addGoldens(f, "result", "result_minimal")
	f.Fuzz(func(t *testing.T, data []byte) { roundTrip(t, data, DecodeResult, EncodeResult) })
}

func FuzzDecodeCalls(f *testing.F) {
	addGoldens(f, "get_call", "list_call", "list_reply", "list_reply_empty")
	f.Fuzz(func(t *testing.T, data []byte) {
		roundTrip(t, data, DecodeGetCall, EncodeGetCall)
		roundTrip(t, data, DecodeListCall, EncodeListCall)
		roundTrip(t, data, DecodeListReply, EncodeListReply)
	})
}
