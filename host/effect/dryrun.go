package effect

import (
	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/object"
)

// In a dry run (KEP-576) every write is sent with dryRun=All: the API server
// checks and admits it, answers what it would have made of it, and stores
// nothing. What would have changed is logged.

// bookkeeping is what changes with every write and tells nobody anything.
var bookkeeping = []byte(`{"metadata":{"resourceVersion":null,"generation":null,"uid":null,"creationTimestamp":null}}`)

// rehearsed logs what a write would have changed; before is nil if it would
// have created the object.
func (p *Performer) rehearsed(verb string, before, after *object.Object) {
	logger := p.Logger.With("verb", verb, "object", describe(after.Kind, after.Key()))
	if before == nil {
		logger.Info("dry run: would create", "content", string(secretive(after.Kind, strip(after.Raw))))
		return
	}
	diff, err := rawjson.Diff(strip(before.Raw), strip(after.Raw))
	switch {
	case err != nil:
		logger.Warn("dry run: would change, the difference cannot be told", "error", err)
	case diff != nil:
		logger.Info("dry run: would change", "difference", string(secretive(after.Kind, diff)))
	}
}

// strip leaves out bookkeeping. What cannot be read stays as it is.
func strip(raw []byte) []byte {
	if out, err := rawjson.MergePatch(raw, bookkeeping); err == nil {
		return out
	}
	return raw
}

// secretive hides the values of a Secret: only their names are told.
func secretive(kind abi.Kind, text []byte) []byte {
	if kind.APIVersion != "v1" || kind.Kind != "Secret" {
		return text
	}
	members, err := rawjson.Members(text)
	if err != nil {
		return []byte("{}")
	}
	w := rawjson.NewWriter(nil)
	w.Object(func() {
		for _, m := range members {
			w.Name(m.Name)
			if m.Name == "data" || m.Name == "stringData" {
				hideValues(w, m.Value)
				continue
			}
			w.Raw(m.Value)
		}
	})
	return w.Bytes()
}

func hideValues(w *rawjson.Writer, object []byte) {
	members, err := rawjson.Members(object)
	if err != nil {
		w.String("hidden")
		return
	}
	w.Object(func() {
		for _, m := range members {
			w.Name(m.Name).String("hidden")
		}
	})
}
