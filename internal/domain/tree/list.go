package tree

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Sort is the order of a list of children.
type Sort string

// The orders. Names are compared byte by byte, so that an index has them in order, and settle ties.
// A client that sorts file10 after file9, or by a language, does so itself. The size of a folder is
// 0, and its type is empty; that of a file is its media type.
const (
	SortName  Sort = "name"
	SortSize  Sort = "size"
	SortMTime Sort = "mtime"
	SortType  Sort = "type"
)

// List says which page of which list. The zero value is the first 200 by name.
type List struct {
	Sort Sort
	Desc bool
	// FoldersFirst lists all folders before the first file, in either direction.
	FoldersFirst bool

	Limit  int // 1 to MaxLimit; zero: 200
	Cursor string
}

// Page is a page of nodes; Next is the cursor of the next one, empty on the last.
type Page struct {
	Items []Node
	Next  string
}

// MaxLimit is the longest page of any list.
const MaxLimit = 1000

// CheckLimit returns the limit of a page, and BadRequest when it is out of range.
func CheckLimit(limit int) (int, error) {
	switch {
	case limit == 0:
		return 200, nil
	case limit < 1 || limit > MaxLimit:
		return 0, drive.Bad("limit", drive.OutOfRange, "min", 1, "max", MaxLimit, "sent", limit)
	}
	return limit, nil
}

// sortColumns are the expressions that a list is sorted by, before the name.
var sortColumns = map[Sort]string{SortName: "0", SortSize: "COALESCE(v.size, 0)", SortMTime: "n.mtime", SortType: "COALESCE(v.mime, '')"}

// Children lists the live children of a folder. Pages are taken by key, not by number: a page costs
// the same wherever it is, and what is added or removed in between shifts nothing. A cursor of
// another list, or of the same in another order, is CursorInvalid.
func (r Reader) Children(ctx context.Context, q sqldb.Querier, folder drive.NodeID, l List) (Page, error) {
	if l.Sort == "" {
		l.Sort = SortName
	}
	column, ok := sortColumns[l.Sort]
	if !ok {
		return Page{}, drive.Bad("sort", drive.NotAllowed, "allowed", []Sort{SortName, SortSize, SortMTime, SortType}, "sent", string(l.Sort))
	}
	limit, err := CheckLimit(l.Limit)
	if err != nil {
		return Page{}, err
	}
	list := "children/" + folder.String() + "/" + string(l.Sort)
	if l.FoldersFirst {
		list += "/folders"
	}
	at, err := parseCursor(l.Cursor, list, l.Desc)
	if err != nil {
		return Page{}, err
	}
	var nodes []Node
	if l.Sort == SortMTime && !l.FoldersFirst {
		if nodes, err = r.byMTime(ctx, q, folder, at, limit+1); err != nil {
			return Page{}, err
		}
		return at.page(nodes, limit, l.Sort.key), nil
	}
	for _, part := range l.parts(at) {
		where, args := childrenQuery(folder, column, part.at)
		more, err := r.queryNodes(ctx, q, where.with(part.where)+q.Dialect().Limit(), append(args, limit+1-len(nodes))...)
		if err != nil {
			return Page{}, fmt.Errorf("list children: %w", err)
		}
		if nodes = append(nodes, more...); len(nodes) > limit {
			at.Files = l.FoldersFirst && !nodes[limit-1].IsFolder()
			break
		}
	}
	return at.page(nodes, limit, l.Sort.key), nil
}

// byMTime returns the first of a folder's children by time, from the folders and the files by time:
// the index has the order of each.
func (r Reader) byMTime(ctx context.Context, q sqldb.Querier, folder drive.NodeID, at cursor, limit int) (nodes []Node, err error) {
	where, args := childrenQuery(folder, sortColumns[SortMTime], at)
	for _, kind := range []string{onlyFolders, onlyFiles} {
		some, err := r.queryNodes(ctx, q, where.with(kind)+q.Dialect().Limit(), append(slices.Clip(args), limit)...)
		if err != nil {
			return nil, fmt.Errorf("list children by time: %w", err)
		}
		nodes = append(nodes, some...)
	}
	slices.SortFunc(nodes, func(a, b Node) int {
		order := cmp.Or(cmp.Compare(a.MTime, b.MTime), cmp.Compare(a.Name, b.Name))
		if at.Desc {
			return -order
		}
		return order
	})
	return nodes[:min(len(nodes), limit)], nil
}

