package timer

import (
	"context"
	"math"
	"time"

	"example.org/smartdrive/internal/base/drive"
)

// Queue stores timers and leases due ones. Several engines may share a queue, and a queue may lose
// timers.
//
// A caller may repeat every call after a lost reply. A call fails with Unavailable if the queue is
// unreachable; the caller then does not know whether the call had an effect.
type Queue interface {
	// Arm adds or updates timers, each on its own: a failed call may have armed some of them.
	// Without an entry under the key, or with one of a smaller gen, Arm stores a new entry. An
	// entry of a greater gen stays unchanged. For a pending entry of the same gen, Arm replaces
	// account, idle and max, only raises last, only lowers first, ends a Snooze, and moves the
	// index entry if the timer is now due earlier. For a leased entry of the same gen, Arm
	// stores a new entry and voids the lease.
	Arm(ctx context.Context, entries []Entry) error
	// Touch records activity of the watched object at the current time of the queue's clock. It
	// never blocks and reports no error: a remote queue collects touches and sends them in the
	// background. A key without a timer is ignored.
	Touch(key Key)
	// Cancel removes the timer and voids its lease if the timer's gen is at most gen. A missing
	// timer is not an error.
	Cancel(ctx context.Context, key Key, gen int64) error
	// Lease leases up to limit due timers of one kind for the duration hold (T1). Timers with
	// an expired lease, and retries whose pause is over, are delivered again unchanged under
	// the same token. Batch.Wait is the time until a further timer may be due. A queue that
	// other engines arm, or that can lose timers, bounds Wait by the time that an Arm or a loss
	// may stay unnoticed.
	Lease(ctx context.Context, kind Kind, limit int, hold time.Duration) (Batch, error)
	// Settle ends leases, each on its own. An outcome is ignored if its token is not the token
	// of the current lease. It returns the time until the first of the remaining timers may be
	// due, or Never.
	Settle(ctx context.Context, outcomes []Outcome) (time.Duration, error)
}

// Inspector is an optional interface of a Queue for looking at its timers.
type Inspector interface {
	// Show returns the state of a timer, or NotFound.
	Show(ctx context.Context, key Key) (State, error)
	// Pending counts the timers of each kind by time until they are due. It may scan all
	// timers.
	Pending(ctx context.Context) (map[Kind]DueCounts, error)
}

// Sampler is an optional interface of an Inspector whose Pending is expensive.
type Sampler interface {
	// Sample returns the counts of Pending, but recounts only a part of the queue per call; the
	// other parts are as of an earlier call.
	Sample(ctx context.Context) (map[Kind]DueCounts, error)
}

// Entry is a timer to arm: due at min(Last + Idle, First + Max).
type Entry struct {
	Key Key
	Gen int64
	// Account owns the timer; Fired returns it, for fairness and as a partition key. Zero means
	// no owner.
	Account drive.AccountID
	Idle    time.Duration // due after this time without activity; 0 = due at once
	Max     time.Duration // due at the latest this long after First; 0 = no cap
	// Last is the time of the latest activity, as stored by the owner. Zero, or a time after
	// the queue's clock, means now.
	Last drive.Time
	// First is the start of Max. Zero, or a time after Last, means Last.
	First drive.Time
}

// Batch is the result of one Lease.
type Batch struct {
	Fired []Fired       // the leased timers
	Wait  time.Duration // until more timers may be due; 0 = more are due now; Never = none is pending
	Now   drive.Time    // the queue's clock
	Epoch uint64        // not 0; differs from the previous Batch if the queue lost timers in between
	Early int           // index entries reached before their timer was due, and moved
}

// Never is the Wait of a queue without timers of the kind.
const Never = time.Duration(math.MaxInt64)

