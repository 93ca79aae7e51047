package effect

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/object"
)

// Live reads an object from the API server for a guest; nil if there is none. It waits
// while the plugin has read more of them than it may.
func (p *Performer) Live(ctx context.Context, kind abi.Kind, key object.Key) (*object.Object, error) {
	if err := key.Validate(); err != nil {
		return nil, fmt.Errorf("get %s: %w", kind, err)
	}
	r, err := p.Store.Resource(ctx, kind)
	if err != nil {
		return nil, err
	}
	if err := p.liveReads.Wait(ctx); err != nil {
		return nil, fmt.Errorf("get %s %s: wait for a place under the limit of reads: %w", kind, key, err)
	}
	o, err := p.client.get(ctx, r, key)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return o, err
}

// Reads from the API server that guests may cause: a plugin that needs more of them
// follows the kind as a whole.
const (
	liveReadsPerSecond = 20
	liveReadsBurst     = 40
)
