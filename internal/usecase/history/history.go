package history

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/account"
	"example.org/smartdrive/internal/domain/activity"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Parts are the components that History uses.
type Parts struct {
	DB     *sqldb.DB
	Log    *activity.Log
	Access *access.Access
	Users  *account.Users
	Tree   *tree.Tree
}

// History shows the activity log. It is safe for concurrent use.
type History struct{ parts Parts }

// New returns a History.
func New(parts Parts) *History { return &History{parts} }

// Query selects a page of entries. The zero Query selects the caller's whole drive from the newest
// entry on.
type Query struct {
	Node   drive.NodeID // this node and its direct children; zero: all of Place
	Place  string       // a space; empty: the caller's own drive
	Types  []string     // verbs such as node.moved, or prefixes such as node; none: see activity.Matches
	Cursor string       // Page.NextCursor of the previous page; empty: from the newest
	Limit  int          // entries per page; 0: 200; see tree.CheckLimit

	security bool // only the types in activity.Security
}

// Entry is an activity entry as the API shows it.
type Entry struct {
	ID      string          `json:"id"` // the event id
	At      drive.Time      `json:"at"`
	Type    activity.Verb   `json:"type"`
	By      *Person         `json:"by"`                // null: the server, or a person without an account
	Head    string          `json:"head,omitempty"`    // the protocol used: api, tus, draft
	Address string          `json:"address,omitempty"` // of the client
	Account drive.AccountID `json:"account_id"`
	Node    *drive.NodeID   `json:"node_id"`   // null: not about a node
	Folder  *drive.NodeID   `json:"folder_id"` // the node's folder at that time
	Name    string          `json:"name"`
	Path    string          `json:"path"` // current path of the node; empty: deleted, or not below a place of the caller
	Data    json.RawMessage `json:"data"`
	Restore Restore         `json:"restore,omitempty"` // how to undo the change; empty: not possible
}

// Person is the user who made a change.
type Person struct {
	ID   drive.UserID `json:"id"`
	Name string       `json:"name"`
}

// Restore names the request by which the client can undo a change; empty: there is none.
type Restore string

// The ways to undo a change.
const (
	FromTrash Restore = "trash"   // POST /nodes/{node_id}/restore
	ToVersion Restore = "version" // the file's versions: data.was_version
	MoveBack  Restore = "move"    // PATCH /nodes/{node_id} with data.was_folder and data.was_name
)

// Page is a page of entries, newest first.
type Page struct {
	Items      []Entry `json:"items"`
	NextCursor *string `json:"next_cursor"`
}

// maxScanned bounds the entries that one page reads. If few of them match, the page is short, or
// empty, and still has a next cursor.
const maxScanned = 4000

// minRead is the minimum number of entries that one statement reads, because a page of rare types
// reads many.
const minRead = 200

// viewer is a caller with the part of an account's activity that the caller may see.
type viewer struct {
	pass access.Pass
	lens access.Lens
	all  bool // everything in the account

	allAccounts bool // everything in all accounts
}

// List returns a page of entries, newest first. It fails with NotFound if the caller may not see
// the node or place, with Forbidden for a space that the caller may not list, with BadRequest for a
// limit out of range, and with CursorInvalid.
func (h *History) List(ctx context.Context, who drive.Who, in Query) (Page, error) {
	limit, before, err := in.page()
	if err != nil {
		return Page{}, err
	}
	s, err := h.authorize(ctx, who, in)
	if err != nil {
		return Page{}, err
	}
	return h.page(ctx, s, in, before, limit)
}

// page returns the page's limit and the position before which it starts; 0: from the newest. It
// fails with BadRequest for a limit out of range and with CursorInvalid for a malformed cursor.
func (in Query) page() (limit int, before activity.Position, err error) {
	if limit, err = tree.CheckLimit(in.Limit); err != nil || in.Cursor == "" {
		return limit, 0, err
	}
	n, err := strconv.ParseInt(in.Cursor, 10, 64)
	if err != nil || n < 1 {
		return 0, 0, drive.Fail(drive.CursorInvalid)
	}
	return limit, activity.Position(n), nil
}

