package upload

import (
	"context"
	"log/slog"
	"time"

	"smartdrive/internal/base/digest"
	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/content"
	"smartdrive/internal/domain/quota"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/stream"
	"smartdrive/internal/usecase/upload/claim"
	"smartdrive/internal/usecase/upload/disk"
)

// Begin asks for a new upload. Either Path, or Parent and Name, say where the file shall go.
type Begin struct {
	Place       string // where Path is; empty: the caller's own drive
	Path        drive.Path
	Parent      drive.NodeID
	Name        drive.Name
	Size        drive.ByteSize // blob.UnknownSize: not known yet
	Digests     digest.Set     // claimed; a strong one that the account owns links at once
	Fingerprint string         // the client's own mark of the file, at most 128 bytes: an equal one resumes
	Conflict    drive.Conflict // zero: fail
	Parents     bool           // make the folders of Path that are missing
	PartSize    drive.ByteSize // zero: the server's choice
	MTime       drive.Time     // of the client's file; zero: now
	Mime        string         // empty: by the name's extension

	// Of heads whose uploads are filled by offset. What they say is kept beside the upload; native
	// ones have none.
	Kind     Kind     // Partial: Path, Parent and Name are empty
	Protocol Protocol // who asks
	Metadata string   // kept exactly, at most MaxMetadata bytes
}

// Once runs the effect of a creating request inside its transaction, so that a key makes it happen
// once. It may return an error of its own instead, such as one that carries the stored response;
// then nothing of the effect stays. nil: no key.
type Once[T any] func(ctx context.Context, tx *sqldb.Tx, effect func(context.Context, *sqldb.Tx) (T, error)) (T, error)

func (once Once[T]) run(ctx context.Context, tx *sqldb.Tx, effect func(context.Context, *sqldb.Tx) (T, error)) (T, error) {
	if once == nil {
		return effect(ctx, tx)
	}
	return once(ctx, tx, effect)
}

// Begin starts an upload, or finds the open one that the request means (View.Found), or links
// content that the account owns (View.State done). It reserves the declared size. One transaction
// (P5).
//
// Errors: NotFound (no such parent), NameTaken, BadName, BadRequest, TooLarge, Quota, DiskFull,
// TooManyOpen.
func (s *Sessions) Begin(ctx context.Context, who drive.Who, b Begin, once Once[View]) (View, error) {
	who, b, err := s.gate.enter(ctx, who, b)
	if err != nil {
		return View{}, err
	}
	return s.beginner.begin(ctx, who, b, once)
}

// beginner makes uploads.
type beginner struct {
	db        *sqldb.DB
	ledger    quota.Ledger
	tree      *tree.Tree
	content   content.Content
	staging   blob.Staging
	disk      *disk.Promises
	table     *table
	sched     *schedule
	clocks    clocks
	claims    *claim.Desk
	placer    *placer
	views     *views
	gate      *gate
	hold      func(ctx context.Context, tx *sqldb.Tx) error // see Options
	maxOpen   int                                           // see Options
	partBytes drive.ByteSize                                // see Options.PartSize
	log       *slog.Logger
}

// begin is Sessions.Begin.
func (s *beginner) begin(ctx context.Context, who drive.Who, b Begin, once Once[View]) (View, error) {
	row, err := s.newRow(who, b)
	if err != nil {
		return View{}, err
	}
	if row.Created, err = s.clocks.ofRows(ctx); err != nil {
		return View{}, err
	}
	row.Active = row.Created
	for {
		view, out, err := s.attempt(ctx, b, row, once)
		switch {
		case err != nil:
			return View{}, err
		case out == again:
			row.ID = drive.NewID[drive.UploadID]()
		case view.Found:
			return s.withArrived(ctx, view)
		default:
			return view, nil
		}
	}
}

