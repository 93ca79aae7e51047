package abi

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/thole-dev/thole/abi/fieldpath"
	"github.com/thole-dev/thole/abi/message"
	"github.com/thole-dev/thole/abi/rawjson"
)

// The checks of a decoded manifest against SPEC.md. They return the first error.

func (m *Manifest) check() error {
	if len(m.Controllers) == 0 {
		return rawjson.NewError("controllers", "is empty: register at least one controller")
	}
	return cmp.Or(
		CheckName("name", m.Name),
		message.CheckLength("version", len(m.Version), MaxVersion),
		message.CheckLength("memoVersion", len(m.MemoVersion), MaxVersion),
		message.CheckEach("controllers", m.Controllers, Controller.check),
		message.CheckDistinct("controllers", "name", m.Controllers, func(c Controller) string { return c.Name }),
		m.checkIndexes(),
	)
}

func (c Controller) check() error {
	return cmp.Or(
		CheckName("name", c.Name),
		rawjson.Within("for", c.For.check()),
		checkAllFollowed("owns", c.Owns),
		message.CheckEach("owns", c.Owns, checkOwned),
		checkAllFollowed("reads", c.Reads),
		c.checkWatches(),
		checkKinds("writes", c.Writes),
		message.CheckEach("indexes", c.Indexes, c.checkIndex),
		message.CheckDistinct("indexes", "name", c.Indexes, func(x Index) string { return x.Name }),
		c.checkMetadataOnly(),
		c.checkChildren(),
		c.checkPrune(),
		rawjson.Within("retry", c.Retry.check()),
		rawjson.Within("conditions", c.Conditions.check()),
	)
}

// checkKinds checks a list of kinds, which must be distinct.
func checkKinds(field string, kinds []Kind) error {
	return cmp.Or(message.CheckEach(field, kinds, Kind.check), message.CheckDistinct(field, "", kinds, Kind.String))
}

// CheckPath checks a required path to a field, such as the example.
func CheckPath(field, path, example string) error {
	if path == "" {
		return rawjson.NewError(field, "is required, such as "+example)
	}
	_, err := fieldpath.ParsePath(path)
	return cmp.Or(message.CheckLength(field, len(path), MaxFieldPath), rawjson.Within(field, err))
}

// Bounds of [Retry.Factor], in percent.
const (
	minFactor = 100
	maxFactor = 10_000
)

func (r Retry) check() error {
	switch {
	case r.Factor != 0 && (r.Factor < minFactor || r.Factor > maxFactor):
		return rawjson.NewError("factor", "must be from 100 to 10000, is "+strconv.Itoa(r.Factor)+": it is in percent, 200 doubles each delay")
	case r.Jitter > 100:
		return rawjson.NewError("jitter", "must be at most 100, is "+strconv.Itoa(r.Jitter)+": it is in percent")
	case r.Cap != 0 && r.Cap < r.Initial:
		return rawjson.NewError("cap", "is shorter than initial")
	case r.Then != "" && r.Then != ThenStalled && r.Then != ThenCap:
		return rawjson.NewError("then", rawjson.Quote(string(r.Then))+" is not one of stalled, cap")
	case r.Then != "" && r.Attempts == 0:
		return rawjson.NewError("then", "has no effect without attempts")
	}
	return nil
}

// Types of the conditions that the host sets for every controller.
const (
	conditionReconciling = "Reconciling"
	conditionStalled     = "Stalled"
)

func (c Conditions) check() error {
	return cmp.Or(
		rawjson.Within("target", checkTarget(c.Target)),
		checkTypes("owned", c.Owned),
		checkTypes("summarized", c.Summarized),
		checkTypes("negativePolarity", c.NegativePolarity),
		checkPolarity(c.NegativePolarity, "neither in summarized nor in owned", c.Summarized, c.Owned),
		c.checkSummaries(),
	)
}

// checkSummaries checks each summary with the targets that are not computed
// before it. These cannot be summarized.
func (c Conditions) checkSummaries() error {
	later := []string{c.TargetOrReady()}
	for _, s := range slices.Backward(c.Summaries) {
		later = append(later, s.Target)
	}
	return cmp.Or(
		message.CheckDistinct("summaries", "target", c.Summaries, func(s Summary) string { return s.Target }),
		message.CheckEach("summaries", c.Summaries, func(s Summary) error {
			err := s.check(later)
			later = later[:len(later)-1]
			return err
		}),
	)
}

// check checks a summary. later has conditions.target, the targets that are
// computed after this one, and this one.
func (s Summary) check(later []string) error {
	switch {
	case s.Target == "":
		return rawjson.NewError("target", "is required")
	case s.Target == DefaultTarget, s.Target == later[0]:
		return rawjson.NewError("target", rawjson.Quote(s.Target)+" can only be conditions.target; choose another type")
	case len(s.Summarized) == 0:
		return rawjson.NewError("summarized", "is empty: list the types that "+rawjson.Quote(s.Target)+" depends on")
	}
	return cmp.Or(
		rawjson.Within("target", checkTarget(s.Target)),
		checkTypes("summarized", s.Summarized),
		message.CheckEach("summarized", s.Summarized, func(t string) error { return checkEarlier(t, later) }),
		checkTypes("negativePolarity", s.NegativePolarity),
		checkPolarity(s.NegativePolarity, "not in summarized", s.Summarized),
	)
}

// checkEarlier refuses to summarize a target that is not computed yet.
func checkEarlier(t string, later []string) error {
	if !slices.Contains(later, t) {
		return nil
	}
	return rawjson.NewError("", rawjson.Quote(t)+" is a target that is not computed before this one; list its summary first")
}

// checkTarget checks the type of the summary. It cannot be one that the host computes from
// other rules.
func checkTarget(t string) error {
	switch t {
	case "":
		return nil
	case conditionReconciling, conditionStalled:
		return rawjson.NewError("", t+" is set by the host; choose another type, such as Ready")
	}
	return checkConditionType(t)
}

// checkTypes checks a list of condition types, which must be distinct.
func checkTypes(field string, types []string) error {
	return cmp.Or(
		message.CheckEach(field, types, checkConditionType),
		message.CheckDistinct(field, "", types, func(t string) string { return t }),
	)
}

// checkPolarity refuses a type that none of the other lists has; missing says so.
// It is misspelt: its polarity would have no effect.
func checkPolarity(negative []string, missing string, others ...[]string) error {
	known := slices.Concat(append(others, []string{conditionReconciling, conditionStalled})...)
	return message.CheckEach("negativePolarity", negative, func(t string) error {
		if slices.Contains(known, t) {
			return nil
		}
		return rawjson.NewError("", rawjson.Quote(t)+" is "+missing+rawjson.DidYouMean(t, known))
	})
}
