package upload

import (
	"context"
	"log/slog"
	"time"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/content"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/stream"
	"example.org/smartdrive/internal/usecase/upload/claim"
	"example.org/smartdrive/internal/usecase/upload/disk"
)

// Begin is a request for a new upload. The target is either Path, or Parent and Name.
type Begin struct {
	Place       string // root of Path; empty: the caller's own drive
	Path        drive.Path
	Parent      drive.NodeID
	Name        drive.Name
	Size        drive.ByteSize // blob.UnknownSize: not known yet
	Digests     digest.Set     // declared; if the account owns content with a strong one, it is linked at once
	Fingerprint string         // identifies the client's file, at most 128 bytes; an open upload with the same one is resumed
	Conflict    drive.Conflict // empty: ConflictFail
	Parents     bool           // create the missing folders of Path
	PartSize    drive.ByteSize // zero: chosen by the server
	MTime       drive.Time     // modification time of the file; zero: now
	Mime        string         // empty: derived from the name's extension

	// For protocols that fill uploads by offset. They are stored beside the row; native uploads
	// leave them zero.
	Kind     Kind     // Partial: Path, Parent and Name are empty
	Protocol Protocol // protocol of the request
	Metadata string   // stored unchanged, at most MaxMetadata bytes
}

// Once executes the effect of a creating request within its transaction, at most once per
// idempotency key. It may skip the effect, or undo it by returning an error, such as one that
// carries the stored response of the first request. nil: no idempotency key.
type Once[T any] func(ctx context.Context, tx *sqldb.Tx, effect func(context.Context, *sqldb.Tx) (T, error)) (T, error)

// run returns the result of once, which calls effect at most once, or of effect itself if once is
// nil. tx is the transaction of the effect.
func (once Once[T]) run(ctx context.Context, tx *sqldb.Tx, effect func(context.Context, *sqldb.Tx) (T, error)) (T, error) {
	if once == nil {
		return effect(ctx, tx)
	}
	return once(ctx, tx, effect)
}

// Begin starts an upload and reserves its declared size. It may instead return the open upload that
// the request means (View.Found), or link content that the account owns (View.State done). It takes
// one transaction (P5).
//
// Errors: NotFound (no such parent), NameTaken, BadName, BadRequest (fingerprint or metadata too
// long, or an unusable part size), TooLarge, Quota, DiskFull, TooManyOpen (Options.MaxOpen).
func (s *Sessions) Begin(ctx context.Context, who drive.Who, b Begin, once Once[View]) (View, error) {
	who, b, err := s.auth.authorizeBegin(ctx, who, b)
	if err != nil {
		return View{}, err
	}
	return s.creator.begin(ctx, who, b, once)
}

// creator creates uploads. Its methods commit the row, the reservation and the event of an upload
// in one transaction; the staging is created before.
type creator struct {
	db         *sqldb.DB
	ledger     quota.Ledger
	tree       *tree.Tree
	content    content.Content
	staging    blob.Staging
	disk       *disk.Reservations
	table      *liveTable
	sched      *schedule
	clocks     clocks
	claims     *claim.Claims
	placer     *placer
	views      *views
	auth       *authorizer
	checkAlive func(ctx context.Context, tx *sqldb.Tx) error // see Options.CheckInstance
	maxOpen    int                                           // see Options
	partBytes  drive.ByteSize                                // see Options.PartSize
	log        *slog.Logger
}

// begin creates an upload. It returns an open upload with the same target, size and digest or
// fingerprint instead (View.Found), or the view of a finished file if the content could be linked
// without an upload. The parameters who and b come from authorizeBegin; once is nil without an
// idempotency key. It tries again with a new id if the content offered for linking disappears
// meanwhile. Errors are those of Sessions.Begin.
func (c *creator) begin(ctx context.Context, who drive.Who, b Begin, once Once[View]) (View, error) {
	row, err := c.newRow(who, b)
	if err != nil {
		return View{}, err
	}
	if row.Created, err = c.clocks.rowTime(ctx); err != nil {
		return View{}, err
	}
	row.Active = row.Created
	for {
		view, out, err := c.attempt(ctx, b, row, once)
		switch {
		case err != nil:
			return View{}, err
		case out == retry:
			row.ID = drive.NewID[drive.UploadID]()
		case view.Found:
			return c.withReceived(ctx, view)
		default:
			return view, nil
		}
	}
}

