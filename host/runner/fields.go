package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/host/cache/openapi"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/object"
)

// This file looks into the schemas of kinds: it refuses manifests with fields that their kinds do not
// have, and finds out what of a status has a place there.

// declaredField is a field of a kind that a manifest names.
type declaredField struct {
	in   string // where the manifest names it
	kind abi.Kind
	path fieldpath.Path
}

// declaredFields returns the fields of the indexes and watches of a manifest, and where
// the conditions are that it names of a built-in kind. A custom kind may get them later: until
// then the API server prunes them.
func declaredFields(m *abi.Manifest) (all []declaredField) {
	add := func(in string, kind abi.Kind, field string) {
		if path, err := fieldpath.ParsePath(field); err == nil { // else it is no field: the manifest was checked
			all = append(all, declaredField{in, kind, path})
		}
	}
	for _, c := range m.Controllers {
		if object.BuiltIn(c.For.Group()) && object.AsksForConditions(&c) {
			add(fmt.Sprintf("controller %q: conditions, for which the kind has no place: remove Conditions from the controller", c.Name), c.For.Kind, "status.conditions[*].type")
		}
		for _, x := range c.Indexes {
			add(fmt.Sprintf("controller %q: index %q", c.Name, x.Name), x.Kind, x.Field)
		}
		for _, w := range c.Watches {
			if w.By == abi.WatchByField {
				add(fmt.Sprintf("controller %q: watches of %s by field", c.Name, w.Kind), c.For.Kind, w.Field)
			}
		}
	}
	return all
}

// checkFields returns an error if the manifest names a field that its kind does not
// have. A revision whose fields cannot be checked runs: what is looked for by a field
// that does not exist is not found.
func (s *start) checkFields(ctx context.Context) error {
	byKind := map[abi.Kind][]fieldpath.Path{}
	declared := declaredFields(s.rev.Manifest)
	for _, f := range declared {
		byKind[f.kind] = append(byKind[f.kind], f.path)
	}
	for _, f := range declared { // in the order of the manifest
		paths := byKind[f.kind]
		if paths == nil {
			continue // the kind was checked
		}
		byKind[f.kind] = nil
		s.setWaitsFor(s.rev.Plugin, "the schema of "+f.kind.String())
		err := s.Cache.CheckFields(ctx, f.kind, paths...)
		unknown, found := errors.AsType[*openapi.UnknownFieldError](err)
		switch {
		case found:
			return kindError{fmt.Errorf("%s: %w", nameOf(declared, unknown), unknown)}
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			s.Logger.Warn("the fields of indexes, watches and conditions are not checked: nothing is found or written that does not exist",
				"plugin", s.rev.Plugin, "kind", f.kind.String(), "error", err)
		}
	}
	return nil
}

// nameOf returns where a manifest names a field first.
func nameOf(declared []declaredField, of *openapi.UnknownFieldError) string {
	i := slices.IndexFunc(declared, func(f declaredField) bool { return f.kind == of.Kind && f.path.String() == of.Path.String() })
	return declared[max(i, 0)].in
}

// planStatus reads the schemas of the statuses that the host writes, and logs what it leaves out. A schema
// that cannot be read is looked for again when a status is written.
func (s *start) planStatus(ctx context.Context) error {
	for i := range s.rev.Manifest.Controllers {
		c := &s.rev.Manifest.Controllers[i]
		kind := c.For.Kind
		if object.BuiltIn(kind.Group()) || !object.HasConditions(c) {
			continue
		}
		s.setWaitsFor(s.rev.Plugin, "the schema of "+kind.String())
		schema, err := s.Cache.StatusSchema(ctx, kind, 0)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		logger := s.Logger.With("plugin", s.rev.Plugin, "controller", c.Name, "kind", kind.String())
		if err != nil {
			logger.Debug("the schema of the status is not known yet: the API server decides what has a place there", "error", err)
			continue
		}
		resource, err := s.Cache.Resource(ctx, kind)
		if err != nil {
			return err
		}
		plan := effect.PlanStatus(c, resource, schema)
		if len(plan.LeftOut) > 0 {
			logger.Warn("the schema has no place for some of what the host writes into the status, which is left out: "+
				"change the CustomResourceDefinition, if it is yours", "leftOut", plan.LeftOut)
		}
		if len(plan.Needs) > 0 {
			logger.Info("the host writes nothing into the status before the plugin has written what the schema requires", "required", plan.Needs)
		}
	}
	return nil
}
