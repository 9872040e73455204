package tree

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Search says which live nodes are looked for: those that all fields agree with. A zero field
// agrees with every node.
type Search struct {
	Name    string       // occurs in the name, whatever its case; no character of it has a meaning of its own
	In      drive.NodeID // somewhere below this folder
	Type    Type
	Ext     []string       // the name ends in "." and one of them, whatever its case
	MinSize drive.ByteSize // of files; with a limit of size folders are not found
	MaxSize drive.ByteSize // zero: any
	After   drive.Time     // mtime at or after
	Before  drive.Time     // mtime before; zero: any
	Limit   int            // 1 to MaxLimit; zero: 200
	Cursor  string
}

// searchLooks is how many names that match one call looks at, searchBatch how many of them are read
// at a time at most.
const (
	searchBatch = 1000
	searchLooks = 10_000
)

// Search looks names up, in the order of the folded names, and then of age. A page may be short, or
// empty, and yet have a Next: one call looks at so many names that match and no more, so that what
// lies in the trash or elsewhere makes no call slow. It reads the account's index of names from the
// cursor on, to the end if little matches (BenchmarkSearch): no index finds the middle of a word in
// both databases, and this one saves reading the nodes.
func (r Reader) Search(ctx context.Context, q sqldb.Querier, account drive.AccountID, s Search) (Page, error) {
	limit, err := CheckLimit(s.Limit)
	if err != nil {
		return Page{}, err
	}
	at, err := parseCursor(s.Cursor, "search/"+account.String()+"/"+s.key(), false)
	if err != nil {
		return Page{}, err
	}
	found, folders := Page{}, places{}
	batch := min(2*limit, searchBatch)
	for looked := 0; looked < searchLooks; batch = searchBatch {
		names, err := r.matchingNames(ctx, q, account, s, at, batch)
		if err != nil {
			return Page{}, fmt.Errorf("search names: %w", err)
		}
		nodes, err := r.thoseOf(ctx, q, names, s)
		if err == nil {
			err = folders.find(ctx, q, nodes)
		}
		if err != nil {
			return Page{}, fmt.Errorf("search: %w", err)
		}
		for _, n := range nodes {
			if !folders.live(n.Parent, s.In) {
				continue
			}
			if found.Items = append(found.Items, n); len(found.Items) > limit {
				return at.page(found.Items, limit, func(n Node) (int64, string) { return 0, nameOf{n.ID, n.Name.Fold()}.text() }), nil
			}
		}
		if len(names) < batch {
			return found, nil
		}
		looked += len(names)
		at.started, at.Text = true, names[len(names)-1].text()
	}
	found.Next = at.String()
	return found, nil
}

// key is what makes this search another one than others, for its cursor.
func (s Search) key() string {
	s.Limit, s.Cursor = 0, ""
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", fmt.Sprintf("%+v", s)))
	return hex.EncodeToString(sum[:8])
}

// nameOf is an entry of the index of names.
type nameOf struct {
	id   drive.NodeID
	fold string
}

// text is the place of the entry, for the cursor. A name has no slash.
func (n nameOf) text() string { return n.fold + "/" + n.id.String() }

// matchingNames reads the next names that match, by the index alone. The condition on both columns
// is written so that MySQL, which takes no range from a comparison of rows, has one for the first.
func (r Reader) matchingNames(ctx context.Context, q sqldb.Querier, account drive.AccountID, s Search, at cursor, limit int) ([]nameOf, error) {
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
	return sqldb.Scan(rows, err, func(n *nameOf, scan func(...any) error) error { return scan(&n.id, &n.fold) })
}

// escapeLike takes their meaning from the characters that have one in a pattern of LIKE with ESCAPE
// '!'.
var escapeLike = strings.NewReplacer("!", "!!", "%", "!%", "_", "!_")

// where is what the index does not tell.
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

// thoseOf reads the nodes of the names that are not in the trash themselves, are not the root, and
// agree with the rest of the search, in the order of the names.
func (r Reader) thoseOf(ctx context.Context, q sqldb.Querier, names []nameOf, s Search) ([]Node, error) {
	if len(names) == 0 {
		return nil, nil
	}
	where, args := s.where()
	ids := make([]any, 0, len(names)+len(args))
	for _, n := range names {
		ids = append(ids, n.id)
	}
	return r.queryNodes(ctx, q, "WHERE n.id IN ("+sqldb.Marks(len(names))+") AND n.trashed_at = 0 AND n.parent_id IS NOT NULL"+where+
		" ORDER BY n.name_fold, n.id", append(ids, args...)...)
}
