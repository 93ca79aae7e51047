// Package schedule shares the host's execution slots among plugins: how many
// guest calls run at once, whose turn is next, and when a running call hands
// its slot over. It knows nothing of the engine.
//
// A call begins with [Plugin.Acquire], asks [Turn.Yield] at each of its ticks,
// marks the host functions in which it may block with [Turn.Leave] and
// [Turn.Return], and ends with [Turn.Release].
//
// Guarantees:
//   - At most as many calls as there are slots run at once.
//   - A free slot goes to the plugin that has used the least slot time of
//     those that wait; among equals they take turns. What a plugin has not
//     used is remembered as [credit] at most. Calls of one plugin are served
//     in the order in which they queued.
//   - A call that has had its slot for a quantum hands it over at its next
//     tick if anybody else is to have it, and queues again.
//   - With two slots or more, long calls hold all but one: beside them a short
//     call never waits. Long are calls that have run for a quantum, and all
//     calls of a heavy plugin (heavy.go). Who is alone may have all slots.
//   - A call that has been in a host function for a quantum does not hold a
//     slot that others wait for.
//   - A call whose context ends stops waiting and holds no slot.
package schedule