// attempt is one attempt of begin. It looks for linkable content and creates the staging before the
// transaction (I1). It returns retry if the transaction finds that content gone.
func (c *creator) attempt(ctx context.Context, b Begin, row Row, once Once[View]) (View, outcome, error) {
	offer, err := c.claims.Offer(ctx, c.db, row.claim())
	if err != nil {
		return View{}, finished, err
	}
	if !offer.Owned.IsZero() {
		return c.commitBegin(ctx, b, row, offer, once)
	}
	row.Challenge = offer.Challenge
	if row.Reserved, err = c.reserveFirst(ctx, row.Account, row.Size); err != nil {
		return View{}, finished, err
	}
	defer c.disk.Release(row.Account, row.Reserved)
	// Only begin creates the staging, and before the row, so that every row has one (P1). If a
	// crash prevents the row, the auditor removes the empty directory.
	if err := c.staging.Create(ctx, row.Ref()); err != nil {
		c.unstage(ctx, row) // it may be partly created
		return View{}, finished, err
	}
	view, out, err := c.commitBegin(ctx, b, row, offer, once)
	if err != nil || out == retry {
		c.cleanUpFailed(ctx, row, err)
		return View{}, out, err
	}
	if view.Found {
		c.unstage(ctx, row)
	}
	return view, finished, nil
}

// cleanUpFailed removes the staging after a failed begin. If the row may exist despite err, the
// staging stays and a timer checks it later. Most cancelled begins are known to have written
// nothing, and nobody pays for their staging, so it is removed.
func (c *creator) cleanUpFailed(ctx context.Context, row Row, err error) {
	if sqldb.MaybeWritten(err) {
		c.sched.armRecheck(ctx, row, err)
		return
	}
	c.unstage(ctx, row)
}

// unstageTime bounds how long a failed begin delays its response to remove the staging. The auditor
// removes the rest.
const unstageTime = 5 * time.Second

// unstage removes the staging of an upload that was not begun; a failure is only logged.
func (c *creator) unstage(ctx context.Context, row Row) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), unstageTime)
	defer stop()
	if err := c.staging.Remove(ctx, row.Ref()); err != nil {
		c.log.WarnContext(ctx, "staging of an upload that did not begin could not be removed; the audit removes it later", "upload", row.ID, "error", err)
	}
}

// withReceived adds the received parts to the view of an existing upload, so that the client
// continues after them.
func (c *creator) withReceived(ctx context.Context, v View) (View, error) {
	_, parts, err := c.views.peek(ctx, drive.Who{Account: v.row.Account}, v.ID)
	return v.withParts(parts), err
}

// commitBegin inserts the row in a transaction. Unless the upload is done already or an existing
// one was found, it also caches the row and arms its timers. It returns retry if the transaction
// finds the content of o gone; nothing is changed then.
func (c *creator) commitBegin(ctx context.Context, b Begin, row Row, o claim.Offer, once Once[View]) (view View, out outcome, err error) {
	l := c.table.acquire(row.ID) // the same liveUpload that requests get which find the new row
	defer c.table.release(l)
	err = c.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.SetActor(drive.Who{User: row.User, Account: row.Account})
		var err error
		view, err = once.run(ctx, tx, func(ctx context.Context, tx *sqldb.Tx) (View, error) {
			return c.beginTx(ctx, tx, b, row, o)
		})
		return err
	})
	out, err = retryIfStale(err)
	if err != nil || out == retry || view.Found || view.State == Done.Public() {
		return view, out, err
	}
	l.touch(c.clocks.now())
	l.setNew(view.row)
	c.sched.arm(ctx, view.row)
	return view, finished, nil
}