// attempt is one attempt. What needs no transaction is done before it (I1): looking for content to
// link, the staged file. Another one follows when what was found is no longer so.
func (s *beginner) attempt(ctx context.Context, b Begin, row Row, once Once[View]) (View, outcome, error) {
	offer, err := s.claims.Offer(ctx, s.db, row.claim())
	if err != nil {
		return View{}, settled, err
	}
	if !offer.Owned.IsZero() {
		return s.commitBegin(ctx, b, row, offer, once)
	}
	row.Challenge = offer.Challenge
	if row.Reserved, err = s.reserveFirst(ctx, row.Account, row.Size); err != nil {
		return View{}, settled, err
	}
	defer s.disk.Release(row.Account, row.Reserved)
	// Only begin creates the staged file, and before the row, so that no row is ever without one
	// (P1). A crash between the two leaves an empty directory without a row, which the auditor
	// removes.
	if err := s.staging.Create(ctx, row.Ref()); err != nil {
		s.unstage(ctx, row) // it may be there in part
		return View{}, settled, err
	}
	view, out, err := s.commitBegin(ctx, b, row, offer, once)
	if err != nil || out == again {
		s.notBegun(ctx, row, err)
		return View{}, out, err
	}
	if view.Found {
		s.unstage(ctx, row)
	}
	return view, settled, nil
}

// notBegun clears up behind a begin that came to nothing. Where the row may be there all the same
// the directory stays, and a timer looks. Most who give up while they wait are no such case:
// nothing was written, and their directory, which nobody is charged for, must go.
func (s *beginner) notBegun(ctx context.Context, row Row, err error) {
	if sqldb.MaybeWritten(err) {
		s.sched.doubt(ctx, row, err)
		return
	}
	s.unstage(ctx, row)
}

// unstageTime is how long somebody whose begin has failed waits until it is cleared up behind them.
// An auditor does what is left.
const unstageTime = 5 * time.Second

// unstage removes the staged file of an upload that was not begun.
func (s *beginner) unstage(ctx context.Context, row Row) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), unstageTime)
	defer stop()
	if err := s.staging.Remove(ctx, row.Ref()); err != nil {
		s.log.WarnContext(ctx, "remove an unused staging", "upload", row.ID, "error", err)
	}
}

// withArrived adds to the view of an upload that was found what has arrived of it: the client goes
// on from there.
func (s *beginner) withArrived(ctx context.Context, v View) (View, error) {
	_, parts, err := s.views.peek(ctx, drive.Who{Account: v.row.Account}, v.ID)
	return v.withParts(parts), err
}

func (s *beginner) commitBegin(ctx context.Context, b Begin, row Row, o claim.Offer, once Once[View]) (view View, out outcome, err error) {
	l := s.table.enter(row.ID) // the one that everybody gets who finds the row
	defer s.table.leave(l)
	err = s.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.ActFor(drive.Who{User: row.User, Account: row.Account})
		var err error
		view, err = once.run(ctx, tx, func(ctx context.Context, tx *sqldb.Tx) (View, error) {
			return s.beginTx(ctx, tx, b, row, o)
		})
		return err
	})
	out, err = unlessLost(err)
	if err != nil || out == again || view.Found || view.State == Done.Public() {
		return view, out, err
	}
	l.touch(s.clocks.now())
	l.adoptNew(view.row)
	s.sched.arm(ctx, view.row)
	return view, settled, nil
}

// reserveFirst promises disk for the declared size, or for the first grant where none was declared
// and the disk has so much.
func (s *beginner) reserveFirst(ctx context.Context, account drive.AccountID, size drive.ByteSize) (drive.ByteSize, error) {
	if size == blob.UnknownSize {
		return s.disk.ReserveSome(ctx, account, firstGrant, 0)
	}
	return size, s.disk.Reserve(ctx, account, size)
}

