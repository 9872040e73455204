package upload

import (
	"context"
	"fmt"
	"slices"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
)

// View is an upload as shown to its owner.
type View struct {
	ID        drive.UploadID
	State     string // active, parked, verifying, sealing, done or gone
	Path      string
	Conflict  drive.Conflict  // applies if the name is taken
	Size      *drive.ByteSize // null: not declared
	PartSize  drive.ByteSize
	Parts     int            // number of parts of the whole file; 0: size not declared
	Received  [][2]int       // inclusive ranges of part numbers
	Reserved  drive.ByteSize // bytes reserved in the quota
	ExpiresAt drive.Time     // when the upload is reclaimed, or its row purged, without further activity
	MaxSize   drive.ByteSize // set while the size is not declared
	Challenge *digest.Challenge
	Progress  *Progress // of a running seal; nil: none runs

	Node  *tree.Node // the file, if done and not deleted since
	Found bool       // Begin or Concat found an existing upload instead of creating one
	row   Row
}

// Progress counts the bytes that a seal has read, of those that it may have to read.
type Progress struct {
	Done  drive.ByteSize
	Total drive.ByteSize
}

// Row returns the row that the view was made from.
func (v View) Row() Row { return v.row }

// Get returns one upload, with its received parts, that the caller may continue. Errors: NotFound,
// Gone {reason}.
func (s *Sessions) Get(ctx context.Context, who drive.Who, id drive.UploadID) (View, error) {
	v, err := s.views.get(ctx, who, id)
	return v.redactFor(who), err
}

// ListParts returns the received parts, ordered by number. Errors: NotFound, Gone, WrongState
// (done), InProgress (the store is assembling them).
func (s *Sessions) ListParts(ctx context.Context, who drive.Who, id drive.UploadID) ([]blob.Part, error) {
	return s.views.parts(ctx, who, id)
}

// List returns the uploads that match q, in the order of their ids, without their received parts.
// The result has at most q.Limit views; the id of the last is the cursor of the next page. It
// checks no rights: the caller has.
func (s *Sessions) List(ctx context.Context, q ListQuery) ([]View, error) {
	return s.views.list(ctx, q)
}

// views describes uploads and never changes them.
type views struct {
	db       *sqldb.DB
	tree     *tree.Tree
	staging  blob.Staging
	table    *liveTable
	sched    *schedule
	clocks   clocks
	shared   bool
	verifier *answerVerifier
}

// of builds the view of a row, without its received parts, from q. Node is nil if the file was
// deleted, Path starts at the name if the parent was. It fails if a query does.
func (vs *views) of(ctx context.Context, q sqldb.Querier, r Row) (View, error) {
	v := View{
		ID: r.ID, State: r.State.Public(), Conflict: r.Conflict, PartSize: r.PartSize, Parts: r.Parts(), Received: [][2]int{}, Reserved: r.Reserved,
		ExpiresAt: vs.sched.expiresAt(r), row: r,
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
	if r.placed != nil { // only this request's own file, even if the node has changed since
		v.Node = r.placed
	} else if r.State == Done {
		n, err := vs.tree.Find(ctx, q, r.Account, r.Node)
		if err != nil && !drive.IsKind(err, drive.NotFound) { // the file may have been deleted
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

// withParts returns the view with Received set to inclusive ranges of the part numbers in parts.
// The caller must sort parts by number.
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

// get returns the view of an upload that who may use, with its received parts. Errors: NotFound;
// Gone if the upload is reclaiming or gone.
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
		v.Received = [][2]int{{0, row.Parts() - 1}} // all parts arrived; the store may not list them while it assembles the content
	}
	return v.withParts(parts), nil
}

// parts returns the received parts of an open upload that who may use. Errors: NotFound; that of
// Row.ended if the upload is not open; InProgress while the store assembles the parts in a seal.
func (vs *views) parts(ctx context.Context, who drive.Who, id drive.UploadID) ([]blob.Part, error) {
	row, parts, err := vs.peek(ctx, who, id)
	switch {
	case err != nil:
	case !row.State.Open():
		err = row.ended()
	case row.State == Sealing && len(parts) == 0 && row.Parts() > 0: // the store is assembling them
		err = drive.Fail(drive.InProgress, "retry_after", 1)
	}
	return parts, err
}

// peek returns the row and the received parts, and changes nothing. A missing staging yields no
// parts.
func (vs *views) peek(ctx context.Context, who drive.Who, id drive.UploadID) (Row, []blob.Part, error) {
	l := vs.table.acquire(id)
	defer vs.table.release(l)
	l.mu.Lock()
	row, loaded := l.row, l.loaded && l.row.State == Active
	if may, err := l.authorizedLocked(who); err != nil || !may {
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
		if _, err := vs.table.auth.authorize(ctx, who, &row); err != nil {
			return Row{}, nil, err
		}
		if !row.State.Open() {
			return row, nil, nil
		}
		staged, err := vs.staging.Load(ctx, row.Ref())
		if !drive.IsKind(err, drive.NotFound) {
			return row, staged.Parts, err
		}
		if row.Gen == before { // the row did not change: the staged bytes were removed from outside
			return row, nil, nil
		}
		// A concurrent change may have ended the upload between the two reads. Read the row
		// again, so that a finished upload does not look empty.
	}
}

// sortedParts returns the cached parts ordered by number. The caller holds l.mu.
func (l *liveUpload) sortedParts() []blob.Part {
	parts := make([]blob.Part, 0, len(l.parts))
	for _, p := range l.parts {
		parts = append(parts, p)
	}
	slices.SortFunc(parts, func(a, b blob.Part) int { return a.N - b.N })
	return parts
}

// ListQuery selects a page of uploads, ordered by id (oldest first).
type ListQuery struct {
	Account drive.AccountID // zero: all accounts (administrators)
	User    drive.UserID    // only uploads begun by this user; zero: any user
	After   drive.UploadID  // cursor: the last id of the previous page; zero: first page
	Limit   int
	Open    bool // only active, parked and sealing uploads
}

// list returns the views of at most q.Limit uploads after q.After, in the order of ids. A zero
// Account or User matches all; Open leaves out reclaiming, gone and done uploads. No match returns
// an empty slice.
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

// ofOpen builds the view of a row, with its staged parts if the upload is open. A missing staging
// counts as no parts.
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
