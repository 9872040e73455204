package collect

import (
	"context"
	"fmt"
	"sync"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
	"smartdrive/internal/domain/activity"
	"smartdrive/internal/domain/quota"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/domain/vault"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/usecase/link"
)

// Link is a collect link.
type Link struct {
	ID        drive.CollectID
	Account   drive.AccountID
	User      drive.UserID // who made it
	Folder    drive.NodeID
	Token     string // empty: the key that has sealed it is lost
	Title     string
	Message   string
	ExpiresAt drive.Time
	MaxBytes  *drive.ByteSize // of all files; nil: what the account has room for
	MaxFile   *drive.ByteSize // of one file; nil: any
	Files     int64           // settled
	Received  drive.ByteSize  // settled
	CreatedAt drive.Time

	kept vault.Link
}

// Made implements link.Row.
func (l Link) Made() link.Made {
	return link.Made{ID: l.ID.String(), By: l.User, Account: l.Account, Node: l.Folder}
}

// State is how a link stands.
type State string

// The states.
const (
	Open    State = "open"
	Expired State = "expired"
	Full    State = "full" // nothing fits any more: its own limit, or the account's
	Gone    State = "gone" // its folder is in the trash or gone, or its owner is
)

// View is a link as its owner sees it.
type View struct {
	Link
	State    State
	Item     tree.Node      // the folder; zero: it is gone
	Files    int64          // done
	Received drive.ByteSize // their bytes
	Arriving drive.ByteSize // declared bytes of uploads that are not done
	Left     *drive.ByteSize
}

// Options configure New. Ledger has a default, and Now: time.Now.
type Options = link.Options

// Links makes, shows and ends collect links, and lets senders in. It is safe for concurrent use.
type Links struct {
	*link.Links[drive.CollectID, Link, View]
	opt Options

	mu    sync.Mutex
	known map[drive.CollectID]known         // links that senders use just now
	mine  map[drive.UploadID]drive.SenderID // whose uploads are; that does not change

	files sqldb.Orphans // what came by links that are not there
}

// New returns the links of a database.
func New(opt Options) *Links {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	s := &Links{
		opt: opt, known: map[drive.CollectID]known{}, mine: map[drive.UploadID]drive.SenderID{},
		files: sqldb.Orphans{Table: "collected", Key: "upload_id", Owner: "collect_id", Of: "collects"},
	}
	s.Links = link.New[drive.CollectID](link.Kind[Link, View]{
		Noun: "collect link", Table: "collects", Node: "folder_id", Texts: "collect_texts", Key: "collect_id", Most: maxLinks, Full: tooMany,
		Use: access.CollectLink, Columns: columns, Scan: scan, Show: s.view, ShowAll: s.views,
		Created: activity.CollectCreated, Changed: activity.CollectChanged, Ended: activity.CollectEnded,
	}, opt)
	return s
}

func tooMany(sent int) error {
	return drive.Fail(drive.TooManyOpen, "reason", "collects", "limit", maxLinks, "sent", sent)
}

const columns = `l.id, l.account_id, l.user_id, l.folder_id, l.token, COALESCE(t.sealed, ''), l.title, l.message, l.expires_at,
	l.max_bytes, l.max_file, l.files, l.received, l.created_at`

func scan(l *Link, scan func(...any) error) error {
	err := scan(&l.ID, &l.Account, &l.User, &l.Folder, &l.kept.Token, &l.kept.Sealed, &l.Title, &l.Message, &l.ExpiresAt, &l.MaxBytes,
		&l.MaxFile, &l.Files, &l.Received, &l.CreatedAt)
	l.kept.ID = l.ID.String()
	return err
}

// closed returns why nobody may send by the link: nil, or Gone {reason: expired or withdrawn}.
func (s *Links) closed(ctx context.Context, q sqldb.Querier, l Link) error {
	if l.ExpiresAt != 0 && s.Now() >= l.ExpiresAt {
		return drive.Fail(drive.Gone, "reason", "expired")
	}
	live, err := s.Live(ctx, q, l.Made())
	switch {
	case err != nil:
		return fmt.Errorf("look whether collect link %s is open: %w", l.ID, err)
	case !live:
		return withdrawn()
	}
	return nil
}

func withdrawn() error { return drive.Fail(drive.Gone, "reason", "withdrawn") }

// view adds to a link how it stands.
func (s *Links) view(ctx context.Context, q sqldb.Querier, l Link) (View, error) {
	views, err := s.views(ctx, q, []Link{l})
	if err != nil {
		return View{}, err
	}
	return views[0], nil
}

// views is view of many links of one account: some statements for all of them.
func (s *Links) views(ctx context.Context, q sqldb.Querier, all []Link) ([]View, error) {
	if len(all) == 0 {
		return nil, nil
	}
	folders, made, ids := make([]drive.NodeID, len(all)), make([]link.Made, len(all)), make([]drive.CollectID, len(all))
	for i, l := range all {
		folders[i], made[i], ids[i] = l.Folder, l.Made(), l.ID
	}
	nodes, err := tree.ByID(ctx, s.opt.Tree, q, folders...)
	if err != nil {
		return nil, err
	}
	live, err := s.LiveAll(ctx, q, nodes, made)
	if err != nil {
		return nil, fmt.Errorf("look which of %d collect links are open: %w", len(all), err)
	}
	sums, err := countAll(ctx, q, ids)
	if err != nil {
		return nil, err
	}
	balance, err := s.opt.Ledger.Get(ctx, q, all[0].Account)
	if err != nil {
		return nil, err
	}
	views := make([]View, len(all))
	for i, l := range all {
		if l.Token, _, err = s.opt.Vault.OpenLink(ctx, q, l.kept); err != nil {
			return nil, err
		}
		sum := sums[l.ID].with(l)
		v := View{Link: l, Item: nodes[l.Folder], Files: sum.files, Received: sum.received, Arriving: sum.open, Left: left(l, balance, sum)}
		v.State = s.state(v, live[made[i].ID])
		views[i] = v
	}
	return views, nil
}

// state is how a link stands whose folder and owner are there or not.
func (s *Links) state(v View, live bool) State {
	switch {
	case v.ExpiresAt != 0 && s.Now() >= v.ExpiresAt:
		return Expired
	case !live:
		return Gone
	case v.Left != nil && *v.Left == 0:
		return Full
	}
	return Open
}

// left is how much may still be begun: the link's own rest, or less where the account has less;
// nil: the link has no limit of its own, and the account has some room, which is nobody's business.
func left(l Link, balance quota.Balance, sum totals) *drive.ByteSize {
	room := balance.Available()
	if sum.allFiles() >= maxFiles {
		room = 0
	}
	switch {
	case l.MaxBytes != nil:
		left := min(room, max(0, *l.MaxBytes-sum.all()))
		return &left
	case room == 0:
		return &room
	}
	return nil
}
