package files

import (
	"context"
	"slices"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/turn"
)

// folderSums returns the totals of files, folders and bytes below folders. Transactions that change
// a tree keep stored totals current. A folder that was created before totals were stored has none;
// its total is computed and stored on first use.
type folderSums struct {
	db           *sqldb.DB
	computeTurns *turn.Limiter     // limits concurrent computations
	longTurns    *turn.LongLimiter // limits transactions that read whole folders
}

// Bounds of concurrent computations, per account and in total.
const (
	sumsPerAccount = 1
	sumsInTotal    = 2
)

// newFolderSums returns the totals of the folders in db; long limits long transactions.
func newFolderSums(db *sqldb.DB, long *turn.LongLimiter) *folderSums {
	return &folderSums{db: db, computeTurns: turn.New(sumsPerAccount, sumsInTotal), longTurns: long}
}

// get returns the totals of folders by id, in any accounts. Nodes that are not folders have no
// entry. Missing totals are computed and stored; if the database refuses writes (DiskFull,
// Unavailable), they are computed without storing.
func (s *folderSums) get(ctx context.Context, q sqldb.Querier, folders []drive.NodeID) (map[drive.NodeID]tree.FolderSum, error) {
	walked := map[drive.NodeID]tree.FolderSum{}
	for {
		found, err := tree.Sums(ctx, q, folders)
		if err != nil {
			return nil, err
		}
		missing := map[drive.AccountID][]drive.NodeID{}
		for id, one := range found {
			if one.Known {
				continue
			}
			if instead, ok := walked[id]; ok {
				found[id] = instead
				continue
			}
			missing[one.Account] = append(missing[one.Account], id)
		}
		if len(missing) == 0 {
			return found, nil
		}
		for account, ids := range missing {
			err := s.compute(ctx, account, ids)
			if ctx.Err() == nil && (drive.IsKind(err, drive.DiskFull) || drive.IsKind(err, drive.Unavailable)) {
				err = s.walk(ctx, account, ids, walked)
			}
			if err != nil {
				return nil, err
			}
		}
		q = s.db // re-read outside of the snapshot, which lacks the new totals
	}
}

// walk computes the totals of folders of an account by reading all descendants, and adds them to
// the map to.
func (s *folderSums) walk(ctx context.Context, account drive.AccountID, folders []drive.NodeID, to map[drive.NodeID]tree.FolderSum) error {
	return s.computeTurns.Do(ctx, account, func() error {
		for _, id := range folders {
			seq, sum, err := tree.ComputeSum(ctx, s.db, id)
			if err != nil {
				return err
			}
			to[id] = tree.FolderSum{Account: account, Seq: seq, Sum: sum, Known: true}
		}
		return nil
	})
}

const (
	maxUnsummed = 2000 // folders without a total read at a time
	sumBatch    = 128  // folders that one statement sums
	maxSumTries = 5    // attempts to sum one folder while its account changes
)

// compute computes and stores the totals of folders of an account and of all folders below, deepest
// first. Totals stored before an error or cancellation stay.
func (s *folderSums) compute(ctx context.Context, account drive.AccountID, folders []drive.NodeID) error {
	end, err := s.computeTurns.Acquire(ctx, account)
	if err != nil {
		return drive.Wrap(err, drive.Unavailable)
	}
	defer end()
	for levels := [][]drive.NodeID{folders}; len(levels) > 0; {
		level := levels[len(levels)-1]
		var below []drive.NodeID
		for batch := range slices.Chunk(level, nodesPerStatement) {
			more, err := tree.FoldersWithoutSum(ctx, s.db, batch, maxUnsummed)
			if err != nil {
				return err
			}
			if below = append(below, more...); len(below) >= maxUnsummed {
				break
			}
		}
		if len(below) > 0 {
			levels = append(levels, below)
			continue
		}
		for batch := range slices.Chunk(level, sumBatch) {
			if err := s.computeBatch(ctx, account, batch); err != nil {
				return err
			}
		}
		levels = levels[:len(levels)-1]
	}
	return nil
}

// computeBatch stores the totals of folders whose subfolders all have totals. It reads outside of
// the write transaction to keep that short. If the account changed in between, it retries with
// fewer folders, and at last under the account's lock.
func (s *folderSums) computeBatch(ctx context.Context, account drive.AccountID, folders []drive.NodeID) error {
	for size, tries := len(folders), 0; len(folders) > 0; {
		batch := folders[:min(size, len(folders))]
		stale, err := s.tryCompute(ctx, account, batch)
		switch {
		case err != nil:
			return err
		case !stale:
			folders, tries = folders[len(batch):], 0
		case size > 1:
			size = max(1, size/4)
		default:
			if tries++; tries < maxSumTries {
				continue
			}
			if err := s.computeLocked(ctx, account, batch); err != nil {
				return err
			}
			folders, tries = folders[1:], 0
		}
	}
	return nil
}

// tryCompute sums the folders and stores the totals unless the account changed since they were
// read; then stale is true.
func (s *folderSums) tryCompute(ctx context.Context, account drive.AccountID, folders []drive.NodeID) (stale bool, err error) {
	added, err := tree.ComputeSums(ctx, s.db, account, folders)
	if err != nil {
		return false, err
	}
	err = s.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		stale, err = tree.StoreSums(ctx, tx, added)
		return err
	})
	return stale, err
}

// computeLocked computes the total of one folder while it holds the account's lock, for accounts
// that change too often.
func (s *folderSums) computeLocked(ctx context.Context, account drive.AccountID, folder []drive.NodeID) error {
	return s.longTurns.Do(ctx, account, func() error {
		return s.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			if err := tree.Lock(ctx, tx, account); err != nil {
				return err
			}
			added, err := tree.ComputeSums(ctx, tx, account, folder)
			if err == nil {
				_, err = tree.StoreSums(ctx, tx, added)
			}
			return err
		})
	})
}
