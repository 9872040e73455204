// Package dispatch carries fired timers over the stream from the schedulers, the instances that
// lease timers, to the workers (SOURCES D1, D2). Without a broker the timer engine calls the
// handlers directly.
//
//	queue ──fires──► Engine ──Publish──► smartdrive.park     ──► Consumers ──► timer.Handler ──ok────► done
//	  ▲                 │                smartdrive.reclaim                          ├──Later──► Arm again, same gen
//	  │                 └─ durable there: settled Done                              ├──Unavailable: the consumer pauses
//	  └──────────────────────────── Arm ◄───────────────────────────────────────────┘──fails──► delay levels, dead letters
//
// A timer is settled only after its record is durable. A crash in between publishes the timer again
// under the same event id, which is derived from key, gen and lease token. Handlers are idempotent
// by (key, gen) (T3), so a late or repeated record has no effect.
//
// Park timers only change the ledger and have their own topic, so that the I/O of reclaims does not
// delay them. The reclaims that run at once for one account are limited; other accounts do not wait
// for them.
//
// Unavailable and Stopping consume no attempt, however long the outage. A handler that exceeds
// Limit has failed, whatever error it returns; otherwise one bad timer would block its consumer
// forever.
package dispatch
