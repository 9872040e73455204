// Package timer is the dynamic delayed task engine: timers that activity pushes back.
//
// A timer is armed with an idle time and an optional cap. It is due at min(last + idle, first +
// max), where last is the latest activity and first the earliest. It is delivered at least once to
// the handler of its kind, which is idempotent by (key, gen): a fired timer is a suspicion that the
// handler checks against the truth, never a command.
//
// Activity does not move the index entry of a timer. A touch only stores last; the index holds a
// lower bound of the due time, and when the entry comes up the due time is computed again and the
// entry goes back if that is later. An upload of ten thousand parts costs one index entry and a few
// moves of it, instead of ten thousand moves.
//
// What it is not: the truth. A Queue may forget everything at any moment; it then reports a new
// epoch, and the owner arms again from its own rows (Options.Lost).
//
// Words: an entry is pending until it is due, then leased to an engine under a token until its
// outcome is settled; a lease that runs out is delivered again unchanged. gen fences: a smaller one
// never replaces a greater one.
//
// Invariants (docs/invariants.md): T1 a timer never fires before min(the last touch that its queue
// received + idle, first + max), by the queue's clock. T2 it is late by at most a tick plus
// backlog, or by the outage. T3 its effect happens once, however often it is delivered: that one is
// the handler's.
package timer
