package upload

import (
	"context"
	"io"

	"smartdrive/internal/base/digest"
	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/quota"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/usecase/upload/claim"
)

// Small files that somebody else makes visible, in a transaction of their own: package batch. The
// steps are those of PutFile, each of many files at once:
//
//	Lay          the bytes are in the store, and may be lost with the machine
//	SettleLaid   they are durable, and stored contents with the same digests were inspected
//	PublishLaid  within the caller's transaction; each file succeeds or fails alone
//	EndLaid      after it: the files of what has failed are removed

// Laid is a small file whose content is in the store and that nobody sees yet.
type Laid struct{ arrival }

// Sum is the digest of the content.
func (l *Laid) Sum() digest.Sum { return l.content.Sum }

// Outcome is what became of the file. Before the transaction of PublishLaid is committed it may
// change.
func (l *Laid) Outcome() (n tree.Node, created bool, err error) {
	return l.placed.Node, l.placed.Created, l.err()
}

// Digests are those of a content that is new, all that it has; nil: it may have others.
func (l *Laid) Digests() digest.Set { return l.stored().Digests }

// Refuse makes an outcome of what somebody else has decided.
func (l *Laid) Refuse(err error) { l.end(err) }

// Condition is asked, within the transaction, about what is there; nil: nothing. Its error refuses
// the file.
type Condition func(ctx context.Context, q sqldb.Querier, there *tree.Node) error

// and is the condition that both hold.
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

func (c Condition) holds(ctx context.Context, q sqldb.Querier, at tree.Target) error {
	switch {
	case c == nil:
		return nil
	case at.There.ID.IsZero():
		return c(ctx, q, nil)
	}
	return c(ctx, q, &at.There)
}

// Lay brings the content of a small file, of a size that is known and at most LaidSize, to the
// store. EndLaid must follow. On an error nothing stays. p.Check is not asked, only may and
// p.Expect are.
func (s *Sessions) Lay(ctx context.Context, who drive.Who, p PutFile, may Condition, body io.Reader) (*Laid, error) {
	if p.Conflict == "" {
		p.Conflict = drive.ConflictReplace
	}
	if most := min(LaidSize, s.opt.PartSize); p.Size > most {
		return nil, drive.Fail(drive.TooLarge, "field", "size", "limit", most, "sent", p.Size)
	}
	b := Begin{Path: p.Path, Size: p.Size, Digests: p.Digests, Conflict: p.Conflict, Parents: p.Parents, MTime: p.MTime, Mime: p.Mime}
	row, err := s.beginner.newRow(who, b)
	if err != nil {
		return nil, err
	}
	may = may.and(p.expecting(s.Tree))
	a, err := s.small.store(ctx, wholeFile{who: who, begin: b, row: row}, arrival{quick: true, may: may}, body, s.small.laying(true))
	if err != nil {
		return nil, err
	}
	return &Laid{*a}, nil
}

// LaidSize is the largest file that is laid: what is larger gains nothing by it.
const LaidSize = drive.MiB

// SettleLaid makes the content of files durable, and inspects stored contents with the same
// digests: bad bytes PublishLaid replaces. When it fails none of them counts as durable.
func SettleLaid(ctx context.Context, s *Sessions, all []*Laid) error {
	if len(all) == 0 {
		return nil
	}
	names, arrivals := make([]string, len(all)), make([]*arrival, len(all))
	for i, l := range all {
		names[i], arrivals[i] = l.content.File, &l.arrival
	}
	if err := s.Store.Settle(ctx, names); err != nil {
		return err
	}
	return s.inspectAll(ctx, arrivals)
}

// PublishLaid makes files of one account visible, in their order. Its error is that of the
// transaction: the caller returns it.
func (s *Sessions) PublishLaid(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, all []*Laid) error {
	arrivals := make([]*arrival, len(all))
	for i, l := range all {
		l.ended = false // a transaction that runs again
		arrivals[i] = &l.arrival
	}
	if len(all) == 1 {
		return s.small.committer.putEach(ctx, tx, arrivals)
	}
	return s.small.committer.putAll(ctx, tx, account, arrivals)
}

// EndLaid removes the content of files that were not published. failed is the error of the
// transaction, nil: it was committed. Where it may have been committed all the same nothing is
// removed, and the auditor decides.
func (s *Sessions) EndLaid(ctx context.Context, failed error, all []*Laid) error {
	ctx = context.WithoutCancel(ctx)
	var refused []*arrival
	for _, l := range all {
		switch {
		case sqldb.MaybeWritten(failed), failed == nil && l.err() == nil:
			s.small.done(l.row, l.content.File)
		default:
			refused = append(refused, &l.arrival)
		}
	}
	return s.small.dropAll(ctx, refused)
}

// CheckOwned refuses what LinkOwned would be asked for if the bytes of the content are lost or
// damaged: as NotFound {field: digests}, so that the client sends them. It comes before the
// transaction.
func CheckOwned(ctx context.Context, s *Sessions, who drive.Who, p PutFile) error {
	lost, err := s.claims.Lost(ctx, s.DB, claim.Claim{Account: who.Account, User: who.User, Size: p.Size, Digests: p.Digests})
	if err == nil && lost {
		err = drive.Fail(drive.NotFound, "field", "digests")
	}
	return err
}

// LinkOwned makes a file of content that the account has, as Begin would link it, within the
// caller's transaction, which has the lock on the ledger. p is what PutFile would be asked for.
// Besides its errors: NotFound {field: digests} where the account has no such content.
func LinkOwned(ctx context.Context, s *Sessions, tx *sqldb.Tx, who drive.Who, p PutFile, may Condition) (tree.Placed, error) {
	id, err := s.claims.Owned(ctx, tx, claim.Claim{Account: who.Account, User: who.User, Size: p.Size, Digests: p.Digests})
	if err == nil && id.IsZero() {
		err = drive.Fail(drive.NotFound, "field", "digests")
	}
	if err != nil {
		return tree.Placed{}, err
	}
	if p.Conflict == "" {
		p.Conflict = drive.ConflictReplace
	}
	b := Begin{Path: p.Path, Size: p.Size, Conflict: p.Conflict, Parents: p.Parents, MTime: p.MTime, Mime: p.Mime}
	row, err := s.beginner.newRow(who, b)
	if err != nil {
		return tree.Placed{}, err
	}
	if err := s.Ledger.Apply(ctx, tx, row.Account, quota.Move{Finished: row.Size}); err != nil {
		return tree.Placed{}, err
	}
	at, err := s.Tree.Aim(ctx, tx, row.Account, b.Path, b.Parents)
	if err == nil {
		err = may.holds(ctx, tx, at)
	}
	if err != nil {
		return tree.Placed{}, err
	}
	if err := s.Content.Ref(ctx, tx, id); err != nil {
		return tree.Placed{}, err
	}
	row.Base = at.There.Version
	placed, err := s.Tree.PutFileAt(ctx, tx, row.Account, at, row.file(id))
	if err != nil {
		return tree.Placed{}, err
	}
	return placed, s.placer.drop(ctx, tx, row, placed)
}
