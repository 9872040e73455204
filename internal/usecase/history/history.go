package history

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
	"smartdrive/internal/domain/account"
	"smartdrive/internal/domain/activity"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
)

// Parts are what the use cases are composed of.
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

// Query says what is asked for.
type Query struct {
	Node   drive.NodeID // and what lies in it directly; zero: all of a place
	Place  string       // a space; empty: the caller's own drive
	Types  []string     // verbs, such as node.moved, or what they begin with: node; none: what activity.Matches says
	Cursor string
	Limit  int

	security bool // only what activity.Security names
}

// Happened is an entry as it is shown.
type Happened struct {
	ID      string          `json:"id"` // that of the event, too
	At      drive.Time      `json:"at"`
	Type    activity.Verb   `json:"type"`
	By      *Person         `json:"by"`                // null: the program itself, or somebody without an account
	Head    string          `json:"head,omitempty"`    // how it came: api, tus, draft
	Address string          `json:"address,omitempty"` // where it came from
	Account drive.AccountID `json:"account_id"`
	Node    *drive.NodeID   `json:"node_id"`   // null: it is about no node
	Folder  *drive.NodeID   `json:"folder_id"` // that the node was in
	Name    string          `json:"name"`
	Path    string          `json:"path"` // where the node is now; empty: it is not there, or seen from another place
	Data    json.RawMessage `json:"data"`
	Restore Restore         `json:"restore,omitempty"` // what takes it back
}

// Person is who did something.
type Person struct {
	ID   drive.UserID `json:"id"`
	Name string       `json:"name"`
}

// Restore says what can be taken back.
type Restore string

// What can be taken back, and how.
const (
	FromTrash   Restore = "trash"   // POST /nodes/{node_id}/restore
	ToVersion   Restore = "version" // the file's versions: data.was_version
	ToItsFolder Restore = "move"    // PATCH /nodes/{node_id} with data.was_folder and data.was_name
)

// Page is a page of entries, the newest first.
type Page struct {
	Items      []Happened `json:"items"`
	NextCursor *string    `json:"next_cursor"`
}

// maxLooked is how many entries one page looks at. One that finds few of the types asked for is
// short, or empty, and has a next one all the same.
const maxLooked = 4000

// lookAtOnce is how many entries one statement reads at least, however few are asked for: of rare
// types a page looks at many.
const lookAtOnce = 200

// seer is what of an account the caller may see.
type seer struct {
	pass access.Pass
	lens access.Lens
	all  bool // everything

	every bool // of all accounts
}

// List returns a page of what happened. Errors: NotFound for what the caller may not see, or that
// never was, and CursorInvalid.
func (h *History) List(ctx context.Context, who drive.Who, in Query) (Page, error) {
	limit, before, err := in.page()
	if err != nil {
		return Page{}, err
	}
	s, err := h.enter(ctx, who, in)
	if err != nil {
		return Page{}, err
	}
	return h.page(ctx, s, in, before, limit)
}

// page reads how many entries are asked for, and before which position; zero: from the newest.
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

// enter lets the caller look at what is asked for.
func (h *History) enter(ctx context.Context, who drive.Who, in Query) (s seer, err error) {
	db := h.parts.DB
	switch {
	case !in.Node.IsZero():
		s.pass, err = h.parts.Access.Enter(ctx, db, who, in.Node, access.Look)
		if drive.IsKind(err, drive.NotFound) { // it may have been in the caller's own drive
			own, failed := h.parts.Log.At(ctx, db, in.Node, 0, 1)
			if failed == nil && len(own) > 0 && own[0].Account == who.Account {
				s.pass, err = access.Pass{Who: who, Rights: access.All}, nil
			}
		}
	case in.Place == "":
		s.pass = access.Pass{Who: who, Rights: access.All}
	default:
		s.pass, err = h.enterSpace(ctx, who, in.Place)
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

func (h *History) enterSpace(ctx context.Context, who drive.Who, place string) (access.Pass, error) {
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

// page reads until there is enough, or enough was looked at.
func (h *History) page(ctx context.Context, s seer, in Query, before activity.Position, limit int) (Page, error) {
	q := h.parts.DB.For(s.pass.Who.Account)
	p := Page{Items: []Happened{}}
	var entries []activity.Entry
	size := max(limit+1, lookAtOnce)
	for looked := 0; looked < maxLooked; {
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

func (h *History) read(ctx context.Context, q sqldb.Querier, s seer, in Query, before activity.Position, limit int) ([]activity.Entry, error) {
	if in.Node.IsZero() {
		return h.parts.Log.Of(ctx, q, s.pass.Who.Account, before, limit)
	}
	return h.parts.Log.At(ctx, q, in.Node, before, limit)
}

// visible leaves of entries what is asked for and the caller may see.
func (h *History) visible(ctx context.Context, q sqldb.Querier, s seer, in Query, all []activity.Entry) ([]activity.Entry, error) {
	var wanted []activity.Entry
	var nodes []drive.NodeID
	for _, e := range all {
		if !s.every && e.Account != s.pass.Who.Account || !activity.Matches(e.Verb, in.Types) {
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
	spots, err := s.lens.Spots(ctx, q, slices.Compact(nodes))
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
