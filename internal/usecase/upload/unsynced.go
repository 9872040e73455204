package upload

import (
	"context"
	"io"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/upload/claim"
)

// A caller can publish many small files in a transaction of its own (package batch). The steps are
// those of PutFile, each for many files:
//
//	PutUnsynced      stores the bytes; a power loss may still lose them
//	SyncFiles        makes them durable, and inspects stored contents with the same digests
//	PublishSynced    runs in the caller's transaction; each file succeeds or fails alone
//	ReleaseUnsynced  runs after it; removes the contents of failed files

// UnsyncedFile is a small file whose content is stored but not published.
type UnsyncedFile struct{ pendingFile }

// Sum returns the BLAKE3 digest of the content.
func (l *UnsyncedFile) Sum() digest.Sum { return l.content.Sum }

// Result returns the published file, or the error that refused it; created is false if it replaced
// a file. The result is final once the transaction of PublishSynced is committed.
func (l *UnsyncedFile) Result() (n tree.Node, created bool, err error) {
	return l.placed.Node, l.placed.Created, l.err()
}

// Digests returns all digests of the content if the content is new; nil if the account's files
// already had it.
func (l *UnsyncedFile) Digests() digest.Set { return l.stored().Digests }

// SetError makes err the result of the file. A caller that decides not to publish the file calls it
// before ReleaseUnsynced.
func (l *UnsyncedFile) SetError(err error) { l.finish(err) }

// Condition checks, within the publishing transaction, the node at the file's target (nil: none
// there). Its error refuses the file. A nil Condition always holds.
type Condition func(ctx context.Context, q sqldb.Querier, there *tree.Node) error

// and returns a condition that requires both.
func (c Condition) and(other Condition) Condition {
	switch {
	case c == nil:
		return other
	case other == nil:
		return c
	}
	return func(ctx context.Context, q sqldb.Querier, there *tree.Node) error {
		if err := c(ctx, q, there); err != nil {
			return err
		}
		return other(ctx, q, there)
	}
}

// holds returns nil if c allows the file to be put at the target, else the error of c that refuses
// it. A nil c allows every target; a free target is passed to c as a nil node.
func (c Condition) holds(ctx context.Context, q sqldb.Querier, at tree.Target) error {
	switch {
	case c == nil:
		return nil
	case at.Existing.ID.IsZero():
		return c(ctx, q, nil)
	}
	return c(ctx, q, &at.Existing)
}

// PutUnsynced stores the content of a small file of known size, at most MaxUnsyncedSize (else
// TooLarge), without making it durable or visible. On success the caller must call ReleaseUnsynced;
// on an error nothing remains. It ignores p.Check: may and p.Expect are checked when the file is
// published.
func (s *Sessions) PutUnsynced(ctx context.Context, who drive.Who, p PutFile, may Condition, body io.Reader) (*UnsyncedFile, error) {
	if p.Conflict == "" {
		p.Conflict = drive.ConflictReplace
	}
	if most := min(MaxUnsyncedSize, s.opt.PartSize); p.Size > most {
		return nil, drive.Fail(drive.TooLarge, "field", "size", "limit", most, "sent", p.Size)
	}
	b := Begin{Path: p.Path, Size: p.Size, Digests: p.Digests, Conflict: p.Conflict, Parents: p.Parents, MTime: p.MTime, Mime: p.Mime}
	row, err := s.creator.newRow(who, b)
	if err != nil {
		return nil, err
	}
	may = may.and(p.expecting(s.Tree))
	a, err := s.smallFiles.store(ctx, wholeFile{who: who, begin: b, row: row}, pendingFile{quick: true, condition: may}, body, s.smallFiles.lazyMethod(true))
	if err != nil {
		return nil, err
	}
	return &UnsyncedFile{*a}, nil
}

// MaxUnsyncedSize is the largest size that PutUnsynced accepts; larger files gain nothing from it.
const MaxUnsyncedSize = drive.MiB

