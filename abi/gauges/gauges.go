// Package gauges is what hosts and guests share of the capability by which the host counts the objects of a
// controller. SPEC.md specifies it.
package gauges

import (
	"cmp"
	"strings"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/message"
	"github.com/thole-dev/thole/abi/rawjson"
)

// Name is the name of the capability: of its section in a controller of a manifest.
const Name = "gauges"

// Max is how many gauges a controller may have.
const Max = 8

// Gauge is an index by whose values the host counts the primaries of a controller.
type Gauge struct {
	Index string // the name of an index of the controller, of the primary kind
}

// Encode returns the section of a controller with these gauges.
func Encode(all []Gauge) []byte { return message.EncodeArray(all, (*Gauge).fields) }

// Decode decodes the section of a controller. Every error is a [*rawjson.Error].
func Decode(section []byte) ([]Gauge, error) {
	return message.DecodeArray(section, Max, (*Gauge).fields)
}

// Check checks the section of a controller, see [abi.Manifest.CheckSections].
func Check(c *abi.Controller, section []byte) error {
	all, err := Decode(section)
	if err != nil {
		return err
	}
	return cmp.Or(
		message.CheckEach("", all, func(g Gauge) error { return rawjson.Within("index", g.check(c)) }),
		message.CheckDistinct("", "index", all, func(g Gauge) string { return g.Index }),
	)
}

func (g *Gauge) fields(f *message.Fields) { f.Required("index", &g.Index) }

// check refuses what would publish the content of credentials: the values are in metrics.
func (g Gauge) check(c *abi.Controller) error {
	x, err := c.PrimaryIndex(g.Index)
	switch {
	case err != nil:
		return err
	case c.For.Sensitive() && !strings.HasPrefix(x.Field, "metadata."):
		return rawjson.NewError("", rawjson.Quote(g.Index)+" would publish the content of "+c.For.Kind.String()+" in metrics: name one by a field of the metadata")
	}
	return nil
}