// authorize checks that the caller may see the entries of a query and returns the caller's view.
// The owner may query a deleted node.
func (h *History) authorize(ctx context.Context, who drive.Who, in Query) (s viewer, err error) {
	db := h.parts.DB
	switch {
	case !in.Node.IsZero():
		s.pass, err = h.parts.Access.Enter(ctx, db, who, in.Node, access.Look)
		if drive.IsKind(err, drive.NotFound) { // possibly a deleted node of the caller's own drive
			own, failed := h.parts.Log.ListBeforeAt(ctx, db, in.Node, 0, 1)
			if failed == nil && len(own) > 0 && own[0].Account == who.Account {
				s.pass, err = access.Pass{Who: who, Rights: access.All}, nil
			}
		}
	case in.Place == "":
		s.pass = access.Pass{Who: who, Rights: access.All}
	default:
		s.pass, err = h.authorizeSpace(ctx, who, in.Place)
	}
	if err != nil {
		return s, err
	}
	s.all = !s.pass.Who.Guest || s.pass.All
	if !s.all {
		s.lens, err = h.parts.Access.Lens(ctx, db, s.pass)
	}
	return s, err
}

// authorizeSpace returns the caller's pass at the root of a space. It returns NotFound or Forbidden
// unless the caller may list it.
func (h *History) authorizeSpace(ctx context.Context, who drive.Who, place string) (access.Pass, error) {
	to, err := h.parts.Access.Find(ctx, h.parts.DB, who, drive.Address{Place: place})
	if err != nil {
		return access.Pass{}, err
	}
	root, err := h.parts.Tree.Root(ctx, h.parts.DB, to.Account)
	if err != nil {
		return access.Pass{}, err
	}
	return h.parts.Access.Enter(ctx, h.parts.DB, who, root, access.List)
}

// page reads entries older than before until limit are visible to s or maxScanned were read.
// NextCursor is nil at the end of the log; a page may have fewer than limit entries, or none, and
// still have a next one.
func (h *History) page(ctx context.Context, s viewer, in Query, before activity.Position, limit int) (Page, error) {
	q := h.parts.DB.For(s.pass.Who.Account)
	p := Page{Items: []Entry{}}
	var entries []activity.Entry
	size := max(limit+1, minRead)
	for looked := 0; looked < maxScanned; {
		some, err := h.read(ctx, q, s, in, before, size)
		if err != nil {
			return p, err
		}
		seen, err := h.visible(ctx, q, s, in, some)
		if err != nil {
			return p, err
		}
		entries = append(entries, seen...)
		if len(some) < size {
			before = 0
			break
		}
		before = some[len(some)-1].ID
		if looked += len(some); len(entries) > limit {
			break
		}
	}
	if len(entries) > limit {
		entries = entries[:limit]
		before = entries[limit-1].ID
	}
	if before != 0 {
		next := strconv.FormatInt(int64(before), 10)
		p.NextCursor = &next
	}
	var err error
	p.Items, err = h.show(ctx, q, s, entries)
	return p, err
}

// read returns up to limit entries of the query before a position, newest first.
func (h *History) read(ctx context.Context, q sqldb.Querier, s viewer, in Query, before activity.Position, limit int) ([]activity.Entry, error) {
	if in.Node.IsZero() {
		return h.parts.Log.ListBefore(ctx, q, s.pass.Who.Account, before, limit)
	}
	return h.parts.Log.ListBeforeAt(ctx, q, in.Node, before, limit)
}

// visible returns the entries of all, in order, that match the query and that s may see. It fails
// only if a query does.
func (h *History) visible(ctx context.Context, q sqldb.Querier, s viewer, in Query, all []activity.Entry) ([]activity.Entry, error) {
	var wanted []activity.Entry
	var nodes []drive.NodeID
	for _, e := range all {
		if !s.allAccounts && e.Account != s.pass.Who.Account || !activity.Matches(e.Verb, in.Types) {
			continue
		}
		if in.security && !activity.Matches(e.Verb, activity.Security()) {
			continue
		}
		if !s.all && (e.Node.IsZero() || !strings.HasPrefix(string(e.Verb), "node.")) {
			continue
		}
		wanted, nodes = append(wanted, e), append(nodes, e.Node)
	}
	if s.all || len(wanted) == 0 {
		return wanted, nil
	}
	slices.SortFunc(nodes, func(a, b drive.NodeID) int { return bytes.Compare(a[:], b[:]) })
	spots, err := s.lens.Visibilities(ctx, q, slices.Compact(nodes))
	if err != nil {
		return nil, err
	}
	seen := wanted[:0]
	for _, e := range wanted {
		if spots[e.Node].Seen {
			seen = append(seen, e)
		}
	}
	return seen, nil
}
