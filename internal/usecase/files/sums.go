package files

import (
	"context"
	"slices"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/turn"
)

// sums read what lies below folders. The transactions of changes keep it up; a folder that was
// there before they did is added up, with all below it, when somebody asks for it first.
type sums struct {
	db    *sqldb.DB
	turns *turn.Turns // of adding up
	long  *turn.Long  // of a transaction that reads a folder to its end
}

// Bounds of adding up: for an account at a time, and for all accounts.
const (
	sumsEach   = 1
	sumsAtOnce = 2
)

func newSums(db *sqldb.DB, long *turn.Long) *sums {
	return &sums{db: db, turns: turn.New(sumsEach, sumsAtOnce), long: long}
}

// of returns what lies below folders, whatever their accounts. What is no folder is missing. While
// nothing can be written, folders that have not been added up are walked.
func (s *sums) of(ctx context.Context, q sqldb.Querier, folders []drive.NodeID) (map[drive.NodeID]tree.Summed, error) {
	walked := map[drive.NodeID]tree.Summed{}
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
			err := s.addUp(ctx, account, ids)
			if ctx.Err() == nil && (drive.IsKind(err, drive.DiskFull) || drive.IsKind(err, drive.Unavailable)) {
				err = s.walk(ctx, account, ids, walked)
			}
			if err != nil {
				return nil, err
			}
		}
		q = s.db // which has what was added up
	}
}

// walk reads all that is below folders of an account.
func (s *sums) walk(ctx context.Context, account drive.AccountID, folders []drive.NodeID, to map[drive.NodeID]tree.Summed) error {
	return s.turns.Do(ctx, account, func() error {
		for _, id := range folders {
			seq, sum, err := tree.Walk(ctx, s.db, id)
			if err != nil {
				return err
			}
			to[id] = tree.Summed{Account: account, Seq: seq, Sum: sum, Known: true}
		}
		return nil
	})
}

const (
	unsummedAtOnce = 2000 // folders without a sum that are looked for at a time
	summedAtOnce   = 128  // folders that one statement adds up
	sumTries       = 5    // of adding up one folder, while its account changes
)

// addUp adds up folders of an account with all below them, the deepest first, some in a
// transaction. If the caller leaves meanwhile, what was added up stays.
func (s *sums) addUp(ctx context.Context, account drive.AccountID, folders []drive.NodeID) error {
	end, err := s.turns.Take(ctx, account)
	if err != nil {
		return drive.Wrap(err, drive.Unavailable)
	}
	defer end()
	for levels := [][]drive.NodeID{folders}; len(levels) > 0; {
		level := levels[len(levels)-1]
		var below []drive.NodeID
		for some := range slices.Chunk(level, numbersAtOnce) {
			more, err := tree.Unsummed(ctx, s.db, some, unsummedAtOnce)
			if err != nil {
				return err
			}
			if below = append(below, more...); len(below) >= unsummedAtOnce {
				break
			}
		}
		if len(below) > 0 {
			levels = append(levels, below)
			continue
		}
		for some := range slices.Chunk(level, summedAtOnce) {
			if err := s.addSome(ctx, account, some); err != nil {
				return err
			}
		}
		levels = levels[:len(levels)-1]
	}
	return nil
}

// addSome adds up folders in which each folder was added up. They are read outside of the
// transaction, which is short however much is in them; if the account has changed meanwhile, fewer
// of them are read again.
func (s *sums) addSome(ctx context.Context, account drive.AccountID, folders []drive.NodeID) error {
	for size, tries := len(folders), 0; len(folders) > 0; {
		some := folders[:min(size, len(folders))]
		stale, err := s.tryAdd(ctx, account, some)
		switch {
		case err != nil:
			return err
		case !stale:
			folders, tries = folders[len(some):], 0
		case size > 1:
			size = max(1, size/4)
		default:
			if tries++; tries < sumTries {
				continue
			}
			if err := s.addLocked(ctx, account, some); err != nil {
				return err
			}
			folders, tries = folders[1:], 0
		}
	}
	return nil
}

func (s *sums) tryAdd(ctx context.Context, account drive.AccountID, folders []drive.NodeID) (stale bool, err error) {
	added, err := tree.Add(ctx, s.db, account, folders)
	if err != nil {
		return false, err
	}
	err = s.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		stale, err = tree.SumUp(ctx, tx, added)
		return err
	})
	return stale, err
}

// addLocked adds up a folder of an account that changes all the time, while nobody can change it.
func (s *sums) addLocked(ctx context.Context, account drive.AccountID, folder []drive.NodeID) error {
	return s.long.Do(ctx, account, func() error {
		return s.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			if err := tree.Lock(ctx, tx, account); err != nil {
				return err
			}
			added, err := tree.Add(ctx, tx, account, folder)
			if err == nil {
				_, err = tree.SumUp(ctx, tx, added)
			}
			return err
		})
	})
}