// beginTx is the transaction of Begin.
func (s *beginner) beginTx(ctx context.Context, tx *sqldb.Tx, b Begin, row Row, o claim.Offer) (View, error) {
	if err := s.ledger.Lock(ctx, tx, row.Account); err != nil {
		return View{}, err
	}
	if !row.isPartial() {
		if err := s.place(ctx, tx, b, &row); err != nil {
			return View{}, err
		}
	}
	found, open, err := s.findOpen(ctx, tx, row)
	if err != nil {
		return View{}, err
	}
	if found != nil {
		view, err := s.views.of(ctx, tx, *found)
		view.Found = true
		return view, err
	}
	if !row.isPartial() {
		if err := s.tree.CheckPlace(ctx, tx, row.Account, row.place()); err != nil {
			return View{}, err
		}
	}
	if !o.Owned.IsZero() {
		return s.linkTx(ctx, tx, b, row, o.Owned)
	}
	if open >= s.maxOpen {
		return View{}, drive.Fail(drive.TooManyOpen, "limit", s.maxOpen, "sent", open+1)
	}
	if row.Size == blob.UnknownSize {
		row.Reserved, err = s.ledger.Grant(ctx, tx, row.Account, row.Reserved, 0)
	} else {
		err = s.ledger.Apply(ctx, tx, row.Account, quota.Move{Reserved: row.Reserved})
	}
	if err != nil {
		return View{}, err
	}
	if err := s.hold(ctx, tx); err != nil {
		return View{}, err
	}
	if err := s.countQuestion(ctx, tx, row.User, o.Asks); err != nil {
		return View{}, err
	}
	if err := s.placer.emit(ctx, tx, stream.UploadBegun, row); err != nil {
		return View{}, err
	}
	return s.insert(ctx, tx, b, row)
}

// insert writes the row of an upload that begins, and what its protocol keeps beside it.
func (s *beginner) insert(ctx context.Context, tx *sqldb.Tx, b Begin, row Row) (View, error) {
	if err := insertRow(ctx, tx, row); err != nil {
		return View{}, err
	}
	if err := insertHead(ctx, tx, row.ID, head{Kind: b.Kind, Protocol: b.Protocol, Metadata: b.Metadata}); err != nil {
		return View{}, err
	}
	return s.views.of(ctx, tx, row)
}

// newRow checks what can be checked without the database.
func (s *beginner) newRow(who drive.Who, b Begin) (Row, error) {
	if b.Size != blob.UnknownSize && (b.Size < 0 || b.Size > drive.MaxFileSize) {
		return Row{}, drive.Fail(drive.TooLarge, "field", "size", "limit", drive.MaxFileSize, "sent", b.Size)
	}
	if len(b.Fingerprint) > maxFingerprint {
		return Row{}, drive.Bad("fingerprint", drive.TooLong, "limit", maxFingerprint, "sent", len(b.Fingerprint))
	}
	if len(b.Metadata) > MaxMetadata {
		return Row{}, drive.Bad("metadata", drive.TooLong, "limit", MaxMetadata, "sent", len(b.Metadata))
	}
	partSize, err := s.partSize(b)
	if err != nil {
		return Row{}, err
	}
	now := s.clocks.now()
	row := Row{
		ID: drive.NewID[drive.UploadID](), Account: who.Account, User: who.User, Parent: b.Parent, Name: b.Name, Conflict: b.Conflict,
		Size: b.Size, PartSize: partSize, MTime: b.MTime, Mime: b.Mime, Fingerprint: b.Fingerprint, Digests: b.Digests,
		State: Active, Gen: 1, Created: now, Active: now, guest: who.Guest,
	}
	if b.Kind == Partial {
		row.Parent, row.Name, row.Digests, b.Path = drive.NodeID(row.ID), "", nil, nil
	}
	if b.Path != nil {
		_, name, ok := b.Path.Split()
		if !ok {
			return Row{}, drive.Fail(drive.BadName, "reason", "empty")
		}
		row.Name = name
	}
	if row.Conflict == "" {
		row.Conflict = drive.ConflictFail
	}
	if row.MTime == 0 {
		row.MTime = now
	}
	if row.Mime == "" {
		row.Mime = drive.MimeOf(row.Name)
	}
	if row.Digests == nil {
		row.Digests = digest.Set{}
	}
	return row, nil
}

