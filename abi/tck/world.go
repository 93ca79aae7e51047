package tck

import "github.com/thole-dev/thole/abi"

// Object is the one object of the world in which the guests run.
const Object = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"tck","namespace":"default"},"data":{"greeting":"hello"}}`

// Get answers the capability get as the host under test must: [Object] for
// ConfigMap default/tck, not found for anything else, invalid for a message
// that cannot be read.
func Get(call []byte) (reply []byte, code int64) {
	message, err := abi.DecodeGetCall(call)
	switch {
	case err != nil:
		return nil, abi.CodeInvalid
	case message.Ref == present():
		return []byte(Object), 0
	}
	return nil, abi.CodeNotFound
}

// List answers the capability list: [Object] where ConfigMaps are asked for,
// an empty list for other kinds.
func List(call []byte) (reply []byte, code int64) {
	message, err := abi.DecodeListCall(call)
	if err != nil {
		return nil, abi.CodeInvalid
	}
	out := &abi.ListReply{}
	if message.APIVersion == "v1" && message.Kind == "ConfigMap" {
		out.Items = [][]byte{[]byte(Object)}
	}
	return abi.EncodeListReply(out), 0
}

func present() abi.Ref {
	return abi.Ref{APIVersion: "v1", Kind: "ConfigMap", Namespace: "default", Name: "tck"}
}
