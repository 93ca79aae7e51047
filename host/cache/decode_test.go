package cache

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
	restwatch "k8s.io/client-go/rest/watch"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

func decodeBody(t *testing.T, kind abi.Kind, body string) (runtime.Object, error) {
	t.Helper()
	data := []byte(body)
	o, _, err := objectCodec{kind: kind}.Decode(data, nil, nil)
	clear(data) // the result must not alias it
	return o, err
}

func TestListIsDecodedToObjects(t *testing.T) {
	for name, body := range map[string]string{
		"built-in":        `{"kind":"WidgetList","apiVersion":"example.dev/v1","metadata":{"resourceVersion":"7","continue":"c","remainingItemCount":3},"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]}`,
		"custom resource": `{"apiVersion":"example.dev/v1","items":[{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"name":"a"}},{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"name":"b"}}],"kind":"Whatever","metadata":{"continue":"c","remainingItemCount":3,"resourceVersion":"7"}}` + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			decoded, err := decodeBody(t, widget, body)
			if err != nil {
				t.Fatal(err)
			}
			list := decoded.(*objectList)
			if list.ResourceVersion != "7" || list.Continue != "c" || *list.RemainingItemCount != 3 {
				t.Errorf("metadata: %+v", list.ListMeta)
			}
			if names(list.Items) != "a b" {
				t.Errorf("items: %s", names(list.Items))
			}
			for _, o := range list.Items {
				if want := `{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"name":"` + o.Name + `"}}`; string(o.Raw) != want {
					t.Errorf("got %s, want %s", o.Raw, want)
				}
				if cap(o.Raw) != len(o.Raw) {
					t.Errorf("%s: capacity %d for %d bytes", o.Name, cap(o.Raw), len(o.Raw))
				}
			}
		})
	}
}

func TestResponseIsDecodedByItsKind(t *testing.T) {
	odd := abi.Kind{APIVersion: "example.dev/v1", Kind: "Status"}
	tests := []struct {
		name string
		kind abi.Kind
		body string
		want any
	}{
		{"object", widget, `{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"name":"a"}}`, &object.Object{}},
		{"object with items", widget, `{"apiVersion":"example.dev/v1","items":[1],"kind":"Widget","metadata":{"name":"a"}}`, &object.Object{}},
		{"kind called Status", odd, `{"apiVersion":"example.dev/v1","kind":"Status","metadata":{"name":"a"}}`, &object.Object{}},
		{"status", widget, status(410, metav1.StatusReasonExpired), &metav1.Status{}},
		{"empty list", widget, `{"apiVersion":"v1","kind":"List","metadata":{},"items":[]}`, &objectList{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := decodeBody(t, tt.kind, tt.body)
			if err != nil {
				t.Fatal(err)
			}
			switch tt.want.(type) {
			case *object.Object:
				if o, ok := got.(*object.Object); !ok || o.Name != "a" || o.Kind != tt.kind {
					t.Errorf("got %T %+v", got, got)
				}
			case *metav1.Status:
				if s, ok := got.(*metav1.Status); !ok || s.Code != 410 || s.Reason != metav1.StatusReasonExpired {
					t.Errorf("got %T %+v", got, got)
				}
			case *objectList:
				if l, ok := got.(*objectList); !ok || len(l.Items) != 0 {
					t.Errorf("got %T %+v", got, got)
				}
			}
		})
	}
}

func TestInvalidResponseIsAnError(t *testing.T) {
	for _, body := range []string{
		``, `[]`, `{"kind":"Widget"`, `{"kind":"Widget","apiVersion":"v1"}`,
		`{"kind":"List","metadata":{},"items":[{"metadata":{"name":"a"}},{"spec":{}}]}`,
		`{"kind":"List","metadata":1,"items":[]}`,
		`{"kind":"Status","apiVersion":"v1","code":"x"}`,
	} {
		if o, err := decodeBody(t, widget, body); err == nil {
			t.Errorf("%s: decoded to %T", body, o)
		}
	}
}

// events decodes a stream as client-go does.
func events(source io.Reader) (all []watch.Event, err error) {
	info := serializer(widget, false).SupportedMediaTypes()[0]
	frames := info.StreamSerializer.NewFrameReader(io.NopCloser(source))
	decoder := restwatch.NewDecoder(streaming.NewDecoder(frames, info.StreamSerializer.Serializer), info.Serializer)
	for {
		kind, o, err := decoder.Decode()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all = append(all, watch.Event{Type: kind, Object: o})
	}
}

func TestWatchStreamIsDecodedToEvents(t *testing.T) {
	large := strings.Repeat(`\"{}\\`, 5_000)
	stream := `{"type":"ADDED","object":{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"braces":"}{\"}"}}}` + "\n" +
		`{"object":{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"name":"b"},"spec":{"large":"` + large + `"}},"type":"MODIFIED"}` +
		` {"type":"BOOKMARK","object":{"kind":"Widget","apiVersion":"example.dev/v1","metadata":{"resourceVersion":"9","creationTimestamp":null,"annotations":{"k8s.io/initial-events-end":"true"}}}}` + "\n\n" +
		`{"type":"ERROR","object":` + status(410, metav1.StatusReasonGone) + "}\n"
	for name, source := range map[string]io.Reader{
		"at once":      strings.NewReader(stream),
		"byte by byte": iotest.OneByteReader(strings.NewReader(stream)),
		"in halves":    iotest.HalfReader(strings.NewReader(stream)),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := events(source)
			if err != nil || len(got) != 4 {
				t.Fatalf("%d events, %v", len(got), err)
			}
			if o := got[0].Object.(*object.Object); got[0].Type != watch.Added || o.Name != "a" {
				t.Errorf("first: %+v", got[0])
			}
			if o := got[1].Object.(*object.Object); got[1].Type != watch.Modified || !strings.Contains(string(o.Raw), large) {
				t.Errorf("second: %+v", o.ObjectMeta)
			}
			if o := got[2].Object.(*object.Object); got[2].Type != watch.Bookmark || o.Annotations[metav1.InitialEventsAnnotationKey] != "true" || o.ResourceVersion != "9" {
				t.Errorf("third: %+v", o.ObjectMeta)
			}
			if s, ok := got[3].Object.(*metav1.Status); !ok || got[3].Type != watch.Error || s.Code != 410 {
				t.Errorf("fourth: %+v", got[3])
			}
		})
	}
}

