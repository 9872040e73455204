package upload

import (
	"context"
	"fmt"
	"slices"

	"smartdrive/internal/base/digest"
	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/sqldb"
)

// View is an upload as its owner sees it.
type View struct {
	ID        drive.UploadID    `json:"id"`
	State     string            `json:"state"` // active | parked | verifying | sealing | done | gone
	Path      string            `json:"path"`
	Conflict  drive.Conflict    `json:"conflict"` // what happens when the name is taken
	Size      *drive.ByteSize   `json:"size"`     // null: not declared
	PartSize  drive.ByteSize    `json:"part_size"`
	Parts     int               `json:"parts"`
	Received  [][2]int          `json:"received"` // inclusive ranges of part numbers
	Reserved  drive.ByteSize    `json:"reserved"`
	ExpiresAt drive.Time        `json:"expires_at"` // when it is reclaimed if nothing more comes
	MaxSize   drive.ByteSize    `json:"max_size,omitempty"`
	Challenge *digest.Challenge `json:"challenge,omitempty"`
	Progress  *Progress         `json:"progress,omitempty"` // of a seal that is running

	Node  *tree.Node `json:"-"` // of a done one
	Found bool       `json:"-"` // begin found it; it did not make it
	row   Row
}

// Progress is how far a seal has come with reading bytes, where it has to read any.
type Progress struct {
	Done  drive.ByteSize `json:"done"`
	Total drive.ByteSize `json:"total"`
}

// Row returns the row that the view was made of.
func (v View) Row() Row { return v.row }

// Get returns one upload of the caller's account. A gone one is Gone {reason}.
func (s *Sessions) Get(ctx context.Context, who drive.Who, id drive.UploadID) (View, error) {
	v, err := s.views.get(ctx, who, id)
	return v.as(who), err
}

// ListParts returns what has arrived, in order.
func (s *Sessions) ListParts(ctx context.Context, who drive.Who, id drive.UploadID) ([]blob.Part, error) {
	return s.views.parts(ctx, who, id)
}

// List returns a page of uploads without their parts.
func (s *Sessions) List(ctx context.Context, q ListQuery) ([]View, error) {
	return s.views.list(ctx, q)
}

// views shows uploads, and changes none.
type views struct {
	db       *sqldb.DB
	tree     *tree.Tree
	staging  blob.Staging
	table    *table
	sched    *schedule
	clocks   clocks
	shared   bool
	verifier *verifier
}

// of describes a row; what has arrived comes from memory or the journal.
func (vs *views) of(ctx context.Context, q sqldb.Querier, r Row) (View, error) {
	v := View{
		ID: r.ID, State: r.State.Public(), Conflict: r.Conflict, PartSize: r.PartSize, Parts: r.Parts(), Received: [][2]int{}, Reserved: r.Reserved,
		ExpiresAt: vs.sched.expires(r), row: r,
	}
	if r.Size == blob.UnknownSize {
		v.Parts, v.MaxSize = 0, r.MaxSize()
	} else {
		v.Size = &r.Size
	}
	switch now := vs.clocks.now(); {
	case r.Challenge == nil || r.State != Active && r.State != Parked && r.State != Sealing:
	case r.State != Sealing && r.Challenge.Pending(now) && (vs.shared || vs.verifier.runs(r.ID)):
		v.State = Verifying
	case !r.Challenge.Answered() && !r.Challenge.Expired(now):
		v.Challenge = &r.Challenge.Challenge
	}
	if r.placed != nil { // nobody else's content is told of, whatever has happened to it since
		v.Node = r.placed
	} else if r.State == Done {
		n, err := vs.tree.Find(ctx, q, r.Account, r.Node)
		if err != nil && !drive.IsKind(err, drive.NotFound) { // it may have been deleted since
			return View{}, err
		}
		if err == nil {
			v.Node = &n
		}
	}
	if r.guest {
		v.Path = r.guestPath()
		return v, nil
	}
	path, _, err := vs.tree.PathOf(ctx, q, r.Parent)
	if err != nil && !drive.IsKind(err, drive.NotFound) {
		return View{}, fmt.Errorf("find the path of upload %s: %w", r.ID, err)
	}
	v.Path = append(slices.Clone(path), r.Name).String()
	return v, nil
}

// withParts adds the received ranges.
func (v View) withParts(parts []blob.Part) View {
	for _, p := range parts {
		if last := len(v.Received) - 1; last >= 0 && v.Received[last][1] == p.N-1 {
			v.Received[last][1] = p.N
		} else {
			v.Received = append(v.Received, [2]int{p.N, p.N})
		}
	}
	return v
}

