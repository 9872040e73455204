// Package disk divides the free disk space among uploads: space promised to one upload and still
// unwritten is not promised to another.
//
// An account may be promised all free space. When space is promised to other accounts, its promise
// counts for at most half of the free space; otherwise an account with a large quota could declare
// the whole disk, send nothing, and block everybody. So the promises may exceed the free space.
// Until that is over, an account that was counted at half may write only what leaves the others'
// promises intact.
//
// Promises live in the memory of one process. They are checked only if the store knows its free
// space.
package disk

import (
	"context"
	"sync"
	"sync/atomic"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// Reservations tracks the bytes that this process has promised to uploads and that are not written
// yet. It is safe for concurrent use.
type Reservations struct {
	store   blob.Store
	minFree drive.ByteSize // space that promises leave free
	rows    func() error   // returns DiskFull if the database's disk is full

	over atomic.Bool // yields is not empty

	mu       sync.Mutex
	promised drive.ByteSize                     // sum of the promises to all accounts
	of       map[drive.AccountID]drive.ByteSize // promised bytes by account
	yields   map[drive.AccountID]bool           // accounts counted at half of the free space
}

// New returns Reservations over the store's free space beyond minFree. rows returns DiskFull if the
// database's disk has no room for uploads; nil: it always has room.
func New(store blob.Store, minFree drive.ByteSize, rows func() error) *Reservations {
	return &Reservations{store: store, minFree: minFree, rows: rows, of: map[drive.AccountID]drive.ByteSize{}, yields: map[drive.AccountID]bool{}}
}

// Reserve promises n bytes to the account. It returns DiskFull {needed, available} if the promises
// to all accounts would no longer fit, and then promises nothing. The caller must Release the bytes
// once they are written or no longer needed: written bytes already reduce the free space. If n is
// zero or negative, only the database's disk is checked.
func (r *Reservations) Reserve(ctx context.Context, account drive.AccountID, n drive.ByteSize) error {
	if r.rows != nil {
		if err := r.rows(); err != nil {
			return err
		}
	}
	if n <= 0 {
		return nil
	}
	r.Adjust(account, n)
	free, known, err := r.free(ctx)
	if err != nil {
		r.Release(account, n)
		return err
	}
	if !known {
		return nil
	}
	if ok, left := r.fits(account, free); !ok {
		r.Release(account, n)
		return drive.Fail(drive.DiskFull, "needed", n, "available", max(0, left+n))
	}
	return nil
}

// ReserveSome promises want bytes, or only least if want does not fit, and returns the promised
// number. On an error, such as DiskFull if even least does not fit, nothing is promised.
func (r *Reservations) ReserveSome(ctx context.Context, account drive.AccountID, want, least drive.ByteSize) (drive.ByteSize, error) {
	err := r.Reserve(ctx, account, want)
	if drive.IsKind(err, drive.DiskFull) && least < want {
		return least, r.Reserve(ctx, account, least)
	}
	return want, err
}

// Release reduces the account's promise by n bytes, which Reserve has promised.
func (r *Reservations) Release(account drive.AccountID, n drive.ByteSize) { r.Adjust(account, -n) }

// Adjust changes the account's promise by n bytes, which may be negative, without checking the
// disk.
func (r *Reservations) Adjust(account drive.AccountID, n drive.ByteSize) {
	if n == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.promised += n
	if r.of[account] += n; r.of[account] == 0 {
		delete(r.of, account)
	}
}

// CheckWrite returns DiskFull if writing n bytes would use space promised to other accounts. This
// concerns only accounts whose promise was counted as half of the free space when another account
// was promised space (see the package comment).
func (r *Reservations) CheckWrite(ctx context.Context, account drive.AccountID, n drive.ByteSize) error {
	if !r.over.Load() {
		return nil
	}
	free, known, err := r.free(ctx)
	if err != nil || !known || r.leavesOthers(account, n, free) {
		return err
	}
	return drive.Fail(drive.DiskFull, "needed", n, "available", 0)
}

// Total returns the total promised bytes and the number of accounts that have promises.
func (r *Reservations) Total() (total drive.ByteSize, accounts int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.promised, len(r.of)
}

// free returns the free space of the store less minFree, which may be negative. known is false,
// without an error, if the store cannot tell.
func (r *Reservations) free(ctx context.Context) (free drive.ByteSize, known bool, err error) {
	if !r.store.Caps().ReportsFree {
		return 0, false, nil
	}
	free, err = r.store.Free(ctx)
	if err != nil && !r.store.Caps().ReportsFree { // contents were just moved off the disk
		return 0, false, nil
	}
	return free - r.minFree, true, err
}

// fits reports whether the account's promise can be kept with the given free space, and how much
// more it could be promised (negative: how much is missing). It marks the accounts that it counted
// at half.
func (r *Reservations) fits(account drive.AccountID, free drive.ByteSize) (ok bool, left drive.ByteSize) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.enoughLocked(free) {
		return true, free - r.promised
	}
	left = free
	for a, n := range r.of {
		if a != account {
			n = min(n, free/2)
		}
		left -= n
	}
	if left < 0 {
		return false, left
	}
	for a, n := range r.of {
		if a != account && n > free/2 {
			r.yields[a] = true
		}
	}
	r.over.Store(true)
	return true, left
}

// enoughLocked reports whether free bytes suffice for the promises to all accounts. If so it lifts
// the limits that CheckWrite enforces. The caller holds r.mu.
func (r *Reservations) enoughLocked(free drive.ByteSize) bool {
	if r.promised > free {
		return false
	}
	clear(r.yields)
	r.over.Store(false)
	return true
}

// leavesOthers reports whether the account may write n promised bytes without using space promised
// to others.
func (r *Reservations) leavesOthers(account drive.AccountID, n, free drive.ByteSize) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.enoughLocked(free) || !r.yields[account] || r.promised-r.of[account]+n <= free
}

// Reservation is the promise held by one piece of work. It belongs to one goroutine at a time. A
// nil Reservation is empty; only Close may be called on it.
type Reservation struct {
	promises *Reservations
	account  drive.AccountID
	left     drive.ByteSize // room not released yet
}

// NewReservation returns an empty Reservation for work of the account. The caller must Close it.
func (r *Reservations) NewReservation(account drive.AccountID) *Reservation {
	return &Reservation{promises: r, account: account}
}

// Resize changes the promise to n bytes in total, reserving or releasing the difference. It returns
// DiskFull, with the promise unchanged, if more does not fit.
func (r *Reservation) Resize(ctx context.Context, n drive.ByteSize) error {
	if r.left >= n {
		r.Release(r.left - n)
		return nil
	}
	err := r.promises.Reserve(ctx, r.account, n-r.left)
	if err == nil {
		r.left = n
	}
	return err
}

// Release reduces the promise by n bytes that were written or are not needed. n must not exceed
// what is left.
func (r *Reservation) Release(n drive.ByteSize) {
	r.left -= n
	r.promises.Release(r.account, n)
}

// Close releases the rest of the promise. Further calls, and calls on nil, do nothing.
func (r *Reservation) Close() {
	if r != nil {
		r.Release(r.left)
	}
}
