package tree

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Search selects live nodes that match all fields. A zero field matches every node.
type Search struct {
	Name    string       // substring of the name, ignoring case; no wildcards
	In      drive.NodeID // below this folder, at any depth
	Type    Type
	Ext     []string       // the name ends in "." and one of these, ignoring case
	MinSize drive.ByteSize // a limit of size excludes folders
	MaxSize drive.ByteSize // zero: any
	After   drive.Time     // mtime at or after
	Before  drive.Time     // mtime before; zero: any
	Limit   int            // 1 to MaxLimit; zero: 200
	Cursor  string
}

// searchBatch bounds how many matching names one statement reads, maxNamesScanned how many one call
// reads.
const (
	searchBatch     = 1000
	maxNamesScanned = 10_000
)

// Search lists matching nodes by case-folded name and then by id. A page may be short, or empty,
// and still have a Next, because one call reads a bounded number of matching names: names in the
// trash or elsewhere must not make a call slow. It reads the account's name index from the cursor
// on, to the end if few names match (BenchmarkSearch). Neither database can index substrings; the
// name index avoids reading the nodes.
func (r Reader) Search(ctx context.Context, q sqldb.Querier, account drive.AccountID, s Search) (Page, error) {
	limit, err := CheckLimit(s.Limit)
	if err != nil {
		return Page{}, err
	}
	at, err := parseCursor(s.Cursor, "search/"+account.String()+"/"+s.cursorKey(), false)
	if err != nil {
		return Page{}, err
	}
	found, folders := Page{}, folderIndex{}
	batch := min(2*limit, searchBatch)
	for looked := 0; looked < maxNamesScanned; batch = searchBatch {
		names, err := r.matchingNames(ctx, q, account, s, at, batch)
		if err != nil {
			return Page{}, fmt.Errorf("search names: %w", err)
		}
		nodes, err := r.matchingNodes(ctx, q, names, s)
		if err == nil {
			err = folders.load(ctx, q, nodes)
		}
		if err != nil {
			return Page{}, fmt.Errorf("search: %w", err)
		}
		for _, n := range nodes {
			if !folders.isLive(n.Parent, s.In) {
				continue
			}
			if found.Items = append(found.Items, n); len(found.Items) > limit {
				return at.page(found.Items, limit, func(n Node) (int64, string) { return 0, nameEntry{n.ID, n.Name.Fold()}.cursorText() }), nil
			}
		}
		if len(names) < batch {
			return found, nil
		}
		looked += len(names)
		at.started, at.Text = true, names[len(names)-1].cursorText()
	}
	found.Next = at.String()
	return found, nil
}

// cursorKey returns a hash of the search, which ties a cursor to it.
func (s Search) cursorKey() string {
	s.Limit, s.Cursor = 0, ""
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", fmt.Sprintf("%+v", s)))
	return hex.EncodeToString(sum[:8])
}

// nameEntry is an entry of the name index.
type nameEntry struct {
	id   drive.NodeID
	fold string
}

// cursorText returns the position of the entry for the cursor. A name has no slash.
func (n nameEntry) cursorText() string { return n.fold + "/" + n.id.String() }

// matchingNames returns the next matching entries of the name index after at. MySQL does not derive
// an index range from a row comparison, so the condition compares both columns separately.
func (r Reader) matchingNames(ctx context.Context, q sqldb.Querier, account drive.AccountID, s Search, at cursor, limit int) ([]nameEntry, error) {
	where, args := "account_id = ?", []any{account}
	if at.started {
		fold, id, _ := strings.Cut(at.Text, "/")
		where, args = where+" AND name_fold >= ? AND (name_fold > ? OR id > ?)", append(args, fold, fold, id)
	}
	if s.Name != "" {
		where, args = where+" AND INSTR(name_fold, ?) > 0", append(args, drive.Name(s.Name).Fold())
	}
	if len(s.Ext) > 0 {
		var any []string
		for _, ext := range s.Ext {
			any, args = append(any, "name_fold LIKE ? ESCAPE '!'"), append(args, "%."+escapeLike.Replace(drive.Name(ext).Fold()))
		}
		where += " AND (" + strings.Join(any, " OR ") + ")"
	}
	rows, err := q.Query(ctx, "SELECT id, name_fold FROM nodes WHERE "+where+" ORDER BY name_fold, id LIMIT ?", append(args, limit)...)
	return sqldb.Scan(rows, err, func(n *nameEntry, scan func(...any) error) error { return scan(&n.id, &n.fold) })
}

// escapeLike escapes the wildcards of LIKE with ESCAPE '!'.
var escapeLike = strings.NewReplacer("!", "!!", "%", "!%", "_", "!_")

// where returns the conditions of s that the name index cannot evaluate, each preceded by AND, and
// their arguments in the same order. Zero fields add no condition. MinSize, MaxSize and After are
// inclusive, Before is exclusive.
func (s Search) where() (where string, args []any) {
	add := func(condition string, arg any) { where, args = where+" AND "+condition, append(args, arg) }
	if s.Type != "" {
		add("n.type = ?", s.Type)
	}
	if s.MinSize > 0 {
		add("v.size >= ?", s.MinSize)
	}
	if s.MaxSize > 0 {
		add("v.size <= ?", s.MaxSize)
	}
	if s.After != 0 {
		add("n.mtime >= ?", s.After)
	}
	if s.Before != 0 {
		add("n.mtime < ?", s.Before)
	}
	return where, args
}

// matchingNodes returns the nodes of the names that match the other conditions, in the order of the
// names, without the root and nodes trashed themselves.
func (r Reader) matchingNodes(ctx context.Context, q sqldb.Querier, names []nameEntry, s Search) ([]Node, error) {
	if len(names) == 0 {
		return nil, nil
	}
	where, args := s.where()
	ids := make([]any, 0, len(names)+len(args))
	for _, n := range names {
		ids = append(ids, n.id)
	}
	return r.queryNodes(ctx, q, "WHERE n.id IN ("+sqldb.Placeholders(len(names))+") AND n.trashed_at = 0 AND n.parent_id IS NOT NULL"+where+
		" ORDER BY n.name_fold, n.id", append(ids, args...)...)
}
