package abi

import (
	"encoding/base64"
	"time"

	"github.com/thole-dev/thole/abi/rawjson"
)

// EncodeManifest returns the text of a manifest. Optional fields of zero value
// are left out.
func EncodeManifest(m *Manifest) []byte {
	w := rawjson.NewWriter(nil)
	w.Object(func() {
		w.Name("name").String(m.Name)
		writeString(w, "version", m.Version)
		writeString(w, "memoVersion", m.MemoVersion)
		writeStrings(w, "features", m.Features)
		w.Name("controllers").Array(func() {
			for i := range m.Controllers {
				writeController(w, &m.Controllers[i])
			}
		})
	})
	return w.Bytes()
}

func writeController(w *rawjson.Writer, c *Controller) {
	w.Object(func() {
		w.Name("name").String(c.Name)
		w.Name("for")
		writeKind(w, c.For)
		writeKinds(w, "owns", c.Owns)
		writeKinds(w, "reads", c.Reads)
		writeKinds(w, "writes", c.Writes)
		writeBool(w, "finalizer", c.Finalizer)
		writeInt(w, "interval", c.Interval)
		writeInt(w, "timeout", c.Timeout)
		writeInt(w, "concurrency", int64(c.Concurrency))
		if !c.Conditions.empty() {
			w.Name("conditions").Object(func() {
				writeString(w, "target", c.Conditions.Target)
				writeStrings(w, "owned", c.Conditions.Owned)
				writeStrings(w, "summarized", c.Conditions.Summarized)
				writeStrings(w, "negativePolarity", c.Conditions.NegativePolarity)
			})
		}
	})
}

func (c *Conditions) empty() bool {
	return c.Target == "" && len(c.Owned)+len(c.Summarized)+len(c.NegativePolarity) == 0
}

func writeKind(w *rawjson.Writer, k Kind) {
	w.Object(func() {
		w.Name("apiVersion").String(k.APIVersion)
		w.Name("kind").String(k.Kind)
	})
}

func writeKinds(w *rawjson.Writer, name string, kinds []Kind) {
	if len(kinds) == 0 {
		return
	}
	w.Name(name).Array(func() {
		for _, k := range kinds {
			writeKind(w, k)
		}
	})
}

// EncodeRequest returns the text of a request. Optional fields of zero value
// are left out; the object's bytes go in as they are.
func EncodeRequest(q *Request) []byte {
	w := rawjson.NewWriter(make([]byte, 0, len(q.Object)+len(q.Memo)+len(q.Config)+512))
	w.Object(func() {
		w.Name("controller").String(q.Controller)
		writeBool(w, "deleting", q.Deleting)
		if len(q.Reasons) > 0 {
			w.Name("reasons").Array(func() {
				for _, reason := range q.Reasons {
					w.String(string(reason))
				}
			})
		}
		writeInt(w, "attempt", int64(q.Attempt))
		if q.Previous != nil {
			w.Name("previous")
			writePrevious(w, q.Previous)
		}
		writeRaw(w, "memo", q.Memo)
		w.Name("now").String(q.Now.UTC().Format(time.RFC3339Nano))
		w.Name("seed").String(base64.StdEncoding.EncodeToString(q.Seed[:]))
		writeRaw(w, "config", q.Config)
		writeRaw(w, "object", q.Object)
	})
	return w.Bytes()
}

func writePrevious(w *rawjson.Writer, p *Previous) {
	w.Object(func() {
		w.Name("class").String(string(p.Class))
		if len(p.Failures) == 0 {
			return
		}
		w.Name("failures").Array(func() {
			for i := range p.Failures {
				writeEffectFailure(w, &p.Failures[i])
			}
		})
	})
}

func writeEffectFailure(w *rawjson.Writer, f *EffectFailure) {
	w.Object(func() {
		w.Name("verb").String(f.Verb)
		w.Name("ref")
		writeRef(w, f.Ref)
		w.Name("class").String(string(f.Class))
		writeString(w, "reason", f.Reason)
		writeString(w, "message", f.Message)
	})
}

