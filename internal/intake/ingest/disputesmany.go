package ingest

import (
	"context"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Open selects conflicts that are open, that is, not resolved yet. Empty fields match all.
type Open struct {
	Source string
	IDs    []drive.ConflictID // at most MostSettled

	bundle drive.BundleID // bundle of the later side
}

// MostSettled is the maximum number of conflicts that one call resolves, which takes some seconds.
const MostSettled = 1000

// SettleMany resolves up to MostSettled matching open conflicts of the caller's account in the same
// way, the oldest first. It returns the number resolved, and the number of matching conflicts that
// are still open. It commits in several transactions: after an error, part of the conflicts is
// resolved, and the caller may call again for the rest. If a document has several conflicts and
// keep is KeepNew, the last one wins. BadRequest: o.IDs is longer than MostSettled.
func (in *Intake) SettleMany(ctx context.Context, who drive.Who, o Open, keep Keep) (settled, left int64, err error) {
	return in.library.settleMany(ctx, who, o, keep)
}

// settleMany resolves up to MostSettled of the open conflicts that o selects, in several
// transactions. It returns how many it resolved and how many are left. After an error settled
// counts the committed ones and left is 0. More than MostSettled ids fail with drive.BadRequest.
func (in *library) settleMany(ctx context.Context, who drive.Who, o Open, keep Keep) (settled, left int64, err error) {
	if len(o.IDs) > MostSettled {
		return 0, 0, drive.BadField("conflicts", drive.OutOfRange, "min", 1, "max", MostSettled, "sent", len(o.IDs))
	}
	from, args := o.from(who.Account)
	rows, err := in.opt.DB.Query(ctx, "SELECT c.id, c.document_id, OCTET_LENGTH(c.body) + OCTET_LENGTH(d.body)"+from+" ORDER BY c.id LIMIT ?", append(args, MostSettled)...)
	all, err := sqldb.Scan(rows, err, func(c *unsettled, scan func(...any) error) error { return scan(&c.id, &c.document, &c.size) })
	if err != nil {
		return 0, 0, fmt.Errorf("list open conflicts: %w", err)
	}
	for _, part := range settledTogether(all) {
		n, err := in.settlePart(ctx, who, part, keep)
		if err != nil {
			return settled, 0, fmt.Errorf("settle %d conflicts: %w", len(part), err)
		}
		settled += n
	}
	if len(all) < MostSettled {
		return settled, 0, nil
	}
	return settled, left, in.opt.DB.QueryRow(ctx, "SELECT COUNT(*)"+from, args...).Scan(&left)
}

// unsettled is an open conflict.
type unsettled struct {
	id       drive.ConflictID
	document drive.DocumentID
	size     int // bytes of both deflated models
}

// Limits of one transaction: conflicts, which take some 10 ms, and bytes of deflated models held in
// memory.
const (
	settleBatch = 50
	settleBytes = 4 << 20
)

// settledTogether splits conflicts into parts, one per transaction. A part holds at most one
// conflict per document, because each resolution must see the result of the previous one.
func settledTogether(all []unsettled) (parts [][]unsettled) {
	first, size, seen := 0, 0, map[drive.DocumentID]bool{}
	for i, c := range all {
		if i > first && (i-first == settleBatch || size+c.size > settleBytes || seen[c.document]) {
			parts = append(parts, all[first:i])
			first, size, seen = i, 0, map[drive.DocumentID]bool{}
		}
		size, seen[c.document] = size+c.size, true
	}
	if first < len(all) {
		parts = append(parts, all[first:])
	}
	return parts
}

// settlePart resolves the conflicts of a part that are still open, and returns their number. It
// does so in one transaction; on an error none is resolved.
func (in *library) settlePart(ctx context.Context, who drive.Who, part []unsettled, keep Keep) (settled int64, err error) {
	now, err := in.now(ctx)
	if err != nil {
		return 0, err
	}
	err = in.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		settled = 0
		all, err := lockAll(ctx, tx, who.Account, part)
		if err != nil || len(all) == 0 {
			return err
		}
		state := sideDiscarded
		var conflicts, documents []any
		for _, s := range all {
			conflicts, documents = append(conflicts, s.conflict), append(documents, s.document)
			if keep != KeepNew {
				continue
			}
			state = sideReplaced
			if err := s.swap(ctx, tx, now); err != nil {
				return err
			}
		}
		settled = int64(len(all))
		return closeConflicts(ctx, tx, who, state, now, conflicts, documents)
	})
	return settled, err
}

