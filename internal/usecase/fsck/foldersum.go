package fsck

import (
	"context"
	"errors"
	"fmt"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/quota"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
)

// folderSum is the row of a folder, and what is directly in the folder with the rows of those.
type folderSum struct {
	folder, account  string
	has, is          tree.Sum
	there, unaddedUp bool // the folder; one that is in it and has no row
}

func scanFolderSum(s *folderSum, scan func(...any) error) error {
	return scan(&s.folder, &s.account, &s.there, &s.has.Files, &s.has.Folders, &s.has.Size, &s.is.Files, &s.is.Folders, &s.is.Size, &s.unaddedUp)
}

const selectFolderSums = `SELECT s.folder_id, COALESCE(MAX(f.account_id), ''), MAX(f.id) IS NOT NULL, MAX(s.files), MAX(s.folders), MAX(s.size),
	COALESCE(SUM(CASE WHEN n.type = 'file' THEN 1 WHEN b.folder_id IS NOT NULL THEN b.files ELSE 0 END), 0),
	COALESCE(SUM(CASE WHEN n.type = 'folder' THEN 1 + COALESCE(b.folders, 0) ELSE 0 END), 0),
	COALESCE(SUM(CASE WHEN n.type = 'file' THEN COALESCE(v.size, 0) ELSE COALESCE(b.size, 0) END), 0),
	COALESCE(SUM(CASE WHEN n.type = 'folder' AND b.folder_id IS NULL THEN 1 ELSE 0 END), 0) > 0
	FROM folder_sums s LEFT JOIN nodes f ON f.id = s.folder_id AND f.type = 'folder' LEFT JOIN nodes n ON n.parent_id = s.folder_id AND n.trashed_at = 0
	LEFT JOIN versions v ON v.id = n.version_id LEFT JOIN folder_sums b ON b.folder_id = n.id `

func (s folderSum) wrong() (expected, found string) {
	say := func(s tree.Sum) string {
		return fmt.Sprintf("%d files, %d folders, %d bytes", s.Files, s.Folders, s.Size)
	}
	switch {
	case !s.there:
		return "no sum", "a sum of a folder that is gone"
	case s.unaddedUp:
		return "a sum of each folder in it", "a folder in it without a sum"
	case s.has != s.is:
		return say(s.is), say(s.has)
	}
	return "", ""
}

// checkFolderSums compares the row of each folder with what is directly in it and the rows of the
// folders there (N7): if all are right, each is the sum of all below. A repair takes the row away,
// and those above; they are made again when somebody asks.
func (p *pass) checkFolderSums(ctx context.Context) error {
	const page = 100 // each reads what is in a folder
	err := each(ctx, p, selectFolderSums+"WHERE s.folder_id > ? GROUP BY s.folder_id ORDER BY s.folder_id LIMIT ?", page, scanFolderSum,
		func(s folderSum) any { return s.folder }, func(s folderSum) error {
			expected, found := s.wrong()
			if expected == "" {
				return nil
			}
			return p.found(ctx, defect{
				Finding: Finding{Invariant: "N7", Subject: "sum of folder " + s.folder, Expected: expected, Found: found},
				fixTx:   func(ctx context.Context, tx *sqldb.Tx, f *Finding) (bool, error) { return fixFolderSum(ctx, tx, s, f) },
			})
		})
	if err != nil {
		return fmt.Errorf("check the sums of folders: %w", err)
	}
	return nil
}

func fixFolderSum(ctx context.Context, tx *sqldb.Tx, s folderSum, f *Finding) (bool, error) {
	if account, err := drive.ParseID[drive.AccountID](s.account); err == nil {
		if err := errors.Join((quota.Ledger{}).Lock(ctx, tx, account), tree.Lock(ctx, tx, account)); err != nil {
			return false, err
		}
	}
	var now folderSum
	err := scanFolderSum(&now, tx.QueryRow(ctx, selectFolderSums+"WHERE s.folder_id = ? GROUP BY s.folder_id", s.folder).Scan)
	if drive.IsKind(err, drive.NotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if f.Expected, f.Found = now.wrong(); f.Expected == "" {
		return false, nil
	}
	if _, err = tx.Exec(ctx, "DELETE FROM folder_sums WHERE folder_id = ?", s.folder); err == nil {
		_, err = tx.Exec(ctx, `DELETE FROM folder_sums WHERE folder_id IN (WITH RECURSIVE up (id, parent_id) AS (
			SELECT id, parent_id FROM nodes WHERE id = ? UNION SELECT n.id, n.parent_id FROM up JOIN nodes n ON n.id = up.parent_id)
			SELECT id FROM up)`, s.folder)
	}
	f.Repaired = err == nil
	return true, err
}