// get is Sessions.Get.
func (vs *views) get(ctx context.Context, who drive.Who, id drive.UploadID) (View, error) {
	row, parts, err := vs.peek(ctx, who, id)
	if err != nil {
		return View{}, err
	}
	if row.State == Reclaiming || row.State == Gone {
		return View{}, row.ended()
	}
	v, err := vs.of(ctx, vs.db.For(who.Account), row)
	if err != nil {
		return View{}, err
	}
	if row.State == Sealing && len(parts) == 0 && row.Parts() > 0 {
		v.Received = [][2]int{{0, row.Parts() - 1}} // all had arrived; while a store puts them together it may not find them
	}
	return v.withParts(parts), nil
}

// parts is Sessions.ListParts.
func (vs *views) parts(ctx context.Context, who drive.Who, id drive.UploadID) ([]blob.Part, error) {
	row, parts, err := vs.peek(ctx, who, id)
	switch {
	case err != nil:
	case !row.State.Open():
		err = row.ended()
	case row.State == Sealing && len(parts) == 0 && row.Parts() > 0: // a store is putting them together
		err = drive.Fail(drive.InProgress, "retry_after", 1)
	}
	return parts, err
}

// peek reads a row and the parts that have arrived, without changing anything.
func (vs *views) peek(ctx context.Context, who drive.Who, id drive.UploadID) (Row, []blob.Part, error) {
	l := vs.table.enter(id)
	defer vs.table.leave(l)
	l.mu.Lock()
	row, loaded := l.row, l.loaded && l.row.State == Active
	if may, err := l.mayLocked(who); err != nil || !may {
		loaded = false
	}
	parts := l.sortedParts()
	l.mu.Unlock()
	if loaded && !vs.shared {
		row.Active = max(row.Active, drive.Time(l.last.Load()))
		return row, parts, nil
	}
	for before := int64(0); ; before = row.Gen {
		var err error
		if row, err = findRow(ctx, vs.db.For(who.Account), id); err != nil {
			return Row{}, nil, err
		}
		if _, err := vs.table.gate.check(ctx, who, &row); err != nil {
			return Row{}, nil, err
		}
		if !row.State.Open() {
			return row, nil, nil
		}
		staged, err := vs.staging.Load(ctx, row.Ref())
		if !drive.IsKind(err, drive.NotFound) {
			return row, staged.Parts, err
		}
		if row.Gen == before { // its bytes were removed from outside
			return row, nil, nil
		}
		// It may have ended between the two reads: it must not look as if nothing had arrived.
	}
}

func (l *live) sortedParts() []blob.Part {
	parts := make([]blob.Part, 0, len(l.parts))
	for _, p := range l.parts {
		parts = append(parts, p)
	}
	slices.SortFunc(parts, func(a, b blob.Part) int { return a.N - b.N })
	return parts
}

// ListQuery selects a page of uploads, oldest first.
type ListQuery struct {
	Account drive.AccountID // zero: of all accounts, for administrators
	User    drive.UserID    // only those that this user has begun; zero: anybody's
	After   drive.UploadID  // the last one of the page before
	Limit   int
	Open    bool // only open ones
}

// list is Sessions.List.
func (vs *views) list(ctx context.Context, q ListQuery) ([]View, error) {
	where, args := `id > ? AND state IN ('active', 'parked', 'sealing')`, []any{q.After.String()}
	if !q.Open {
		where = `id > ?`
	}
	if !q.Account.IsZero() {
		where, args = where+` AND account_id = ?`, append(args, q.Account)
	}
	if !q.User.IsZero() {
		where, args = where+` AND user_id = ?`, append(args, q.User)
	}
	db := vs.db.For(q.Account)
	rows, err := db.Query(ctx, `SELECT `+rowColumns+` FROM uploads WHERE `+where+` ORDER BY id LIMIT ?`, append(args, q.Limit)...)
	all, err := sqldb.Scan(rows, err, scanRow)
	if err != nil {
		return nil, fmt.Errorf("list uploads: %w", err)
	}
	views := make([]View, 0, len(all))
	for _, r := range all {
		v, err := vs.of(ctx, db, r)
		if err != nil {
			return nil, err
		}
		views = append(views, v)
	}
	return views, nil
}

// ofOpen is the view of an upload, with its parts if it is open.
func (vs *views) ofOpen(ctx context.Context, row Row) (View, error) {
	v, err := vs.of(ctx, vs.db, row)
	if err != nil || !row.State.Open() {
		return v, err
	}
	staged, err := vs.staging.Load(ctx, row.Ref())
	if drive.IsKind(err, drive.NotFound) {
		err = nil
	}
	return v.withParts(staged.Parts), err
}
