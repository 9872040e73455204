// Package disk shares the free bytes of the disk among uploads: what was promised to one and has
// not arrived is not promised to another.
//
// An account may be promised all that is free. Against the others its promise counts for half of
// that at most: else who has a large quota declares the whole disk, sends nothing, and keeps
// everybody away. So more may be promised than there is; until that is over, the account that
// was counted for half writes only what leaves the others theirs.
//
// Promises live in the memory of one process, and only where the store can say what is free.
package disk

import (
	"context"
	"sync"
	"sync/atomic"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
)

// Promises is what this process has promised to uploads and has not written yet, in bytes. It is
// safe for concurrent use.
type Promises struct {
	store   blob.Store
	minFree drive.ByteSize
	rows    func() error

	over atomic.Bool // there is somebody in yields

	mu       sync.Mutex
	promised drive.ByteSize
	of       map[drive.AccountID]drive.ByteSize
	yields   map[drive.AccountID]bool // who was counted for half
}

// New returns promises of what the store has free beyond minFree. rows fails with DiskFull when the
// disk of the database has no room for what comes with an upload; nil: it always has.
func New(store blob.Store, minFree drive.ByteSize, rows func() error) *Promises {
	return &Promises{store: store, minFree: minFree, rows: rows, of: map[drive.AccountID]drive.ByteSize{}, yields: map[drive.AccountID]bool{}}
}

// Reserve promises n bytes, or fails with DiskFull when what is promised would eat into the floor.
// Release gives back what was not used; written bytes are released as they arrive, because statfs
// sees them then.
func (p *Promises) Reserve(ctx context.Context, account drive.AccountID, n drive.ByteSize) error {
	if p.rows != nil {
		if err := p.rows(); err != nil {
			return err
		}
	}
	if n <= 0 {
		return nil
	}
	p.Add(account, n)
	free, known, err := p.free(ctx)
	if err != nil {
		p.Release(account, n)
		return err
	}
	if !known {
		return nil
	}
	if ok, left := p.fits(account, free); !ok {
		p.Release(account, n)
		return drive.Fail(drive.DiskFull, "needed", n, "available", max(0, left+n))
	}
	return nil
}

// ReserveSome promises want bytes, or least where the disk has no room for more.
func (p *Promises) ReserveSome(ctx context.Context, account drive.AccountID, want, least drive.ByteSize) (drive.ByteSize, error) {
	err := p.Reserve(ctx, account, want)
	if drive.IsKind(err, drive.DiskFull) && least < want {
		return least, p.Reserve(ctx, account, least)
	}
	return want, err
}

// Release takes back a promise of n bytes.
func (p *Promises) Release(account drive.AccountID, n drive.ByteSize) { p.Add(account, -n) }

// Add promises n bytes more, or fewer, without a look at the disk: they were reserved, or are there
// already.
func (p *Promises) Add(account drive.AccountID, n drive.ByteSize) {
	if n == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.promised += n
	if p.of[account] += n; p.of[account] == 0 {
		delete(p.of, account)
	}
}

// MayWrite fails with DiskFull when the account, which was promised more than is left beside
// others, would write what is theirs.
func (p *Promises) MayWrite(ctx context.Context, account drive.AccountID, n drive.ByteSize) error {
	if !p.over.Load() {
		return nil
	}
	free, known, err := p.free(ctx)
	if err != nil || !known || p.leavesOthers(account, n, free) {
		return err
	}
	return drive.Fail(drive.DiskFull, "needed", n, "available", 0)
}

// Promised returns how much is promised altogether, and to how many accounts.
func (p *Promises) Promised() (total drive.ByteSize, accounts int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.promised, len(p.of)
}

// free returns how much of the disk may be used; known is false where nobody can say.
func (p *Promises) free(ctx context.Context) (free drive.ByteSize, known bool, err error) {
	if !p.store.Caps().Bounded {
		return 0, false, nil
	}
	free, err = p.store.Free(ctx)
	if err != nil && !p.store.Caps().Bounded { // contents have just left the disk
		return 0, false, nil
	}
	return free - p.minFree, true, err
}

// fits reports whether what is promised to the account can be kept where so much is free, and how
// much more of it could be.
func (p *Promises) fits(account drive.AccountID, free drive.ByteSize) (ok bool, left drive.ByteSize) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.enoughLocked(free) {
		return true, free - p.promised
	}
	left = free
	for a, n := range p.of {
		if a != account {
			n = min(n, free/2)
		}
		left -= n
	}
	if left < 0 {
		return false, left
	}
	for a, n := range p.of {
		if a != account && n > free/2 {
			p.yields[a] = true
		}
	}
	p.over.Store(true)
	return true, left
}

// enoughLocked reports whether all that is promised can be kept; then nobody needs to yield.
func (p *Promises) enoughLocked(free drive.ByteSize) bool {
	if p.promised > free {
		return false
	}
	clear(p.yields)
	p.over.Store(false)
	return true
}

// leavesOthers reports whether the account may write n bytes of what it was promised.
func (p *Promises) leavesOthers(account drive.AccountID, n, free drive.ByteSize) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.enoughLocked(free) || !p.yields[account] || p.promised-p.of[account]+n <= free
}

// Room is what one piece of work was promised. It belongs to one goroutine at a time. A nil one is
// empty.
type Room struct {
	of      *Promises
	account drive.AccountID
	left    drive.ByteSize
}

// Room returns an empty room for work of the account.
func (p *Promises) Room(account drive.AccountID) *Room { return &Room{of: p, account: account} }

// Hold makes the room n bytes: the rest is reserved, or what is too much released.
func (r *Room) Hold(ctx context.Context, n drive.ByteSize) error {
	if r.left >= n {
		r.Use(r.left - n)
		return nil
	}
	err := r.of.Reserve(ctx, r.account, n-r.left)
	if err == nil {
		r.left = n
	}
	return err
}

// Use releases n bytes of the room, which were written or are not needed.
func (r *Room) Use(n drive.ByteSize) {
	r.left -= n
	r.of.Release(r.account, n)
}

// Close releases all that is left.
func (r *Room) Close() {
	if r != nil {
		r.Use(r.left)
	}
}
