package effect

import (
	"slices"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/abi/rawjson"
)

// listed is one condition of an object.
type listed struct {
	typ, status string
	raw         []byte // with what only its writer knows
}

// mergeConditions returns the list of conditions that status is to have, and
// whether it is another one. Those of other writers stay as they are and
// where they are, so do unknown members of our own.
func (p *Performer) mergeConditions(kind abi.Kind, status []byte, want Status) (list []byte, changed bool, err error) {
	if len(want.Set)+len(want.Remove) == 0 {
		return nil, false, nil
	}
	before, err := readConditions(status)
	if err != nil {
		return nil, false, err
	}
	now := p.Now().UTC().Format(time.RFC3339)
	after := slices.DeleteFunc(slices.Clone(before), func(c listed) bool { return slices.Contains(want.Remove, c.typ) })
	changed = len(after) < len(before)
	for _, c := range want.Set {
		i := slices.IndexFunc(after, func(l listed) bool { return l.typ == c.Type })
		if i < 0 {
			i = len(after)
			after = append(after, listed{typ: c.Type})
		}
		merged, err := after[i].merge(p.pruned.condition(kind, c.member(now)))
		if err != nil {
			return nil, false, err
		}
		changed = changed || !rawjson.Equal(after[i].raw, merged)
		after[i].raw = merged
	}
	return writeConditions(after), changed, nil
}

func readConditions(status []byte) (conditions []listed, err error) {
	list, ok := rawjson.Lookup(status, "conditions")
	if !ok || string(list) == "null" {
		return nil, nil
	}
	return readConditionList(list)
}

func readConditionList(list []byte) (conditions []listed, err error) {
	elements, err := rawjson.Elements(list)
	if err != nil {
		return nil, err
	}
	for _, e := range elements {
		c := listed{raw: e}
		r := rawjson.NewReader(e)
		r.Object(func(name string) {
			switch name {
			case "type":
				c.typ = r.String()
			case "status":
				c.status = r.String()
			}
		})
		if err := r.End(); err != nil {
			return nil, err
		}
		conditions = append(conditions, c)
	}
	return conditions, nil
}

func writeConditions(conditions []listed) []byte {
	w := rawjson.NewWriter(nil)
	w.Array(func() {
		for _, c := range conditions {
			w.Raw(c.raw)
		}
	})
	return w.Bytes()
}

// member returns the members of a condition; now is for one whose status
// changes.
func (c Condition) member(now string) []rawjson.Member {
	text := func(name, value string) rawjson.Member {
		return rawjson.Member{Name: name, Value: rawjson.AppendString(nil, value)}
	}
	members := []rawjson.Member{
		text("type", c.Type), text("status", c.Status),
		text(transitionTime, now), text("reason", c.Reason), text("message", c.Message),
	}
	if c.ObservedGeneration != 0 {
		w := rawjson.NewWriter(nil)
		w.Int(c.ObservedGeneration)
		members = append(members, rawjson.Member{Name: "observedGeneration", Value: w.Bytes()})
	}
	return members
}

const transitionTime = "lastTransitionTime"

// merge returns the condition with the given members. lastTransitionTime
// stays with the status.
func (l listed) merge(members []rawjson.Member) ([]byte, error) {
	since, timed := rawjson.Lookup(l.raw, transitionTime)
	keep := timed && string(since) != "null" && l.sameStatus(members)
	w := rawjson.NewWriter(nil)
	w.Object(func() {
		for _, m := range members {
			if !keep || m.Name != transitionTime {
				w.Name(m.Name).Raw(m.Value)
			}
		}
	})
	return rawjson.MergePatch(l.raw, w.Bytes())
}

func (l listed) sameStatus(members []rawjson.Member) bool {
	status, _ := find(members, "status")
	return string(status) == quote(l.status)
}
