package files

import (
	"context"
	"sync"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/turn"
)

// Totals adds up what lies below folders. What it found it keeps for as long as nothing of the
// account has changed: a page that is looked at again asks for one row.
type Totals struct {
	files *Files
	turns *turn.Turns
	most  int // nodes of one folder

	mu   sync.Mutex
	kept map[drive.NodeID]total
}

// total is a sum as of the last change of its tree.
type total struct {
	seq int64
	sum tree.Sum
}

// The bounds of Totals.
const (
	totalMost     = 100_000 // nodes: a third of a second on SQLite
	totalsEach    = 1       // that are added up for an account at a time
	totalsAtOnce  = 2       // and for all accounts
	totalsKept    = 10_000  // of about 100 bytes each
	totalsDropped = totalsKept / 2
)

// NewTotals returns a Totals.
func NewTotals(f *Files) *Totals {
	return &Totals{files: f, turns: turn.New(totalsEach, totalsAtOnce), most: totalMost, kept: map[drive.NodeID]total{}}
}

// Of returns what lies below a folder. A file is BadRequest; a folder with something below it that
// is hidden from the caller is Forbidden.
func (t *Totals) Of(ctx context.Context, who drive.Who, id drive.NodeID) (tree.Sum, error) {
	caller := who.Account
	p, err := t.files.enter(ctx, who, id, access.List)
	if err == nil {
		err = t.files.seesAll(ctx, t.files.opt.DB, p, id)
	}
	if err != nil {
		return tree.Sum{}, err
	}
	who = p.Who
	db := t.files.opt.DB.For(who.Account)
	n, err := t.files.opt.Tree.Find(ctx, db, who.Account, id)
	if err != nil {
		return tree.Sum{}, err
	}
	if !n.IsFolder() {
		return tree.Sum{}, drive.Bad("id", drive.NotAllowed, "allowed", []tree.Type{tree.TypeFolder}, "sent", n.Type)
	}
	// Before the sum: what changes while it is added up makes it old at once, and not too young.
	seq, err := t.files.opt.Tree.Seq(ctx, db, who.Account)
	if err != nil {
		return tree.Sum{}, err
	}
	if sum, ok := t.find(id, seq); ok {
		return sum, nil
	}
	end, err := t.turns.Take(ctx, caller)
	if err != nil {
		return tree.Sum{}, drive.Wrap(err, drive.Unavailable)
	}
	defer end()
	sum, err := tree.SumBelow(ctx, db, id, t.most)
	if err == nil {
		t.keep(id, total{seq, sum})
	}
	return sum, err
}

func (t *Totals) find(id drive.NodeID, seq int64) (tree.Sum, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept, ok := t.kept[id]
	return kept.sum, ok && kept.seq == seq
}

// keep remembers a sum. When there are too many, some others go, whichever they are.
func (t *Totals) keep(id drive.NodeID, sum total) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.kept) >= totalsKept {
		for other := range t.kept {
			if delete(t.kept, other); len(t.kept) <= totalsDropped {
				break
			}
		}
	}
	t.kept[id] = sum
}
