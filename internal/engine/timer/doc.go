// Package timer runs delayed tasks whose due time moves back on activity (dynamic delayed tasks).
//
// A timer is armed with an idle time and an optional cap. It is due at min(last + idle, first +
// max), where last is the latest activity and first the earliest. The engine delivers it at least
// once to the handler of its kind. The handler is idempotent by (key, gen) and checks the database
// before it acts: a fired timer only says that something may be due.
//
// A touch only stores last; it does not move the index entry of the timer. The index holds a lower
// bound of the due time. When the entry is reached, the due time is computed again, and the entry
// is moved if the timer is not due yet. An upload of ten thousand parts so costs one index entry
// and a few moves of that entry.
//
// A Queue is not the source of truth and may lose all timers at any moment. It then reports a new
// epoch, and the owner arms its timers again from its own rows (Options.OnLoss).
//
// Terms: an entry is pending until it is due. It is then leased to an engine under a token until
// its outcome is settled. An expired lease is delivered again unchanged. gen is a fencing token: an
// entry with a smaller gen never replaces one with a greater gen.
//
// Invariants (docs/invariants.md): T1: a timer never fires before min(last touch that its queue
// received + idle, first + max), by the queue's clock. T2: a timer fires late by at most a tick
// plus the backlog, or by the length of an outage. T3: a timer has its effect once, however often
// it is delivered; the handler ensures T3.
package timer
