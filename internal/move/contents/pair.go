package contents

import (
	"sync"
	"sync/atomic"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
)

// Side is one of the two places.
type Side struct {
	Name       string // for people: a directory, or s3://host/bucket
	Store      blob.Store
	Staging    blob.Staging
	Quarantine blob.Quarantine
}

// Which names a side.
type Which int

// The sides: the one that was there first, and the one that was attached.
const (
	First Which = iota
	Second
)

// Other returns the other side.
func (w Which) Other() Which { return 1 - w }

// Pair is the place. It is safe for concurrent use.
type Pair struct {
	Blobs      *Store
	Uploads    *Uploads
	Quarantine *Quarantine

	shared bool // what package upload was told of the kind of staging
	now    atomic.Pointer[state]
	where  places
	moving sync.Map // upload ids, as texts, whose staging is that of a copy
}

// state is what an operation sees from its beginning to its end. It is never changed.
type state struct {
	sides    [2]*Side // the second may be nil
	lead     Which
	left     bool // the first side, for good
	percent  int  // of contents that are read at the follower first
	readable bool // parts can be read before they are sealed; once it is false it stays so
}

// NewPair returns a pair of which there is only one side.
func NewPair(first Side) *Pair {
	caps := first.Staging.Caps()
	p := &Pair{shared: caps.Shared}
	p.Blobs, p.Uploads, p.Quarantine = &Store{p}, &Uploads{p}, &Quarantine{p}
	p.now.Store(&state{sides: [2]*Side{&first}, readable: caps.ReadableParts})
	return p
}

// Attach adds the second side, or replaces it. The first one goes on leading unless Lead says
// otherwise.
func (p *Pair) Attach(second Side) {
	readable := second.Staging.Caps().ReadableParts
	second.Staging = p.alike(second)
	p.change(func(s *state) {
		s.sides[Second], s.left, s.readable = &second, false, s.readable && readable
	})
}

// alike makes the staging of a second side look like one of the first side's kind.
func (p *Pair) alike(side Side) blob.Staging {
	switch shared := side.Staging.Caps().Shared; {
	case shared && !p.shared:
		return alone{side.Staging, side.Store}
	case !shared && p.shared:
		return among{side.Staging}
	}
	return side.Staging
}

// Detach takes the second side away again; it must not lead. Uploads that began there are not found
// any more.
func (p *Pair) Detach() {
	p.change(func(s *state) { s.sides[Second], s.lead, s.left, s.percent = nil, First, false, 0 })
	p.where.clear()
}

// Leave says that everything is at the second side, which leads. The first one stays as it is:
// nothing is asked of it any more, and nothing goes there or is removed there.
func (p *Pair) Leave() {
	p.change(func(s *state) { s.lead, s.left, s.percent = Second, true, 0 })
	p.where.clear()
}

// Lead says which side new content and new uploads go to.
func (p *Pair) Lead(w Which) { p.change(func(s *state) { s.lead = w }) }

// Read says how many percent of contents, always the same ones, are read at the follower if it has
// them.
func (p *Pair) Read(percent int) { p.change(func(s *state) { s.percent = percent }) }

func (p *Pair) change(edit func(*state)) {
	for {
		was := p.now.Load()
		next := *was
		edit(&next)
		if p.now.CompareAndSwap(was, &next) {
			return
		}
	}
}

// Attached reports whether there are two sides, and which one leads.
func (p *Pair) Attached() (lead Which, both bool) {
	s := p.now.Load()
	return s.lead, s.sides[Second] != nil
}

// Side returns a side; nil: there is none.
func (p *Pair) Side(w Which) *Side { return p.now.Load().sides[w] }

func (s *state) leader() *Side { return s.sides[s.lead] }

// follower may be nil.
func (s *state) follower() *Side {
	if s.left {
		return nil
	}
	return s.sides[s.lead.Other()]
}

// order returns the sides that there are, the leader first.
func (s *state) order() []*Side {
	if f := s.follower(); f != nil {
		return []*Side{s.leader(), f}
	}
	return []*Side{s.leader()}
}

// places remembers where uploads are staged, to spare the asking.
type places struct {
	mu  sync.Mutex
	all map[drive.UploadID]*Side
}

// maxPlaces bounds the memory; beyond it everything is asked again.
const maxPlaces = 100_000

func (p *places) find(id drive.UploadID) *Side {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all[id]
}

func (p *places) note(id drive.UploadID, at *Side) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all == nil || len(p.all) >= maxPlaces {
		p.all = map[drive.UploadID]*Side{}
	}
	p.all[id] = at
}

func (p *places) forget(id drive.UploadID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.all, id)
}

func (p *places) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.all)
}
