package dispatch

import (
	"context"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// Access is what the service account of a plugin may do with objects of the kinds that the
// plugin follows, as the API server decides.
type Access interface {
	// May returns nil if the account may use a verb on an object, on all objects of a
	// namespace if the key has no name, or on all that there are if it has no namespace
	// either. The error is an [access.DeniedError], or that of asking.
	May(ctx context.Context, verb string, kind abi.Kind, key object.Key) error
	// Known is May without asking: known is false if the answer is not remembered.
	Known(verb string, kind abi.Kind, key object.Key) (allowed, known bool)
}
