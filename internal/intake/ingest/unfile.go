package ingest

import (
	"context"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Unfile removes the ids of files from documents of an account, and from the sides of their
// conflicts, within tx, because the files now belong to another account (K6). One call handles up
// to limit documents whose key is greater than after; "" begins with the first. It returns the key
// to continue after; "" if no documents are left. After an error the caller must roll tx back.
func (in *Intake) Unfile(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, after string, limit int) (next string, err error) {
	type one struct {
		id  drive.DocumentID
		key string
	}
	rows, err := tx.Query(ctx, "SELECT id, doc_key FROM documents WHERE account_id = ? AND doc_key > ? ORDER BY doc_key LIMIT ?", account, after, limit)
	all, err := sqldb.Scan(rows, err, func(d *one, scan func(...any) error) error { return scan(&d.id, &d.key) })
	if err != nil || len(all) == 0 {
		return "", err
	}
	ids := make([]drive.DocumentID, len(all))
	for i, d := range all {
		ids[i] = d.id
	}
	marks, args := sqldb.ListArgs(ids)
	for _, query := range []string{
		"UPDATE documents SET file_id = NULL, pdf_id = NULL WHERE id IN (" + marks + ")",
		"UPDATE document_conflicts SET file_id = NULL, pdf_id = NULL WHERE document_id IN (" + marks + ")",
	} {
		if _, err := tx.Exec(ctx, query, args...); err != nil {
			return "", fmt.Errorf("take the files from %d documents: %w", len(all), err)
		}
	}
	if len(all) < limit {
		return "", nil
	}
	return all[len(all)-1].key, nil
}
