package sdktest

import (
	"encoding/json"
	"errors"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/sdk"
)

// encode returns a value as JSON.
func (w *World) encode(value any) []byte {
	w.tb.Helper()
	var data []byte
	var err error
	switch v := value.(type) {
	case string:
		data, err = []byte(v), rawjson.Valid([]byte(v), abi.MaxDepth)
	case []byte:
		data, err = v, rawjson.Valid(v, abi.MaxDepth)
	default:
		data, err = json.Marshal(value)
	}
	if err != nil {
		w.tb.Fatalf("encode %T: %v", value, err)
	}
	return data
}

// merge applies a merge patch.
func (w *World) merge(target, patch []byte) []byte {
	w.tb.Helper()
	merged, err := rawjson.MergePatch(target, patch)
	if err != nil {
		w.tb.Fatalf("merge: %v", err)
	}
	return merged
}

// parse reads what identifies an object, and its metadata.
func parse(raw []byte) (*object, error) {
	o := &object{raw: raw}
	parsed := struct {
		*sdk.TypeMeta
		Metadata *sdk.ObjectMeta `json:"metadata"`
	}{(*sdk.TypeMeta)(&o.kind), &o.meta}
	if err := json.Unmarshal(raw, &parsed); err != nil {
		return nil, err
	}
	o.namespace, o.name = o.meta.Namespace, o.meta.Name
	if o.kind.APIVersion == "" || o.kind.Kind == "" || o.name == "" {
		return nil, errors.New("apiVersion, kind and metadata.name are required")
	}
	return o, nil
}
