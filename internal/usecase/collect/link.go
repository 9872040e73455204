package collect

import (
	"context"
	"fmt"
	"sync"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/activity"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/domain/vault"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/link"
)

// Link is a collect link: visitors with its token may upload into Folder, for the account of the
// folder.
type Link struct {
	ID        drive.CollectID
	Account   drive.AccountID
	User      drive.UserID // its creator
	Folder    drive.NodeID
	Token     string // empty: the key that sealed it is lost
	Title     string
	Message   string
	ExpiresAt drive.Time
	MaxBytes  *drive.ByteSize // limit for all files; nil: only the account's quota
	MaxFile   *drive.ByteSize // limit per file; nil: none
	Files     int64           // finished files counted by settle
	Received  drive.ByteSize  // their bytes
	CreatedAt drive.Time

	kept vault.Link
}

// Identity returns what package link needs of each kind of link: id, creator, account and node.
func (l Link) Identity() link.Identity {
	return link.Identity{ID: l.ID.String(), By: l.User, Account: l.Account, Node: l.Folder}
}

// State tells whether visitors may use a link, or why not. It is computed, not stored.
type State string

// The states of a link.
const (
	Open    State = "open"
	Expired State = "expired"
	Full    State = "full" // nothing more fits: the link's limit or the account's quota is reached
	Gone    State = "gone" // its folder is trashed or deleted, or its owner is gone
)

// View is a link as its owner sees it.
type View struct {
	Link
	State    State
	Item     tree.Node       // the folder; zero: deleted
	Files    int64           // finished
	Received drive.ByteSize  // bytes of finished files
	Arriving drive.ByteSize  // declared bytes of unfinished uploads
	Left     *drive.ByteSize // what may still be sent; nil: no limit of the link's own
}

// Options configure New. Ledger and Now (default time.Now) are optional.
type Options = link.Options

// Links creates, shows and ends collect links, and admits senders. It is safe for concurrent use.
type Links struct {
	*link.Links[drive.CollectID, Link, View]
	opt Options

	mu     sync.Mutex
	cache  map[drive.CollectID]cachedLink    // cached links
	owners map[drive.UploadID]drive.SenderID // cached senders of uploads, which never change

	files sqldb.Orphans // records of links that no longer exist
}

// New returns the links of a database.
func New(opt Options) *Links {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	s := &Links{
		opt: opt, cache: map[drive.CollectID]cachedLink{}, owners: map[drive.UploadID]drive.SenderID{},
		files: sqldb.Orphans{Table: "collected", Key: "upload_id", Owner: "collect_id", OwnerTable: "collects"},
	}
	s.Links = link.New[drive.CollectID](link.Kind[Link, View]{
		Noun: "collect link", Table: "collects", Node: "folder_id", SealedTable: "collect_texts", SealedKey: "collect_id", MaxLinks: maxLinks, LimitError: tooMany,
		Use: access.CollectLink, Columns: columns, Scan: scan, Show: s.view, ShowAll: s.views,
		Created: activity.CollectCreated, Changed: activity.CollectChanged, Ended: activity.CollectEnded,
	}, opt)
	return s
}

// tooMany returns the TooManyOpen error for sent links, more than maxLinks.
func tooMany(sent int) error {
	return drive.Fail(drive.TooManyOpen, "reason", "collects", "limit", maxLinks, "sent", sent)
}

// columns lists the columns of scan, of the tables l (collects) and t (sealed tokens).
const columns = `l.id, l.account_id, l.user_id, l.folder_id, l.token, COALESCE(t.sealed, ''), l.title, l.message, l.expires_at,
	l.max_bytes, l.max_file, l.files, l.received, l.created_at`

// scan reads a row of columns into l by calling its parameter scan, whose error it returns. Token
// stays empty: it is sealed in l.kept.
func scan(l *Link, scan func(...any) error) error {
	err := scan(&l.ID, &l.Account, &l.User, &l.Folder, &l.kept.Token, &l.kept.Sealed, &l.Title, &l.Message, &l.ExpiresAt, &l.MaxBytes,
		&l.MaxFile, &l.Files, &l.Received, &l.CreatedAt)
	l.kept.ID = l.ID.String()
	return err
}

// closed returns Gone {reason: expired or withdrawn} if the link accepts nothing, nil if it is
// open.
func (s *Links) closed(ctx context.Context, q sqldb.Querier, l Link) error {
	if l.ExpiresAt != 0 && s.Now() >= l.ExpiresAt {
		return drive.Fail(drive.Gone, "reason", "expired")
	}
	live, err := s.IsUsable(ctx, q, l.Identity())
	switch {
	case err != nil:
		return fmt.Errorf("look whether collect link %s is open: %w", l.ID, err)
	case !live:
		return errWithdrawn()
	}
	return nil
}

// errWithdrawn returns Gone {reason withdrawn}, the error of visitors for a deleted or disabled
// link.
func errWithdrawn() error { return drive.Fail(drive.Gone, "reason", "withdrawn") }

// view returns a link with its state and totals, reading from q. It fails only if a query or the
// vault does.
func (s *Links) view(ctx context.Context, q sqldb.Querier, l Link) (View, error) {
	views, err := s.views(ctx, q, []Link{l})
	if err != nil {
		return View{}, err
	}
	return views[0], nil
}

// views returns the views of links of one account with their states and totals, in the same order.
// It reads them with few statements, plus one check per guest and node.
func (s *Links) views(ctx context.Context, q sqldb.Querier, all []Link) ([]View, error) {
	if len(all) == 0 {
		return nil, nil
	}
	folders, made, ids := make([]drive.NodeID, len(all)), make([]link.Identity, len(all)), make([]drive.CollectID, len(all))
	for i, l := range all {
		folders[i], made[i], ids[i] = l.Folder, l.Identity(), l.ID
	}
	nodes, err := tree.ByID(ctx, s.opt.Tree, q, folders...)
	if err != nil {
		return nil, err
	}
	live, err := s.AreUsable(ctx, q, nodes, made)
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
		sum := sums[l.ID].plus(l)
		v := View{Link: l, Item: nodes[l.Folder], Files: sum.files, Received: sum.received, Arriving: sum.open, Left: remainingBytes(l, balance, sum)}
		v.State = s.state(v, live[made[i].ID])
		views[i] = v
	}
	return views, nil
}

// state returns the state of a link; live reports whether its folder and owner are available.
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

// remainingBytes returns how many bytes may still be begun: the rest of the link's limit, or less
// if the account has less. nil: the link has no limit and the account is not full; the account's
// free space is not revealed.
func remainingBytes(l Link, balance quota.Balance, sum totals) *drive.ByteSize {
	room := balance.Available()
	if sum.fileCount() >= maxFiles {
		room = 0
	}
	switch {
	case l.MaxBytes != nil:
		left := min(room, max(0, *l.MaxBytes-sum.bytes()))
		return &left
	case room == 0:
		return &room
	}
	return nil
}