// reserveFirst promises disk space for the declared size and returns it. For an unknown size it
// promises up to firstGrant, as far as the disk allows.
func (c *creator) reserveFirst(ctx context.Context, account drive.AccountID, size drive.ByteSize) (drive.ByteSize, error) {
	if size == blob.UnknownSize {
		return c.disk.ReserveSome(ctx, account, firstGrant, 0)
	}
	return size, c.disk.Reserve(ctx, account, size)
}

// beginTx is the transaction of Begin: it finds an open upload, links owned content, or reserves
// and inserts.
func (c *creator) beginTx(ctx context.Context, tx *sqldb.Tx, b Begin, row Row, o claim.Offer) (View, error) {
	if err := c.ledger.Lock(ctx, tx, row.Account); err != nil {
		return View{}, err
	}
	if !row.isPartial() {
		if err := c.setPlace(ctx, tx, b, &row); err != nil {
			return View{}, err
		}
	}
	found, open, err := c.findOpen(ctx, tx, row)
	if err != nil {
		return View{}, err
	}
	if found != nil {
		view, err := c.views.of(ctx, tx, *found)
		view.Found = true
		return view, err
	}
	if !row.isPartial() {
		if err := c.tree.CheckPlace(ctx, tx, row.Account, row.place()); err != nil {
			return View{}, err
		}
	}
	if !o.Owned.IsZero() {
		return c.linkTx(ctx, tx, b, row, o.Owned)
	}
	if open >= c.maxOpen {
		return View{}, drive.Fail(drive.TooManyOpen, "limit", c.maxOpen, "sent", open+1)
	}
	if row.Size == blob.UnknownSize {
		row.Reserved, err = c.ledger.Grant(ctx, tx, row.Account, row.Reserved, 0)
	} else {
		err = c.ledger.Apply(ctx, tx, row.Account, quota.Move{Reserved: row.Reserved})
	}
	if err != nil {
		return View{}, err
	}
	if err := c.checkAlive(ctx, tx); err != nil {
		return View{}, err
	}
	if err := c.countQuestion(ctx, tx, row.User, o.Challenged); err != nil {
		return View{}, err
	}
	if err := c.placer.emit(ctx, tx, stream.UploadBegun, row); err != nil {
		return View{}, err
	}
	return c.insertUpload(ctx, tx, b, row)
}

// insertUpload inserts within tx the row of a new upload and its head, and returns its view. The
// caller has charged the reservation and emits the event.
func (c *creator) insertUpload(ctx context.Context, tx *sqldb.Tx, b Begin, row Row) (View, error) {
	if err := insertRow(ctx, tx, row); err != nil {
		return View{}, err
	}
	if err := insertHead(ctx, tx, row.ID, head{Kind: b.Kind, Protocol: b.Protocol, Metadata: b.Metadata}); err != nil {
		return View{}, err
	}
	return c.views.of(ctx, tx, row)
}

