package catalog

import (
	"bytes"
	"context"
)

// restrict has what runs follow the policy of a module that does not run:
// what an administrator takes away is gone, whatever the code beside it.
func (s *slot) restrict(ctx context.Context, m *Module) error {
	if s.current == nil || bytes.Equal(s.current.Policy, m.Policy) {
		return nil
	}
	g, err := s.underPolicy(ctx, s.current, m.Policy)
	if err != nil {
		return err
	}
	if err := s.replace(ctx, g); err != nil {
		s.free(g)
		return err
	}
	return nil
}

// alsoRestrict does so for a module that cannot be loaded or started for
// another reason, or waits; again says that trying later may help.
func (s *slot) alsoRestrict(ctx context.Context, m *Module, why error) (again bool) {
	if why == nil {
		s.unfit = nil
	}
	if why == nil || m.Err != nil || s.rejected != nil || step(why) == "policy" || ctx.Err() != nil {
		return false
	}
	err := s.restrict(ctx, m)
	switch {
	case err == nil:
	case mayPass(err):
		return true
	case ctx.Err() == nil && !bytes.Equal(s.unfit, m.Policy): // told once, while the module waits
		s.unfit = m.Policy
		s.c.Logger.Error("the policy does not fit what runs, which goes on under the one before", "plugin", s.name, "error", err)
	}
	return false
}
