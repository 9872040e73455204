package fsck

import (
	"context"
	"errors"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
)

// folderSum is the stored sum of a folder and the sum computed from its children.
type folderSum struct {
	folder, account         string
	stored, actual          tree.Sum
	exists, childWithoutSum bool // the folder exists; a child folder has no sum
}

// scanFolderSum reads a row with the stored and the computed sum of a folder into s by calling
// scan, and returns the error of scan.
func scanFolderSum(s *folderSum, scan func(...any) error) error {
	return scan(&s.folder, &s.account, &s.exists, &s.stored.Files, &s.stored.Folders, &s.stored.Size, &s.actual.Files, &s.actual.Folders, &s.actual.Size, &s.childWithoutSum)
}

// selectFolderSums selects the stored and the computed sums of folders, and whether a child folder
// lacks a sum.
const selectFolderSums = `SELECT s.folder_id, COALESCE(MAX(f.account_id), ''), MAX(f.id) IS NOT NULL, MAX(s.files), MAX(s.folders), MAX(s.size),
	COALESCE(SUM(CASE WHEN n.type = 'file' THEN 1 WHEN b.folder_id IS NOT NULL THEN b.files ELSE 0 END), 0),
	COALESCE(SUM(CASE WHEN n.type = 'folder' THEN 1 + COALESCE(b.folders, 0) ELSE 0 END), 0),
	COALESCE(SUM(CASE WHEN n.type = 'file' THEN COALESCE(v.size, 0) ELSE COALESCE(b.size, 0) END), 0),
	COALESCE(SUM(CASE WHEN n.type = 'folder' AND b.folder_id IS NULL THEN 1 ELSE 0 END), 0) > 0
	FROM folder_sums s LEFT JOIN nodes f ON f.id = s.folder_id AND f.type = 'folder' LEFT JOIN nodes n ON n.parent_id = s.folder_id AND n.trashed_at = 0
	LEFT JOIN versions v ON v.id = n.version_id LEFT JOIN folder_sums b ON b.folder_id = n.id `

// mismatch returns the expected and the found value of a wrong sum, for a finding; two empty texts
// if the sum is correct.
func (s folderSum) mismatch() (expected, found string) {
	say := func(s tree.Sum) string {
		return fmt.Sprintf("%d files, %d folders, %d bytes", s.Files, s.Folders, s.Size)
	}
	switch {
	case !s.exists:
		return "no sum", "a sum of a folder that is gone"
	case s.childWithoutSum:
		return "a sum of each folder in it", "a folder in it without a sum"
	case s.stored != s.actual:
		return say(s.actual), say(s.stored)
	}
	return "", ""
}

// checkFolderSums compares the sum of each folder with its files and the sums of its child folders
// (N7); if all match, each sum covers everything below. The repair deletes the sums of the folder
// and its parents, which are computed again on demand.
func (p *pass) checkFolderSums(ctx context.Context) error {
	const page = 100 // each row reads all children of a folder
	err := each(ctx, p, selectFolderSums+"WHERE s.folder_id > ? GROUP BY s.folder_id ORDER BY s.folder_id LIMIT ?", page, scanFolderSum,
		func(s folderSum) any { return s.folder }, func(s folderSum) error {
			expected, found := s.mismatch()
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

// fixFolderSum deletes, within tx, the sums of the folder and its parents if the sum is still
// wrong; they are computed again later. It returns false, and changes nothing, if the sum is right
// by now.
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
	if f.Expected, f.Found = now.mismatch(); f.Expected == "" {
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