// newRow builds the row for b and checks what needs no database. It fails with TooLarge for a size
// beyond drive.MaxFileSize, BadRequest {field fingerprint, metadata or part_size}, and BadName for
// an empty path.
func (c *creator) newRow(who drive.Who, b Begin) (Row, error) {
	if b.Size != blob.UnknownSize && (b.Size < 0 || b.Size > drive.MaxFileSize) {
		return Row{}, drive.Fail(drive.TooLarge, "field", "size", "limit", drive.MaxFileSize, "sent", b.Size)
	}
	if len(b.Fingerprint) > maxFingerprint {
		return Row{}, drive.BadField("fingerprint", drive.TooLong, "limit", maxFingerprint, "sent", len(b.Fingerprint))
	}
	if len(b.Metadata) > MaxMetadata {
		return Row{}, drive.BadField("metadata", drive.TooLong, "limit", MaxMetadata, "sent", len(b.Metadata))
	}
	partSize, err := c.partSize(b)
	if err != nil {
		return Row{}, err
	}
	now := c.clocks.now()
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

// partSize returns the part size for b: the requested one or the default. A requested one must be a
// power of two, so that each part is a complete subtree of the BLAKE3 tree, and large enough for
// the file; otherwise BadRequest.
func (c *creator) partSize(b Begin) (drive.ByteSize, error) {
	smallest := leastPartSize(c.staging.Caps()) // the limit of the current staging; it may change when contents move
	least := PartSizeFor(b.Size, smallest)
	switch {
	case b.PartSize == 0:
		return PartSizeFor(b.Size, max(c.partBytes, smallest)), nil
	case b.PartSize < least || b.PartSize > MaxPartSize:
		return 0, drive.BadField("part_size", drive.OutOfRange, "min", least, "max", drive.ByteSize(MaxPartSize), "sent", b.PartSize)
	case b.PartSize&(b.PartSize-1) != 0:
		return 0, drive.BadField("part_size", drive.Malformed, "expected", "a power of two", "sent", b.PartSize)
	}
	return b.PartSize, nil
}

// setPlace sets the row's parent and, for a replace, the version to be replaced. It checks a
// guest's right to the folder.
func (c *creator) setPlace(ctx context.Context, tx *sqldb.Tx, b Begin, row *Row) error {
	folder, err := c.findParent(ctx, tx, b, row.Account)
	if err != nil {
		return err
	}
	row.Parent = folder.ID
	if err := c.auth.mayPut(ctx, tx, *row, tree.Target{Folder: folder.ID}); err != nil {
		return err
	}
	return c.placer.setBase(ctx, tx, row)
}

// findParent returns the target folder of b. With b.Parents it creates missing folders within tx;
// otherwise a missing folder is an error.
func (c *creator) findParent(ctx context.Context, tx *sqldb.Tx, b Begin, account drive.AccountID) (tree.Node, error) {
	if b.Path == nil {
		return c.tree.Find(ctx, tx, account, b.Parent)
	}
	parent, _, _ := b.Path.Split()
	if b.Parents {
		return c.tree.EnsureFolders(ctx, tx, account, parent)
	}
	return c.tree.Resolve(ctx, tx, account, parent)
}

// findOpen returns the open upload for the same file, nil if there is none, and the account's
// number of open uploads. The same file means: equal target and size, and an equal strong digest or
// client fingerprint.
func (c *creator) findOpen(ctx context.Context, tx *sqldb.Tx, row Row) (*Row, int, error) {
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
		if row.guest && r.User != row.User { // belongs to another member
			continue
		}
		r.guest = row.guest
		if r.Size == row.Size && (r.Digests.SameContent(row.Digests) || row.Fingerprint != "" && r.Fingerprint == row.Fingerprint) {
			return &r, open, nil
		}
	}
	return nil, open, nil
}

// linkTx creates the upload in state done, with content that the account already owns. The row is
// kept like any done upload, so that the client can query or complete it again. It returns errStale
// if the content is gone.
func (c *creator) linkTx(ctx context.Context, tx *sqldb.Tx, b Begin, row Row, id drive.BlobID) (View, error) {
	if err := c.ledger.Apply(ctx, tx, row.Account, quota.Move{Finished: row.Size}); err != nil {
		return View{}, err
	}
	switch err := c.content.Ref(ctx, tx, id); {
	case drive.IsKind(err, drive.NotFound):
		return View{}, errStale // the last reference was deleted
	case err != nil:
		return View{}, err
	}
	placed, err := c.placer.place(ctx, tx, row, id)
	if err != nil {
		return View{}, err
	}
	row.State, row.Node, row.Reserved, row.Challenge, row.Ended = Done, placed.Node.ID, 0, nil, c.clocks.now()
	if err := c.placer.emit(ctx, tx, stream.UploadDone, row); err != nil {
		return View{}, err
	}
	return c.insertUpload(ctx, tx, b, row)
}

// countQuestion counts a possession challenge in the transaction that stores it; errStale if the
// challenge is no longer allowed.
func (c *creator) countQuestion(ctx context.Context, tx *sqldb.Tx, user drive.UserID, asks []content.Blob) error {
	counted, err := c.claims.CountChallenge(ctx, tx, user, asks)
	if err == nil && !counted {
		err = errStale
	}
	return err
}
