// Package outcome is the pure decision: it turns how a run ended, the tries
// before it and the object that the guest was given into the next run, the
// conditions, observedGeneration, the event and the metric. It does no I/O and
// reads no clock; everything else calls it.
//
// It follows the design's result table, which is the data in rows.go, and the
// document flux-result-computation, which wins over Flux's library.
//
// # Who decides the target condition
//
// The target (Ready unless the manifest names another) is, in this order:
//
//  1. False with the failure's reason and message, when the run failed and
//     Stalled or Reconciling decides the summary: a declared condition that is
//     True with negative polarity tells more;
//  2. the summary of the declared conditions, when it is False: a guest cannot
//     claim Ready against a condition of its own;
//  3. what the guest claimed for it, as far as the outcome allows: anything
//     with success or empty, only False while Reconciling is True;
//  4. the summary;
//  5. True/Succeeded on success, else unchanged. Unchanged but absent becomes
//     Unknown: kstatus takes an object without Ready for current.
//
// The summary is that of Flux: a condition that is True with negative
// polarity decides, then one that is False with positive polarity, then the
// good ones with positive before negative polarity, then Unknown; among equals
// the first in the order of the manifest. Stalled and Reconciling are always
// part of it, with negative polarity, after the declared ones.
//
// # Whose conditions are written
//
// Only those of the controller: its target, Stalled, Reconciling and what its
// manifest lists as owned. A result that names another one breaks the
// contract. When observedGeneration is written, every owned condition on the
// object gets that generation too: the run has seen it and let it stand.
//
// A controller with a target other than Ready shares the kind with the one
// that targets Ready. Stalled, Reconciling and observedGeneration belong to
// that one; they enter the other's summary but are not written by it.
package outcome