const (
	onlyFolders = " AND n.type = 'folder'"
	onlyFiles   = " AND n.type = 'file'"
)

// part is a list that is read by itself, and where to begin in it.
type part struct {
	where string
	at    cursor
}

// ChildIDs returns the ids of all live children of a folder as they are at one moment, by name.
func (r Reader) ChildIDs(ctx context.Context, q sqldb.Querier, folder drive.NodeID) ([]drive.NodeID, error) {
	rows, err := q.Query(ctx, "SELECT id FROM nodes WHERE parent_id = ? AND trashed_at = 0 ORDER BY slot", folder)
	ids, err := sqldb.Scan(rows, err, func(id *drive.NodeID, scan func(...any) error) error { return scan(id) })
	return ids, wrap(err, "list the ids of children of", folder)
}

// parts are the lists that l is made of: one, or the folders and then the files. Each is in the
// order of an index where l is by name, so that a page of files costs no look at the folders before
// it.
func (l List) parts(at cursor) []part {
	if !l.FoldersFirst {
		return []part{{"", at}}
	}
	folders, files := part{onlyFolders, at}, part{onlyFiles, at}
	if at.Files {
		return []part{files}
	}
	files.at.started = false
	return []part{folders, files}
}

// selection is the condition of a list, and its order.
type selection struct{ where, order string }

func (s selection) with(condition string) string { return s.where + condition + s.order }

func childrenQuery(folder drive.NodeID, column string, at cursor) (s selection, args []any) {
	s.where, args = "WHERE n.parent_id = ? AND n.trashed_at = 0", []any{folder}
	more, order := ">", "ASC"
	if at.Desc {
		more, order = "<", "DESC"
	}
	if column == sortColumns[SortName] { // by name alone: the index on (parent_id, slot) has the order
		if at.started {
			s.where, args = s.where+" AND n.slot "+more+" ?", append(args, at.Text)
		}
		s.order = " ORDER BY n.slot " + order
		return s, args
	}
	if at.started {
		s.where += fmt.Sprintf(" AND (%s, n.slot) %s (?, ?)", column, more)
		if mime, name, ok := strings.Cut(at.Text, typeEnd); ok {
			args = append(args, mime, name)
		} else {
			args = append(args, at.Number, at.Text)
		}
	}
	s.order = fmt.Sprintf(" ORDER BY %s %s, n.slot %s", column, order, order)
	return s, args
}

// typeEnd stands between type and name in a cursor of a list by type: neither holds one.
const typeEnd = "\x00"

// key is the place of a node in a list, for the cursor.
func (s Sort) key(n Node) (int64, string) {
	switch s {
	case SortSize:
		return int64(n.Size), string(n.Name)
	case SortMTime:
		return int64(n.MTime), string(n.Name)
	case SortType:
		return 0, n.Mime + typeEnd + string(n.Name)
	case SortName:
	}
	return 0, string(n.Name)
}

// ListTrash lists what was put into the trash, the newest first.
func (r Reader) ListTrash(ctx context.Context, q sqldb.Querier, account drive.AccountID, l List) (Page, error) {
	limit, err := CheckLimit(l.Limit)
	if err != nil {
		return Page{}, err
	}
	at, err := parseCursor(l.Cursor, "trash/"+account.String(), true)
	if err != nil {
		return Page{}, err
	}
	where, args := "WHERE n.account_id = ? AND n.trashed_at > 0 AND n.operation_id IS NULL", []any{account}
	if at.started {
		where, args = where+" AND (n.trashed_at, n.id) < (?, ?)", append(args, at.Number, at.Text)
	}
	nodes, err := r.queryNodes(ctx, q, where+" ORDER BY n.trashed_at DESC, n.id DESC LIMIT ?", append(args, limit+1)...)
	if err != nil {
		return Page{}, fmt.Errorf("list the trash: %w", err)
	}
	return at.page(nodes, limit, func(n Node) (int64, string) { return int64(n.Trashed), n.ID.String() }), nil
}

// ChildrenAfter returns up to limit live children of a folder by name, after the one given (empty:
// from the first).
func (r Reader) ChildrenAfter(ctx context.Context, q sqldb.Querier, folder drive.NodeID, after drive.Name, limit int) ([]Node, error) {
	return r.queryNodes(ctx, q, "WHERE n.parent_id = ? AND n.slot > ? AND n.trashed_at = 0 ORDER BY n.slot LIMIT ?", folder, after, limit)
}
