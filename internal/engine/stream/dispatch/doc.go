// Package dispatch carries fired timers from the instances that watch the queue to those that do
// the work, over the stream: what the schedulers publish, the workers take (SOURCES D1, D2).
// Without a broker nobody needs it: the engine calls the handlers itself.
//
//	queue ──fires──► Engine ──Publish──► smartdrive.park     ──► Consumers ──► timer.Handler ──ok────► done
//	  ▲                 │                smartdrive.reclaim                          ├──Later──► Arm again, same gen
//	  │                 └─ durable there: settled Done                              ├──Unavailable: the consumer pauses
//	  └──────────────────────────── Arm ◄───────────────────────────────────────────┘──fails──► delay levels, dead letters
//
// A timer is settled only when its record is durable, so a crash between the two publishes it
// again: under the same event id, because the id is made of key, gen and the token of the lease.
// Handlers are idempotent by (key, gen) as ever (T3): a record that comes late, twice, or after the
// row has moved on finds nothing to do.
//
// Park moves amounts in the ledger only; everything else is I/O and goes the other way, so that no
// reclaim delays a park. Reclaims are bounded for each account: those of one account wait for each
// other, not others for them.
//
// Exceptions to "attempts": Unavailable and Stopping consume none, however long the outage. A
// handler that overruns Limit has failed, whatever it says, or one bad timer would stop its
// consumer for ever.
package dispatch
