package abi

import (
	"slices"

	"github.com/thole-dev/thole/abi/rawjson"
)

// Conditions that every controller has; see [Conditions].
const (
	conditionReconciling = "Reconciling"
	conditionStalled     = "Stalled"
)

// check holds a decoded manifest against SPEC.md, "Manifest".
func (m *Manifest) check() error {
	if len(m.Controllers) == 0 {
		return broken("controllers", "is empty: register at least one controller")
	}
	return firstOf(
		checkLabel("name", m.Name),
		tooLong("version", len(m.Version), MaxVersion),
		tooLong("memoVersion", len(m.MemoVersion), MaxVersion),
		each("features", m.Features, checkFeature),
		each("controllers", m.Controllers, Controller.check),
		distinct("controllers", "name", m.Controllers, func(c Controller) string { return c.Name }),
	)
}

func checkLabel(path, s string) error {
	if ValidName(s) {
		return nil
	}
	return broken(path, rawjson.Quote(s)+" is not a DNS label (lower case letters, digits and dashes, at most 63)")
}

func checkFeature(name string) error {
	if slices.Contains(Features(), name) {
		return nil
	}
	return broken("", rawjson.Quote(name)+" is not known to this host: the plugin needs a newer one")
}

func (c Controller) check() error {
	return firstOf(
		checkLabel("name", c.Name),
		at("for", c.For.check()),
		checkKinds("owns", c.Owns),
		checkKinds("reads", c.Reads),
		checkKinds("writes", c.Writes),
		at("conditions", c.Conditions.check()),
	)
}

func checkKinds(field string, kinds []Kind) error {
	return firstOf(each(field, kinds, Kind.check), distinct(field, "", kinds, Kind.String))
}

func (c Conditions) check() error {
	return firstOf(
		at("target", checkTarget(c.Target)),
		checkTypes("owned", c.Owned),
		checkTypes("summarized", c.Summarized),
		checkTypes("negativePolarity", c.NegativePolarity),
		each("negativePolarity", c.NegativePolarity, c.checkPolarity),
	)
}

func checkTarget(t string) error {
	switch t {
	case "":
		return nil
	case conditionReconciling, conditionStalled:
		return broken("", t+" is set by the host; choose another type, such as Ready")
	}
	return checkConditionType(t)
}

func checkTypes(field string, types []string) error {
	return firstOf(each(field, types, checkConditionType), distinct(field, "", types, func(t string) string { return t }))
}

// checkPolarity finds a type that was misspelt: its polarity would not count.
func (c Conditions) checkPolarity(t string) error {
	known := slices.Concat(c.Summarized, c.Owned, []string{conditionReconciling, conditionStalled})
	if slices.Contains(known, t) {
		return nil
	}
	message := rawjson.Quote(t) + " is in neither summarized nor owned"
	if near, ok := rawjson.Nearest(t, known); ok {
		message += ", did you mean " + rawjson.Quote(near) + "?"
	}
	return broken("", message)
}

// distinct finds an entry whose name was there before; field is the member of
// the entry that holds the name.
func distinct[T any](list, field string, entries []T, name func(T) string) error {
	seen := make(map[string]bool, len(entries))
	return each(list, entries, func(entry T) error {
		n := name(entry)
		if seen[n] {
			return at(field, broken("", rawjson.Quote(n)+" is given twice"))
		}
		seen[n] = true
		return nil
	})
}
