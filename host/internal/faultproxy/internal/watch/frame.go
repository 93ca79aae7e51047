package watch

import (
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// frame is an event of a watch, or, in another encoding than JSON, some bytes.
type frame struct {
	bytes   []byte
	arrived time.Time
	err     error // of the end of the watch; there are no bytes then

	bookmark bool   // but none that ends the initial events
	version  string // resourceVersion of the object, "" if it has none
}

// event is what the proxy reads of an event.
type event struct {
	Type   watch.EventType
	Object struct {
		Metadata struct {
			ResourceVersion string
			Annotations     map[string]string
		}
	}
}

// isJSON reports whether the events of a reply can be read.
func isJSON(header http.Header) bool {
	mediaType, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	return err == nil && mediaType == "application/json" && header.Get("Content-Encoding") == ""
}

// frames returns a function that reads the next frame of a body.
func frames(body io.Reader, json bool) func() frame {
	if json {
		return jsonFrames(body)
	}
	buffer := make([]byte, 32<<10)
	return func() frame {
		for {
			n, err := body.Read(buffer)
			switch {
			case n > 0: // an error comes again
				return frame{bytes: append([]byte(nil), buffer[:n]...)}
			case err != nil:
				return frame{err: err}
			}
		}
	}
}

func jsonFrames(body io.Reader) func() frame {
	decoder := json.NewDecoder(body)
	return func() frame {
		var raw json.RawMessage
		if err := decoder.Decode(&raw); err != nil {
			return frame{err: err}
		}
		var e event
		_ = json.Unmarshal(raw, &e) // what is no event passes unchanged
		return frame{
			bytes:    append(raw, '\n'),
			bookmark: e.Type == watch.Bookmark && e.Object.Metadata.Annotations[metav1.InitialEventsAnnotationKey] == "",
			version:  e.Object.Metadata.ResourceVersion,
		}
	}
}

// withVersion returns a bookmark with another resourceVersion.
func (f frame) withVersion(version string) (frame, error) {
	var bookmark struct {
		Type   watch.EventType `json:"type"`
		Object map[string]any  `json:"object"`
	}
	err := json.Unmarshal(f.bytes, &bookmark)
	if err == nil {
		err = unstructured.SetNestedField(bookmark.Object, version, "metadata", "resourceVersion")
	}
	if err == nil {
		f.bytes, err = json.Marshal(bookmark)
	}
	f.bytes, f.version = append(f.bytes, '\n'), version
	return f, err
}

// Gone returns the event by which a server ends a watch whose resourceVersion is
// too old.
func Gone() []byte {
	status := apierrors.NewResourceExpired("too old resource version").Status()
	status.Kind, status.APIVersion = "Status", "v1"
	text, err := json.Marshal(map[string]any{"type": watch.Error, "object": status})
	if err != nil {
		panic(err) // a Status is JSON
	}
	return append(text, '\n')
}
