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

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// What has changed since the last export of a folder is told by the tree's own count of changes,
// not by any clock: a file that comes late with an old time is among it. An export notes where the
// tree was before its list was made, and its mark moves there when it is sealed, all parts of it.
// So what changes in between is in two exports, never in none.

// mark is where an export of a folder ends, and the next one begins.
type mark struct {
	Key string     `json:"key"` // of folder and filter
	Seq int64      `json:"seq"` // of the tree
	At  drive.Time `json:"at"`
}

const (
	// maxMarks is how many an account has: one more takes the place of the oldest.
	maxMarks = 1000
	// lateDocuments is how long before a mark a document may have been taken in that was not in the
	// export: its row has the time before its transaction.
	lateDocuments = 5 * time.Minute
)

// markKey says which exports follow each other: those of the same folder by the same filter. Empty:
// none, for an export by times is a part of what there is.
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
	if err != nil { // of texts
		return ""
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// begin notes where the tree is, before the list of a request is made, and finds the mark that the
// request begins at. The root folder is named by its id by then.
func (w *walk) begin(ctx context.Context, in *Request) error {
	key := markKey(in.Folder, in.Filter)
	if key == "" {
		if in.Filter.SinceLast {
			return drive.Bad("since_last", drive.NotTogether, "with", "nodes, manifest, month, from, to")
		}
		return nil
	}
	now, err := w.now(ctx)
	if err != nil {
		return err
	}
	seq, err := w.opt.Tree.Seq(ctx, w.opt.DB, w.account)
	if err != nil {
		return err
	}
	w.end = &mark{Key: key, Seq: seq, At: now}
	if !in.Filter.SinceLast {
		return nil
	}
	err = w.opt.DB.QueryRow(ctx, "SELECT seq, at FROM export_marks WHERE account_id = ? AND mark = ?", w.account, key).Scan(&w.since.Seq, &w.since.At)
	if err != nil && !drive.IsKind(err, drive.NotFound) { // there was none before: everything
		return fmt.Errorf("find the last export of a folder: %w", err)
	}
	return nil
}

// reach moves the mark of a batch that is being sealed, unless other parts of its set are not
// sealed yet: the last one does. The account's ledger is locked.
func (b *batch) reach(ctx context.Context, tx *sqldb.Tx, m mark) error {
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
	return forgetMarks(ctx, tx, b.Account)
}

// forgetMarks drops the oldest marks of an account that are more than it may have.
func forgetMarks(ctx context.Context, tx *sqldb.Tx, account drive.AccountID) error {
	rows, err := tx.Query(ctx, "SELECT mark FROM export_marks WHERE account_id = ? ORDER BY at DESC, mark LIMIT ? OFFSET ?", account, maxMarks, maxMarks)
	old, err := sqldb.Scan(rows, err, func(key *string, scan func(...any) error) error { return scan(key) })
	for _, key := range old {
		if err == nil {
			_, err = tx.Exec(ctx, "DELETE FROM export_marks WHERE account_id = ? AND mark = ?", account, key)
		}
	}
	return err
}
