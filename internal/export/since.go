package export

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Changes since the last export of a folder are found by the tree's change counter, not by a clock,
// so that files with an old modification time are found. An export notes the counter before its
// list is made, and its mark advances to that value when all parts are sealed. A concurrent change
// is exported twice, never missed.

// mark is the position in the account's tree up to which a folder was exported; the next export of
// changes continues there.
type mark struct {
	Key string     `json:"key"` // identifies folder and filter
	Seq int64      `json:"seq"` // change counter of the tree
	At  drive.Time `json:"at"`
}

const (
	// maxMarks limits the marks per account; a new one evicts the oldest.
	maxMarks = 1000
	// lateDocuments is the overlap of two exports of documents: the row of a document carries a
	// time before its commit.
	lateDocuments = 5 * time.Minute
)

// markKey returns the key shared by exports of the same folder with the same filter. It is empty
// for exports by time, which do not continue each other.
func markKey(folder drive.NodeID, f Filter) string {
	if folder.IsZero() || f.Month != "" || f.From != "" || f.To != "" {
		return ""
	}
	ext := slices.Clone(f.Ext)
	for i := range ext {
		ext[i] = strings.ToLower(strings.TrimPrefix(ext[i], "."))
	}
	slices.Sort(ext)
	raw, err := json.Marshal([]any{folder, ext, strings.ToLower(f.Pattern), f.Documents})
	if err != nil { // cannot happen for strings
		return ""
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// setMarks sets lb.nextMark to the current position of the tree, and if the request asks for
// changes, lb.since to the mark of the last export; without one everything is exported. It sets
// nothing for selections that have no mark (see markKey). in.Folder must be an id already, also for
// the root. It returns BadRequest if such a selection asks for changes.
func (lb *listBuilder) setMarks(ctx context.Context, in *Request) error {
	key := markKey(in.Folder, in.Filter)
	if key == "" {
		if in.Filter.SinceLast {
			return drive.BadField("since_last", drive.NotTogether, "with", "nodes, manifest, month, from, to")
		}
		return nil
	}
	now, err := lb.now(ctx)
	if err != nil {
		return err
	}
	seq, err := lb.opt.Tree.Seq(ctx, lb.opt.DB, lb.account)
	if err != nil {
		return err
	}
	lb.nextMark = &mark{Key: key, Seq: seq, At: now}
	if !in.Filter.SinceLast {
		return nil
	}
	err = lb.opt.DB.QueryRow(ctx, "SELECT seq, at FROM export_marks WHERE account_id = ? AND mark = ?", lb.account, key).Scan(&lb.since.Seq, &lb.since.At)
	if err != nil && !drive.IsKind(err, drive.NotFound) { // no mark: export everything
		return fmt.Errorf("find the last export of a folder: %w", err)
	}
	return nil
}

// advanceMark stores the mark m within tx when the last part of a set is sealed; before, it does
// nothing. It never moves a mark back. The caller has locked the account's ledger.
func (b *batch) advanceMark(ctx context.Context, tx *sqldb.Tx, m mark) error {
	var open int
	err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM export_parts p JOIN exports x ON x.id = p.export_id
		WHERE p.set_id = ? AND x.id <> ? AND x.revision = 1 AND x.state NOT IN ('sealed', 'expired')`, b.Set, b.ID).Scan(&open)
	if err != nil || open > 0 {
		return err
	}
	n, err := tx.Exec(ctx, "UPDATE export_marks SET seq = ?, at = ? WHERE account_id = ? AND mark = ? AND seq <= ?", m.Seq, m.At, b.Account, m.Key, m.Seq)
	if err != nil || n > 0 {
		return err
	}
	if _, err := tx.InsertNew(ctx, "INSERT INTO export_marks (account_id, mark, seq, at) VALUES (?, ?, ?, ?)", b.Account, m.Key, m.Seq, m.At); err != nil {
		return err
	}
	return trimMarks(ctx, tx, b.Account)
}

// trimMarks deletes the oldest marks of an account, so that at most maxMarks stay. One call deletes
// maxMarks at most.
func trimMarks(ctx context.Context, tx *sqldb.Tx, account drive.AccountID) error {
	rows, err := tx.Query(ctx, "SELECT mark FROM export_marks WHERE account_id = ? ORDER BY at DESC, mark LIMIT ? OFFSET ?", account, maxMarks, maxMarks)
	old, err := sqldb.Scan(rows, err, func(key *string, scan func(...any) error) error { return scan(key) })
	for _, key := range old {
		if err == nil {
			_, err = tx.Exec(ctx, "DELETE FROM export_marks WHERE account_id = ? AND mark = ?", account, key)
		}
	}
	return err
}