// Fired is a timer as of the moment it became due. Its times are of the queue's clock: compare them
// only with each other, and check the database by its own clock.
type Fired struct {
	Key      Key
	Gen      int64
	Account  drive.AccountID
	First    drive.Time
	Last     drive.Time // latest activity when the timer fired; later touches count after the lease
	Due      drive.Time
	Attempt  int    // failed attempts before this delivery, as set by Retry
	Delivery int    // 1 for the first delivery, then 2, ...
	Token    uint64 // identifies the lease; not 0
	// PushBacks counts the touches that moved Last since the timer was armed. Touches that the
	// queue coalesces count once. Last is the time of the latest.
	PushBacks int64  `json:",omitempty"`
	Shard     string `json:",omitempty"` // number of the shard and of all shards, as in State.Shard
	Slice     string `json:",omitempty"` // index slice of the timer when it fired, as in State.Slice
}

// Verdict says how a lease ends.
type Verdict uint8

// The verdicts.
const (
	// Done removes the timer. If a touch arrived during the lease, the timer becomes pending
	// again under the same gen, with first = last = time of the touch. It then fires once more,
	// and its handler finds nothing to do.
	Done Verdict = iota + 1
	// Retry delivers the timer again after In, with the given Attempt.
	Retry
	// Snooze makes the timer pending again. It is not delivered before In has passed; touches
	// then count as usual.
	Snooze
)

// Outcome ends one lease. Key and Token are those of the Fired timer.
type Outcome struct {
	Key     Key
	Token   uint64 // identifies the lease; another token has no effect
	Verdict Verdict
	In      time.Duration // for Retry and Snooze: pause before the next delivery
	Attempt int           // for Retry: failed attempts so far
}

// State describes one stored timer.
type State struct {
	Key      Key           `json:"key"`
	Gen      int64         `json:"gen"`
	Idle     time.Duration `json:"idle_ns"`
	Max      time.Duration `json:"max_ns"`
	First    drive.Time    `json:"first,omitzero"`
	Last     drive.Time    `json:"last,omitzero"`
	Due      drive.Time    `json:"due,omitzero"`     // of a pending timer; of a leased timer, the time of redelivery
	Indexed  drive.Time    `json:"indexed,omitzero"` // time of the index entry, at or before Due
	Leased   bool          `json:"leased"`
	Attempt  int           `json:"attempt"`
	Delivery int           `json:"delivery"`

	Account drive.AccountID `json:"account_id,omitzero"`

	PushBacks    int64      `json:"push_backs" doc:"how often activity has postponed the timer since it was armed; touches that the queue coalesces count once"`
	LastPushBack drive.Time `json:"last_push_back,omitzero"`

	Shard string `json:"shard,omitempty"` // number of the shard and of all shards: "17/64"
	// Only a remote queue sets the following fields.
	Slice  string `json:"slice,omitempty"`  // UTC minute or hour of the index slice; empty while leased
	Holder string `json:"holder,omitempty"` // instance that last leased the timer
}

// DueCounts counts timers by the time until they are due. Each timer is counted in one field.
type DueCounts struct {
	Minute int64 `json:"minute" doc:"due within a minute, or overdue"`
	Hour   int64 `json:"hour" doc:"due within an hour"`
	Day    int64 `json:"day" doc:"due within a day"`
	More   int64 `json:"more" doc:"due after a day"`
	Leased int64 `json:"leased"` // fired and not settled
}

// Add counts one pending timer that is due in d; a negative d is overdue.
func (h *DueCounts) Add(d time.Duration) {
	switch {
	case d <= time.Minute:
		h.Minute++
	case d <= time.Hour:
		h.Hour++
	case d <= 24*time.Hour:
		h.Day++
	default:
		h.More++
	}
}

// Check returns BadRequest if an entry is invalid. Queues check all entries of an Arm before they
// arm any.
func (e Entry) Check() error {
	switch {
	case !e.Key.Kind.Known():
		return drive.BadField("kind", drive.NotAllowed, "allowed", kindNames[1:])
	case e.Idle < 0 || e.Idle > MaxDelay:
		return drive.BadField("idle", drive.OutOfRange, "min", 0, "max", MaxDelay.String())
	case e.Max < 0 || e.Max > MaxDelay:
		return drive.BadField("max", drive.OutOfRange, "min", 0, "max", MaxDelay.String())
	}
	return nil
}

// MaxDelay bounds Idle and Max, so that no sum of times overflows. The longest-lived upload takes
// four years.
const MaxDelay = 100 * 365 * 24 * time.Hour
