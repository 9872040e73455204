package tree

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Sort is the sort key of a list of children.
type Sort string

// Names are compared bytewise, as the index does, and break ties. A client sorts numbers or
// languages itself. A folder has size 0 and an empty type; the type of a file is its media type.
const (
	SortName  Sort = "name"
	SortSize  Sort = "size"
	SortMTime Sort = "mtime"
	SortType  Sort = "type"
)

// List selects a page of a folder or of the trash. The zero value is the first 200 children by
// name.
type List struct {
	Sort Sort
	Desc bool // descending order
	// FoldersFirst lists all folders before the first file, in both directions.
	FoldersFirst bool

	Limit  int // 1 to MaxLimit; zero: 200
	Cursor string
}

// Page is a page of nodes. Next is the cursor of the next page; empty on the last page.
type Page struct {
	Items []Node
	Next  string
}

// MaxLimit is the maximum number of items on a page of any list.
const MaxLimit = 1000

// CheckLimit returns limit, or 200 if it is zero. It fails with BadRequest unless limit is between
// 1 and MaxLimit.
func CheckLimit(limit int) (int, error) {
	switch {
	case limit == 0:
		return 200, nil
	case limit < 1 || limit > MaxLimit:
		return 0, drive.BadField("limit", drive.OutOfRange, "min", 1, "max", MaxLimit, "sent", limit)
	}
	return limit, nil
}

// sortColumns maps each sort key to the SQL expression that a list is ordered by, before the name.
var sortColumns = map[Sort]string{SortName: "0", SortSize: "COALESCE(v.size, 0)", SortMTime: "n.mtime", SortType: "COALESCE(v.mime, '')"}

// Children lists the live children of a folder. A page starts after a key, not at a row number, so
// each page costs the same and concurrent changes shift nothing. It fails with CursorInvalid if the
// cursor belongs to another list or order.
func (r Reader) Children(ctx context.Context, q sqldb.Querier, folder drive.NodeID, l List) (Page, error) {
	if l.Sort == "" {
		l.Sort = SortName
	}
	column, ok := sortColumns[l.Sort]
	if !ok {
		return Page{}, drive.BadField("sort", drive.NotAllowed, "allowed", []Sort{SortName, SortSize, SortMTime, SortType}, "sent", string(l.Sort))
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
		return at.page(nodes, limit, l.Sort.cursorKey), nil
	}
	for _, part := range l.parts(at) {
		where, args := childrenQuery(folder, column, part.at)
		more, err := r.queryNodes(ctx, q, where.and(part.where)+q.Dialect().Limit(), append(args, limit+1-len(nodes))...)
		if err != nil {
			return Page{}, fmt.Errorf("list children: %w", err)
		}
		if nodes = append(nodes, more...); len(nodes) > limit {
			at.Files = l.FoldersFirst && !nodes[limit-1].IsFolder()
			break
		}
	}
	return at.page(nodes, limit, l.Sort.cursorKey), nil
}

// byMTime returns the first limit children by modification time after at. It merges folders and
// files, each of which an index orders by time.
func (r Reader) byMTime(ctx context.Context, q sqldb.Querier, folder drive.NodeID, at cursor, limit int) (nodes []Node, err error) {
	where, args := childrenQuery(folder, sortColumns[SortMTime], at)
	for _, kind := range []string{onlyFolders, onlyFiles} {
		some, err := r.queryNodes(ctx, q, where.and(kind)+q.Dialect().Limit(), append(slices.Clip(args), limit)...)
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
	onlyFolders = " AND n.type = 'folder'" // condition of a list without files
	onlyFiles   = " AND n.type = 'file'"   // condition of a list without folders
)

// part is one of the sublists that a list consists of, such as the folders before the files. It is
// read by its own statement.
type part struct {
	where string // further condition, which starts with " AND"; empty: all children
	at    cursor // position after which reading starts
}

// ChildIDs returns the ids of all live children of a folder from one statement, by name.
func (r Reader) ChildIDs(ctx context.Context, q sqldb.Querier, folder drive.NodeID) ([]drive.NodeID, error) {
	rows, err := q.Query(ctx, "SELECT id FROM nodes WHERE parent_id = ? AND trashed_at = 0 ORDER BY slot", folder)
	ids, err := sqldb.Scan(rows, err, func(id *drive.NodeID, scan func(...any) error) error { return scan(id) })
	return ids, wrap(err, "list the ids of children of", folder)
}

// parts returns the sublists of l: one, or the folders followed by the files. Sorted by name, each
// follows the order of an index, so that a page of files does not read the folders before it.
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

// selection is a WHERE clause and an ORDER BY clause.
type selection struct{ where, order string }

// and returns the SQL of s with a further condition, which starts with " AND".
func (s selection) and(condition string) string { return s.where + condition + s.order }

// childrenQuery returns the conditions, the order and the arguments of the query for the live
// children of a folder that follow the cursor at, ordered by column and then by name; descending if
// at.Desc. If at is not started, the selection begins with the first child. The caller adds the
// limit.
func childrenQuery(folder drive.NodeID, column string, at cursor) (s selection, args []any) {
	s.where, args = "WHERE n.parent_id = ? AND n.trashed_at = 0", []any{folder}
	more, order := ">", "ASC"
	if at.Desc {
		more, order = "<", "DESC"
	}
	if column == sortColumns[SortName] { // by name alone, as ordered by the index on (parent_id, slot)
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

// typeEnd separates type and name in a cursor of a list by type; neither contains it.
const typeEnd = "\x00"

// cursorKey returns the number and the text by which a cursor continues after n in this order: size
// or modification time and the name; the MIME type and the name in one text for SortType; else 0
// and the name.
func (s Sort) cursorKey(n Node) (int64, string) {
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

// ListTrash lists the tops of trashed subtrees of an account, most recently trashed first. Only
// Limit and Cursor of l are used.
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

// ChildrenAfter returns up to limit live children of a folder, by name, with names after the given
// one (empty: from the first).
func (r Reader) ChildrenAfter(ctx context.Context, q sqldb.Querier, folder drive.NodeID, after drive.Name, limit int) ([]Node, error) {
	return r.queryNodes(ctx, q, "WHERE n.parent_id = ? AND n.slot > ? AND n.trashed_at = 0 ORDER BY n.slot LIMIT ?", folder, after, limit)
}
