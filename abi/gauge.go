package abi

import (
	"cmp"

	"github.com/thole-dev/thole/abi/message"
	"github.com/thole-dev/thole/abi/rawjson"
)

// This file has the gauges of a manifest: SPEC.md, "Gauge".

// Gauge is a field by whose values the host counts the primaries of a controller.
type Gauge struct {
	Name  string // a DNS label, distinct within the controller: the label field of the metric
	Field string // a path such as status.phase, see [fieldpath.Path]
}

func (g *Gauge) fields(f *message.Fields) {
	f.Required("name", &g.Name)
	f.Required("field", &g.Field)
}

// checkGauge refuses what would publish the content of credentials: the values of a gauge are in
// metrics.
func (c Controller) checkGauge(g Gauge) error {
	if err := cmp.Or(CheckName("name", g.Name), checkPath("field", g.Field, "status.phase"), c.checkPrimaryField(g.Field)); err != nil {
		return err
	}
	if c.For.Sensitive() && !isMetadata(g.Field) {
		return rawjson.NewError("field", "would publish the content of "+c.For.Kind.String()+" in metrics: use a field of the metadata")
	}
	return nil
}
