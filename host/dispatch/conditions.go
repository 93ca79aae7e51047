package dispatch

import (
	"time"

	"github.com/thole-dev/thole/abi/rawjson"
	"github.com/thole-dev/thole/host/outcome"
)

// readConditions returns status.conditions of an object. What is not of the
// form of metav1.Condition is left out.
func readConditions(raw []byte) []outcome.Condition {
	list, ok := rawjson.Lookup(raw, "status", "conditions")
	if !ok {
		return nil
	}
	var conditions []outcome.Condition
	r := rawjson.NewReader(list)
	r.Array(func(int) {
		var c outcome.Condition
		r.Object(func(field string) { readCondition(r, field, &c) })
		conditions = append(conditions, c)
	})
	if r.End() != nil {
		return nil
	}
	return conditions
}

func readCondition(r *rawjson.Reader, field string, c *outcome.Condition) {
	switch field {
	case "type":
		c.Type = r.String()
	case "status":
		c.Status = r.String()
	case "reason":
		c.Reason = r.String()
	case "message":
		c.Message = r.String()
	case "lastTransitionTime":
		// A time that does not parse is none: the next write sets it.
		c.LastTransitionTime, _ = time.Parse(time.RFC3339, r.String())
	case "observedGeneration":
		c.ObservedGeneration = r.Int()
	}
}