// closeConflicts marks conflicts as resolved with the given state, and updates the state of their
// documents. The caller must hold the locks of the documents.
func closeConflicts(ctx context.Context, tx *sqldb.Tx, who drive.Who, state string, now drive.Time, conflicts, documents []any) error {
	_, err := tx.Exec(ctx, "UPDATE document_conflicts SET state = ?, settled_at = ?, settled_by = ? WHERE id IN ("+sqldb.Placeholders(len(conflicts))+")",
		append([]any{state, now, who.User}, conflicts...)...)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `UPDATE documents SET updated_at = ?, state = CASE WHEN EXISTS (SELECT 1 FROM document_conflicts c
		WHERE c.document_id = documents.id AND c.state = 'open') THEN 'conflict' ELSE 'accepted' END WHERE id IN (`+sqldb.Placeholders(len(documents))+")",
		append([]any{now}, documents...)...)
	return err
}

// lockAll locks the documents of several open conflicts and returns both sides of each. It leaves
// out conflicts that are resolved, deleted or of another account. It fails with an error of the
// database.
func lockAll(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, part []unsettled) ([]sides, error) {
	var conflicts, documents []any
	for _, c := range part {
		conflicts, documents = append(conflicts, c.id), append(documents, c.document)
	}
	marks := sqldb.Placeholders(len(part))
	// Select by id alone: with the account in the condition, a database may read and lock all
	// documents of the account.
	rows, err := tx.Query(ctx, "SELECT account_id, id, source, hash, bundle_id, member, idx, file_id, pdf_id, body FROM documents WHERE id IN ("+marks+
		") ORDER BY id"+tx.ForUpdate(), documents...)
	docs, err := sqldb.Scan(rows, err, func(s *sides, scan func(...any) error) error {
		return scan(&s.account, &s.document, &s.source, &s.oldHash, &s.old.bundle, &s.old.member, &s.old.index, &s.old.file, &s.old.pdf, &s.oldBody)
	})
	if err != nil {
		return nil, err
	}
	there := map[drive.DocumentID]sides{}
	for _, s := range docs {
		there[s.document] = s
	}
	rows, err = tx.Query(ctx, "SELECT id, document_id, hash, bundle_id, member, idx, file_id, pdf_id, body FROM document_conflicts WHERE state = 'open' AND id IN ("+marks+
		") ORDER BY id", conflicts...)
	open, err := sqldb.Scan(rows, err, func(s *sides, scan func(...any) error) error {
		return scan(&s.conflict, &s.document, &s.newHash, &s.fresh.bundle, &s.fresh.member, &s.fresh.index, &s.fresh.file, &s.fresh.pdf, &s.newBody)
	})
	if err != nil {
		return nil, err
	}
	all := make([]sides, 0, len(open))
	for _, c := range open {
		s, ok := there[c.document]
		if !ok || s.account != account {
			continue
		}
		s.conflict, s.newHash, s.newBody, s.fresh = c.conflict, c.newHash, c.newBody, c.fresh
		all = append(all, s)
	}
	return all, nil
}

// from returns the FROM and WHERE clauses that select the conflicts, and their arguments.
func (o Open) from(account drive.AccountID) (string, []any) {
	from, args := " FROM document_conflicts c JOIN documents d ON d.id = c.document_id WHERE c.account_id = ? AND c.state = 'open'", []any{account}
	if o.Source != "" {
		from, args = from+" AND d.source = ?", append(args, o.Source)
	}
	if !o.bundle.IsZero() {
		from, args = from+" AND c.bundle_id = ?", append(args, o.bundle)
	}
	if len(o.IDs) > 0 {
		from += " AND c.id IN (" + sqldb.Placeholders(len(o.IDs)) + ")"
		for _, id := range o.IDs {
			args = append(args, id)
		}
	}
	return from, args
}

// settleByRule resolves the conflicts that a bundle caused, as the rules of its source demand; an
// empty keep resolves none. It calls settleMany until none is left, and fails with its error.
func (in *library) settleByRule(ctx context.Context, b *row, keep Keep) error {
	if keep == "" {
		return nil
	}
	for left := int64(1); left > 0; {
		var err error
		if _, left, err = in.settleMany(ctx, drive.Who{Account: b.Account}, Open{bundle: b.ID}, keep); err != nil {
			return fmt.Errorf("settle the conflicts of bundle %s: %w", b.ID, err)
		}
	}
	return nil
}
