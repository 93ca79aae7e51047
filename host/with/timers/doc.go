// Package timers is the capability by which objects run at times of their own, by schedules of their controller
// (abi/timers/SPEC.md).
//
//	capability.go the declaration, and what it does with each controller
//	schedule      when the timers of an object are due, as a function of time
//
// The schedule of an object is its state in the core (dispatch.Hooks), so that it goes with the object. Between
// two runs the queue has the time of the earliest timer. A run that is parked has not ended.
package timers
