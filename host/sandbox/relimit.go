package sandbox

import (
	"context"
	"fmt"
)

// Relimit loads the module of a guest once more, under other limits and from
// the native code that is there: it is neither read nor compiled again. Both
// guests live on their own and are closed on their own. Errors are those of
// [Sandbox.Load]; [ErrClosed] also says that g was closed before.
func (s *Sandbox) Relimit(ctx context.Context, g *Guest, limits Limits) (*Guest, error) {
	next, err := s.prepare(Plugin{Name: g.name, Digest: g.digest, Source: g.source, Limits: limits})
	if err != nil {
		return nil, err
	}
	if !g.code.Share() {
		next.free(context.WithoutCancel(ctx))
		return nil, fmt.Errorf("load plugin %q: %w", g.name, ErrClosed)
	}
	next.code, next.seed, next.digest = g.code, g.seed, g.digest
	next.mode, next.minimum, next.imports, next.globals = g.mode, g.minimum, g.imports, g.globals
	err = next.first(ctx)
	if err == nil {
		err = s.add(next)
	}
	if err != nil {
		next.free(context.WithoutCancel(ctx))
		return nil, err
	}
	return next, nil
}