// EncodeResult returns the text of a result. Optional fields of zero value are
// left out; raw values go in as they are and must be JSON.
func EncodeResult(out *Result) []byte {
	w := rawjson.NewWriter(make([]byte, 0, 512))
	w.Object(func() {
		writeString(w, "result", string(out.Result))
		writeInt(w, "requeueAfter", out.RequeueAfter)
		writeRaw(w, "status", out.Status)
		writeEach(w, "conditions", out.Conditions, writeCondition)
		writeRaw(w, "patch", out.Patch)
		writeEach(w, "apply", out.Apply, writeApply)
		writeEach(w, "delete", out.Delete, writeRef)
		writeEach(w, "events", out.Events, writeEvent)
		writeRaw(w, "memo", out.Memo)
		if out.Error != nil {
			w.Name("error").Object(func() {
				writeString(w, "reason", out.Error.Reason)
				writeString(w, "message", out.Error.Message)
				writeInt(w, "after", out.Error.After)
			})
		}
	})
	return w.Bytes()
}

func writeCondition(w *rawjson.Writer, c Condition) {
	w.Object(func() {
		w.Name("type").String(c.Type)
		writeString(w, "status", c.Status)
		writeString(w, "reason", c.Reason)
		writeString(w, "message", c.Message)
	})
}

func writeApply(w *rawjson.Writer, a Apply) {
	w.Object(func() {
		w.Name("object").Raw(a.Object)
		writeBool(w, "adopt", a.Adopt)
	})
}

func writeRef(w *rawjson.Writer, ref Ref) {
	w.Object(func() {
		w.Name("apiVersion").String(ref.APIVersion)
		w.Name("kind").String(ref.Kind)
		writeString(w, "namespace", ref.Namespace)
		w.Name("name").String(ref.Name)
		writeString(w, "uid", ref.UID)
	})
}

func writeEvent(w *rawjson.Writer, e Event) {
	w.Object(func() {
		w.Name("type").String(e.Type)
		w.Name("reason").String(e.Reason)
		w.Name("message").String(e.Message)
	})
}

// EncodeGetCall returns the message of the capability get.
func EncodeGetCall(c *GetCall) []byte {
	w := rawjson.NewWriter(nil)
	writeRef(w, c.Ref)
	return w.Bytes()
}

// EncodeListCall returns the message of the capability list.
func EncodeListCall(c *ListCall) []byte {
	w := rawjson.NewWriter(nil)
	w.Object(func() {
		w.Name("apiVersion").String(c.APIVersion)
		w.Name("kind").String(c.Kind)
		writeString(w, "namespace", c.Namespace)
		writeString(w, "labelSelector", c.LabelSelector)
	})
	return w.Bytes()
}

// EncodeListReply returns the reply to a [ListCall].
func EncodeListReply(reply *ListReply) []byte {
	size := 16
	for _, item := range reply.Items {
		size += len(item) + 1
	}
	w := rawjson.NewWriter(make([]byte, 0, size))
	w.Object(func() {
		w.Name("items").Array(func() {
			for _, item := range reply.Items {
				w.Raw(item)
			}
		})
	})
	return w.Bytes()
}

func writeEach[T any](w *rawjson.Writer, name string, values []T, write func(*rawjson.Writer, T)) {
	if len(values) == 0 {
		return
	}
	w.Name(name).Array(func() {
		for _, v := range values {
			write(w, v)
		}
	})
}

func writeString(w *rawjson.Writer, name, value string) {
	if value != "" {
		w.Name(name).String(value)
	}
}

func writeStrings(w *rawjson.Writer, name string, values []string) {
	writeEach(w, name, values, func(w *rawjson.Writer, s string) { w.String(s) })
}

func writeInt(w *rawjson.Writer, name string, value int64) {
	if value != 0 {
		w.Name(name).Int(value)
	}
}

func writeBool(w *rawjson.Writer, name string, value bool) {
	if value {
		w.Name(name).Bool(true)
	}
}

func writeRaw(w *rawjson.Writer, name string, value []byte) {
	if len(value) > 0 {
		w.Name(name).Raw(value)
	}
}