// partSize checks a part size that the client asks for: a power of two, so that every part is a
// complete subtree of the BLAKE3 tree, and large enough for the file.
func (s *beginner) partSize(b Begin) (drive.ByteSize, error) {
	smallest := leastPartSize(s.staging.Caps()) // of where uploads begin now, which may move
	least := PartSizeFor(b.Size, smallest)
	switch {
	case b.PartSize == 0:
		return PartSizeFor(b.Size, max(s.partBytes, smallest)), nil
	case b.PartSize < least || b.PartSize > MaxPartSize:
		return 0, drive.Bad("part_size", drive.OutOfRange, "min", least, "max", drive.ByteSize(MaxPartSize), "sent", b.PartSize)
	case b.PartSize&(b.PartSize-1) != 0:
		return 0, drive.Bad("part_size", drive.Malformed, "expected", "a power of two", "sent", b.PartSize)
	}
	return b.PartSize, nil
}

// place fills in the parent, and for replace the version that is there now.
func (s *beginner) place(ctx context.Context, tx *sqldb.Tx, b Begin, row *Row) error {
	folder, err := s.parent(ctx, tx, b, row.Account)
	if err != nil {
		return err
	}
	row.Parent = folder.ID
	if err := s.gate.mayPut(ctx, tx, *row, tree.Target{Folder: folder.ID}); err != nil {
		return err
	}
	return s.placer.base(ctx, tx, row)
}

func (s *beginner) parent(ctx context.Context, tx *sqldb.Tx, b Begin, account drive.AccountID) (tree.Node, error) {
	if b.Path == nil {
		return s.tree.Find(ctx, tx, account, b.Parent)
	}
	parent, _, _ := b.Path.Split()
	if b.Parents {
		return s.tree.EnsureFolders(ctx, tx, account, parent)
	}
	return s.tree.Resolve(ctx, tx, account, parent)
}

// findOpen returns the open upload that the request means, and how many the account has open. It is
// the same file when place and size agree and a strong digest or the client's fingerprint does:
// never by place and size alone.
func (s *beginner) findOpen(ctx context.Context, tx *sqldb.Tx, row Row) (*Row, int, error) {
	var open int
	err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM uploads WHERE account_id = ? AND state IN ('active', 'parked', 'sealing')`, row.Account).Scan(&open)
	if err != nil {
		return nil, 0, err
	}
	rows, err := tx.Query(ctx, `SELECT `+rowColumns+` FROM uploads
		WHERE account_id = ? AND state IN ('active', 'parked', 'sealing') AND parent_id = ? AND name = ?`, row.Account, row.Parent, row.Name)
	same, err := sqldb.Scan(rows, err, scanRow)
	if err != nil {
		return nil, 0, err
	}
	for _, r := range same {
		if row.guest && r.User != row.User { // another member's
			continue
		}
		r.guest = row.guest
		if r.Size == row.Size && (r.Digests.SameContent(row.Digests) || row.Fingerprint != "" && r.Fingerprint == row.Fingerprint) {
			return &r, open, nil
		}
	}
	return nil, open, nil
}

// linkTx is (none) ⇒ done by content that the account owns already. The row stays for as long as
// that of any upload that is done: whoever has its id asks for it, completes it once more, or
// learns how far it has come.
func (s *beginner) linkTx(ctx context.Context, tx *sqldb.Tx, b Begin, row Row, id drive.BlobID) (View, error) {
	if err := s.ledger.Apply(ctx, tx, row.Account, quota.Move{Finished: row.Size}); err != nil {
		return View{}, err
	}
	switch err := s.content.Ref(ctx, tx, id); {
	case drive.IsKind(err, drive.NotFound):
		return View{}, errLost // its last owner has deleted it
	case err != nil:
		return View{}, err
	}
	placed, err := s.placer.place(ctx, tx, row, id)
	if err != nil {
		return View{}, err
	}
	row.State, row.Node, row.Reserved, row.Challenge, row.Ended = Done, placed.Node.ID, 0, nil, s.clocks.now()
	if err := s.placer.emit(ctx, tx, stream.UploadDone, row); err != nil {
		return View{}, err
	}
	return s.insert(ctx, tx, b, row)
}

// countQuestion counts a question in the transaction that writes it into its upload's row.
func (s *beginner) countQuestion(ctx context.Context, tx *sqldb.Tx, user drive.UserID, asks []content.Blob) error {
	counted, err := s.claims.Count(ctx, tx, user, asks)
	if err == nil && !counted {
		err = errLost
	}
	return err
}
