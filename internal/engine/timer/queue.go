package timer

import (
	"context"
	"math"
	"time"

	"smartdrive/internal/base/drive"
)

// Queue holds timers and says which are due. It may be shared by many engines, and it may forget.
//
// Every call may be repeated after a lost reply. Errors: Unavailable when the queue cannot be
// reached; nothing is known then of what was done.
type Queue interface {
	// Arm adds timers, each on its own: a failed batch may have been armed in part. With no entry
	// under the key, or one of a smaller gen, the entry is new. A smaller gen than the one held
	// changes nothing. The same gen, pending: account, idle and max are taken over, last moves only
	// forwards, first only backwards, a Snooze is over, and the timer comes up earlier if it is now
	// due earlier. The same gen, leased: the entry is new and the lease is void.
	Arm(ctx context.Context, entries []Entry) error
	// Touch says that what the key watches is active now, by the queue's clock. It never blocks and
	// reports nothing: a queue behind a network gathers touches and sends them in the background. A
	// key without a timer is ignored.
	Touch(key Key)
	// Cancel removes the timer if its gen is not greater; a lease of it is void. None there is no
	// error.
	Cancel(ctx context.Context, key Key, gen int64) error
	// Lease takes at most limit timers of one kind that are due (T1) and leases each for hold. A
	// lease that ran out, or a Retry whose time has come, is delivered again as it was, with the
	// same token. Wait is how long nothing will be due unless something is armed; a queue that
	// other engines arm, or that can lose timers, makes it no longer than an Arm or a loss may go
	// unseen.
	Lease(ctx context.Context, kind Kind, limit int, hold time.Duration) (Batch, error)
	// Settle ends leases, each on its own. An outcome whose token is not the one of the present
	// lease changes nothing. It returns in how long the first of the timers that remain may be due;
	// Never when none remains.
	Settle(ctx context.Context, outcomes []Outcome) (time.Duration, error)
}

// Inspector is an optional power of a Queue: to look inside.
type Inspector interface {
	// Show returns the state of a timer; NotFound when there is none.
	Show(ctx context.Context, key Key) (State, error)
	// Pending counts the timers of each kind by when they are due. It may cost a walk over all of
	// them.
	Pending(ctx context.Context) (map[Kind]Horizon, error)
}

// Sampler is an optional power of an Inspector whose walk is dear: to count some timers each time,
// for figures.
type Sampler interface {
	// Sample returns what Pending does, as it was when each part was last counted.
	Sample(ctx context.Context) (map[Kind]Horizon, error)
}

// Entry is a timer to arm: due at min(Last + Idle, First + Max).
type Entry struct {
	Key Key
	Gen int64
	// Account is whose timer it is: it comes back when the timer fires, for fairness and as the key
	// of a partition. Zero = nobody's.
	Account drive.AccountID
	Idle    time.Duration // quiet for this long; 0 = due at once
	Max     time.Duration // however active, at most this long after First; 0 = no cap
	// Last is the latest activity when it is armed from the truth; zero, or later than the queue's
	// clock, means now.
	Last drive.Time
	// First is where Max counts from; zero, or later than Last, means Last.
	First drive.Time
}

// Batch is what one Lease found.
type Batch struct {
	Fired []Fired
	Wait  time.Duration // until more may be due; 0 = more is due now; Never = nothing is pending
	Now   drive.Time    // the queue's clock
	Epoch uint64        // not 0; differs from the last one when the queue has lost timers since
	Early int           // entries that came up, were not due, and went back
}

// Never is the Wait of a queue that holds nothing of the kind.
const Never = time.Duration(math.MaxInt64)

// Fired is a timer that came due, frozen as it was at that moment. Its times are of the queue's
// clock: compare them with each other, and ask the truth by the truth's clock.
type Fired struct {
	Key      Key
	Gen      int64
	Account  drive.AccountID
	First    drive.Time
	Last     drive.Time // the activity that was seen; touches since are kept for after
	Due      drive.Time
	Attempt  int    // failed attempts before this delivery, as Retry set it
	Delivery int    // 1 for the first delivery, then 2, ...
	Token    uint64 // names the lease; not 0
	// PushBacks counts the touches that moved Last since the timer was armed; those that a queue
	// gathers into one count once. Last is the time of the latest.
	PushBacks int64  `json:",omitempty"`
	Shard     string `json:",omitempty"` // as in State
	Slice     string `json:",omitempty"` // under which it was indexed when it fired
}

// Verdict is how a lease ends.
type Verdict uint8

// The verdicts.
const (
	// Done removes the timer. A touch that came while it was leased is not lost: the timer is then
	// pending again under the same gen, with first = last = that touch; it fires once more, and its
	// handler finds that nothing is left to do.
	Done Verdict = iota + 1
	// Retry delivers the same again after In, with Attempt as given.
	Retry
	// Snooze makes the timer pending again: it comes up after In, not before, and is then due by
	// its usual rule.
	Snooze
)

// Outcome settles one lease.
type Outcome struct {
	Key     Key
	Token   uint64
	Verdict Verdict
	In      time.Duration
	Attempt int
}

// State is what is known of one timer.
type State struct {
	Key      Key           `json:"key"`
	Gen      int64         `json:"gen"`
	Idle     time.Duration `json:"idle_ns"`
	Max      time.Duration `json:"max_ns"`
	First    drive.Time    `json:"first,omitzero"`
	Last     drive.Time    `json:"last,omitzero"`
	Due      drive.Time    `json:"due,omitzero"`     // by the present state; leased: when it is delivered again
	Indexed  drive.Time    `json:"indexed,omitzero"` // when it comes up to be looked at: not after Due
	Leased   bool          `json:"leased"`
	Attempt  int           `json:"attempt"`
	Delivery int           `json:"delivery"`

	Account drive.AccountID `json:"account_id,omitzero"`

	PushBacks    int64      `json:"push_backs" doc:"touches that moved last since the timer was armed; those that a queue gathers into one count once"`
	LastPushBack drive.Time `json:"last_push_back,omitzero"`

	Shard string `json:"shard,omitempty"` // of how many: "17/64"
	// What only a queue behind a network knows.
	Slice  string `json:"slice,omitempty"`  // the UTC minute or hour under which it is indexed; none while it is leased
	Holder string `json:"holder,omitempty"` // the instance that leased it last
}

// Horizon counts timers by how soon they are due. A timer is in one field only.
type Horizon struct {
	Minute int64 `json:"minute"` // within a minute, overdue ones included
	Hour   int64 `json:"hour"`
	Day    int64 `json:"day"`
	More   int64 `json:"more"`
	Leased int64 `json:"leased"` // fired, and not settled
}

// Add counts one pending timer that is due in d.
func (h *Horizon) Add(d time.Duration) {
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

// Check reports what is wrong with an entry; adapters call it for each before they arm any.
func (e Entry) Check() error {
	switch {
	case !e.Key.Kind.Known():
		return drive.Bad("kind", drive.NotAllowed, "allowed", kindNames[1:])
	case e.Idle < 0 || e.Idle > MaxDelay:
		return drive.Bad("idle", drive.OutOfRange, "min", 0, "max", MaxDelay.String())
	case e.Max < 0 || e.Max > MaxDelay:
		return drive.Bad("max", drive.OutOfRange, "min", 0, "max", MaxDelay.String())
	}
	return nil
}

// MaxDelay bounds idle and max, so that no sum of times overflows: the largest upload has four
// years.
const MaxDelay = 100 * 365 * 24 * time.Hour
