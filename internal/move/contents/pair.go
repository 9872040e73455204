package contents

import (
	"sync"
	"sync/atomic"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// Side is one of the two stores of contents of a migration, the old or the new one, with the
// staging of its uploads.
type Side struct {
	Name       string // shown to people: a directory, or s3://host/bucket
	Store      blob.Store
	Staging    blob.Staging
	Quarantine blob.Quarantine
}

// SideIndex selects a side of a Pair: First or Second.
type SideIndex int

// The sides: First is the original place, Second the attached one.
const (
	First SideIndex = iota
	Second
)

// Other returns the other side.
func (w SideIndex) Other() SideIndex { return 1 - w }

// Pair presents one or two sides as one store. It is safe for concurrent use.
type Pair struct {
	Blobs      *Store
	Uploads    *Uploads
	Quarantine *Quarantine

	shared      bool // the kind of staging reported to package upload
	current     atomic.Pointer[pairState]
	uploadSides sideCache
	copying     sync.Map // set of upload ids (as text) that stage copies of contents
}

// pairState is the immutable configuration that one operation uses.
type pairState struct {
	sides     [2]*Side // the second may be nil
	lead      SideIndex
	firstLeft bool // the first side is not used any more
	percent   int  // percentage of contents read at the follower first
	readable  bool // parts can be read before sealing; once false, it stays false
}

// NewPair returns a pair with one side, which leads. It takes the kind of its staging for good.
func NewPair(first Side) *Pair {
	caps := first.Staging.Caps()
	p := &Pair{shared: caps.Shared}
	p.Blobs, p.Uploads, p.Quarantine = &Store{p}, &Uploads{p}, &Quarantine{p}
	p.current.Store(&pairState{sides: [2]*Side{&first}, readable: caps.ReadableParts})
	return p
}

// Attach adds or replaces the second side, whose staging it makes behave like the first. The leader
// is unchanged. It does not close a replaced side.
func (p *Pair) Attach(second Side) {
	readable := second.Staging.Caps().ReadableParts
	second.Staging = p.matchKind(second)
	p.update(func(s *pairState) {
		s.sides[Second], s.firstLeft, s.readable = &second, false, s.readable && readable
	})
}

// matchKind wraps the staging of a second side if its kind differs from the first side's.
func (p *Pair) matchKind(side Side) blob.Staging {
	switch shared := side.Staging.Caps().Shared; {
	case shared && !p.shared:
		return exclusiveStaging{side.Staging, side.Store}
	case !shared && p.shared:
		return sharedStaging{side.Staging}
	}
	return side.Staging
}

// Detach removes the second side; the first leads then. It must not be called while the second
// leads. Uploads that began there are lost. It does not close the side.
func (p *Pair) Detach() {
	p.update(func(s *pairState) { s.sides[Second], s.lead, s.firstLeft, s.percent = nil, First, false, 0 })
	p.uploadSides.clear()
}

// DropFirst makes the second side the only one. The first side is neither read nor changed any
// more.
func (p *Pair) DropFirst() {
	p.update(func(s *pairState) { s.lead, s.firstLeft, s.percent = Second, true, 0 })
	p.uploadSides.clear()
}

// SetLeader selects the side for new contents and new uploads; running calls end where they began.
// The side must be attached.
func (p *Pair) SetLeader(w SideIndex) { p.update(func(s *pairState) { s.lead = w }) }

// SetReadPercent sets the percentage of contents that are read at the follower first, if it has
// them. The choice per content is stable.
func (p *Pair) SetReadPercent(percent int) { p.update(func(s *pairState) { s.percent = percent }) }

// update replaces the state atomically by a copy that edit has changed. edit may be called several
// times.
func (p *Pair) update(edit func(*pairState)) {
	for {
		was := p.current.Load()
		next := *was
		edit(&next)
		if p.current.CompareAndSwap(was, &next) {
			return
		}
	}
}

// Attached returns the leader, and whether the pair has two sides. Both may change at any time
// after.
func (p *Pair) Attached() (lead SideIndex, both bool) {
	s := p.current.Load()
	return s.lead, s.sides[Second] != nil
}

// Side returns a side, or nil if there is no second.
func (p *Pair) Side(w SideIndex) *Side { return p.current.Load().sides[w] }

// leader returns the leading side.
func (s *pairState) leader() *Side { return s.sides[s.lead] }

// follower returns the side that does not lead, or nil if there is one side or the first was
// dropped.
func (s *pairState) follower() *Side {
	if s.firstLeft {
		return nil
	}
	return s.sides[s.lead.Other()]
}

// order returns the existing sides, leader first.
func (s *pairState) order() []*Side {
	if f := s.follower(); f != nil {
		return []*Side{s.leader(), f}
	}
	return []*Side{s.leader()}
}

// sideCache caches the sides of staged uploads.
type sideCache struct {
	mu  sync.Mutex
	all map[drive.UploadID]*Side
}

// maxCachedSides limits the cache; above it, the cache is cleared.
const maxCachedSides = 100_000

// get returns the cached side of an upload, or nil.
func (p *sideCache) get(id drive.UploadID) *Side {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all[id]
}

// put caches the side of an upload.
func (p *sideCache) put(id drive.UploadID, at *Side) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all == nil || len(p.all) >= maxCachedSides {
		p.all = map[drive.UploadID]*Side{}
	}
	p.all[id] = at
}

// remove deletes an upload from the cache.
func (p *sideCache) remove(id drive.UploadID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.all, id)
}

// clear empties the cache.
func (p *sideCache) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.all)
}