// SyncFiles makes the contents of files durable, and inspects stored contents with the same
// digests, so that PublishSynced can replace damaged ones. If it fails, none of the files counts as
// durable.
func SyncFiles(ctx context.Context, s *Sessions, all []*UnsyncedFile) error {
	if len(all) == 0 {
		return nil
	}
	names, arrivals := make([]string, len(all)), make([]*pendingFile, len(all))
	for i, l := range all {
		names[i], arrivals[i] = l.content.File, &l.pendingFile
	}
	if err := s.Store.Sync(ctx, names); err != nil {
		return err
	}
	return s.inspectAll(ctx, arrivals)
}

// PublishSynced publishes files of one account within tx, in their order, after SyncFiles. A
// refused file has its error in Result and does not fail the others. A returned error is that of
// the transaction: the caller must return it, so that tx is rolled back.
func (s *Sessions) PublishSynced(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, all []*UnsyncedFile) error {
	arrivals := make([]*pendingFile, len(all))
	for i, l := range all {
		l.hasResult = false // the transaction may run again
		arrivals[i] = &l.pendingFile
	}
	if len(all) == 1 {
		return s.smallFiles.committer.putEach(ctx, tx, arrivals)
	}
	return s.smallFiles.committer.putAll(ctx, tx, account, arrivals)
}

// ReleaseUnsynced removes the contents of files that were not published. failed is the error of the
// publishing transaction; nil: it was committed. If the transaction may have been committed despite
// its error, nothing is removed and the auditor decides later.
func (s *Sessions) ReleaseUnsynced(ctx context.Context, failed error, all []*UnsyncedFile) error {
	ctx = context.WithoutCancel(ctx)
	var refused []*pendingFile
	for _, l := range all {
		switch {
		case sqldb.MaybeWritten(failed), failed == nil && l.err() == nil:
			s.smallFiles.releaseFile(l.row, l.content.File)
		default:
			refused = append(refused, &l.pendingFile)
		}
	}
	return s.smallFiles.dropAll(ctx, refused)
}

// CheckOwned returns NotFound {field: digests} if the account owns the content of p but its bytes
// are lost or damaged, so that the client sends them. The caller calls it before the transaction of
// LinkOwned.
func CheckOwned(ctx context.Context, s *Sessions, who drive.Who, p PutFile) error {
	lost, err := s.claims.IsDamaged(ctx, s.DB, claim.Claim{Account: who.Account, User: who.User, Size: p.Size, Digests: p.Digests})
	if err == nil && lost {
		err = drive.Fail(drive.NotFound, "field", "digests")
	}
	return err
}

// LinkOwned creates the file p from content that the account already owns, without sending bytes.
// It runs within tx, whose caller holds the lock on the ledger. Errors: as PutFile; NotFound
// {field: digests} if the account owns no such content.
func LinkOwned(ctx context.Context, s *Sessions, tx *sqldb.Tx, who drive.Who, p PutFile, may Condition) (tree.PutResult, error) {
	id, err := s.claims.Owned(ctx, tx, claim.Claim{Account: who.Account, User: who.User, Size: p.Size, Digests: p.Digests})
	if err == nil && id.IsZero() {
		err = drive.Fail(drive.NotFound, "field", "digests")
	}
	if err != nil {
		return tree.PutResult{}, err
	}
	if p.Conflict == "" {
		p.Conflict = drive.ConflictReplace
	}
	b := Begin{Path: p.Path, Size: p.Size, Conflict: p.Conflict, Parents: p.Parents, MTime: p.MTime, Mime: p.Mime}
	row, err := s.creator.newRow(who, b)
	if err != nil {
		return tree.PutResult{}, err
	}
	if err := s.Ledger.Apply(ctx, tx, row.Account, quota.Move{Finished: row.Size}); err != nil {
		return tree.PutResult{}, err
	}
	at, err := s.Tree.ResolveTarget(ctx, tx, row.Account, b.Path, b.Parents)
	if err == nil {
		err = may.holds(ctx, tx, at)
	}
	if err != nil {
		return tree.PutResult{}, err
	}
	if err := s.Content.Ref(ctx, tx, id); err != nil {
		return tree.PutResult{}, err
	}
	row.Base = at.Existing.Version
	placed, err := s.Tree.PutFileAt(ctx, tx, row.Account, at, row.file(id))
	if err != nil {
		return tree.PutResult{}, err
	}
	return placed, s.placer.releaseDropped(ctx, tx, row, placed)
}