// TestDeepestObjectDoesNotEndTheWatch covers an object of the largest depth that
// the API server stores. One user's object must not keep the objects of others
// from being read.
func TestDeepestObjectDoesNotEndTheWatch(t *testing.T) {
	const depth = 10_000 // the limit of the API server
	deep := `{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"name":"deep"},"spec":` +
		strings.Repeat(`{"a":`, depth-2) + `{}` + strings.Repeat("}", depth-2) + `}`
	list := `{"apiVersion":"example.dev/v1","kind":"WidgetList","metadata":{"resourceVersion":"7"},"items":[` + deep + `,{"metadata":{"name":"a"}}]}`
	decoded, _, err := objectCodec{kind: widget}.Decode([]byte(list), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := decoded.(*objectList); len(got.Items) != 2 || string(got.Items[0].Raw) != deep {
		t.Errorf("got %d items", len(got.Items))
	}
	got, err := events(strings.NewReader(`{"type":"ADDED","object":` + deep + `}`))
	if len(got) != 1 || got[0].Type != watch.Added {
		t.Errorf("got %d events, %v", len(got), err)
	}
}

func TestTruncatedStreamIsAnError(t *testing.T) {
	for _, stream := range []string{`{"type":"ADDED","object":{`, `{"type":"ADDED","object":{"a":"`} {
		if _, err := events(strings.NewReader(stream)); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: %v", stream, err)
		}
	}
	for _, stream := range []string{`x{}`, `[]`, `}`, `{"type":"NEWS","object":{}}`} {
		if _, err := events(strings.NewReader(stream)); err == nil {
			t.Errorf("%s: no error", stream)
		}
	}
}

func TestEventWithoutEndIsRefused(t *testing.T) {
	endless := io.MultiReader(strings.NewReader(`{"type":"`), endlessReader{})
	if _, err := events(endless); !errors.Is(err, streaming.ErrObjectTooLarge) {
		t.Errorf("got %v", err)
	}
}

type endlessReader struct{}

func (endlessReader) Read(p []byte) (int, error) {
	return copy(p, bytes.Repeat([]byte("x"), len(p))), nil
}

// FuzzFrames compares the frames with those of encoding/json.
func FuzzFrames(f *testing.F) {
	f.Add([]byte(`{"a":"}\"{"} {"b":[{}]}`), uint8(3))
	f.Add([]byte(`{"\\":1}{`), uint8(1))
	f.Fuzz(func(t *testing.T, stream []byte, size uint8) {
		var want []string
		d := json.NewDecoder(bytes.NewReader(stream))
		for {
			var raw json.RawMessage
			if d.Decode(&raw) != nil || raw[0] != '{' {
				break
			}
			want = append(want, string(raw))
		}
		r := framer{}.NewFrameReader(io.NopCloser(iotest.OneByteReader(bytes.NewReader(stream))))
		for i, w := range want {
			if got := readFrame(t, r, int(size)+1); got != w {
				t.Fatalf("frame %d: got %q, want %q", i, got, w)
			}
		}
	})
}

func readFrame(t *testing.T, r io.Reader, size int) string {
	t.Helper()
	var frame []byte
	for {
		piece := make([]byte, size)
		n, err := r.Read(piece)
		frame = append(frame, piece[:n]...)
		switch {
		case err == nil:
			return string(frame)
		case !errors.Is(err, io.ErrShortBuffer):
			t.Fatalf("after %q: %v", frame, err)
		}
	}
}

// FuzzDecode decodes any body. Objects have a kind, and JSON that does not alias
// the body.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"kind":"WidgetList","apiVersion":"example.dev/v1","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"a"}}]}`))
	f.Add([]byte(`{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"name":"a","managedFields":[]}}`))
	f.Add([]byte(status(410, metav1.StatusReasonGone)))
	f.Fuzz(func(t *testing.T, body []byte) {
		decoded, _, err := objectCodec{kind: widget}.Decode(body, nil, nil)
		if err != nil {
			return
		}
		clear(body)
		switch got := decoded.(type) {
		case *object.Object:
			checkDecoded(t, got)
		case *objectList:
			for _, o := range got.Items {
				checkDecoded(t, o)
			}
		}
	})
}

func checkDecoded(t *testing.T, o *object.Object) {
	t.Helper()
	again, err := object.Parse(o.Raw, abi.Kind{})
	if err != nil || again.Kind != o.Kind || again.Name != o.Name || !bytes.Equal(again.Raw, o.Raw) {
		t.Errorf("%s: read again: %+v, %v", o.Raw, again, err)
	}
}
