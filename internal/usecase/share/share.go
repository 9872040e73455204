package share

import (
	"context"
	"fmt"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/account"
	"example.org/smartdrive/internal/domain/activity"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/domain/vault"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/link"
)

// Share is a public link to a node.
type Share struct {
	ID           drive.ShareID
	Account      drive.AccountID
	User         drive.UserID // its creator
	Node         drive.NodeID
	Token        string // empty: the key that sealed it is lost
	Code         string // empty: no code, or the key that sealed it is lost
	Epoch        int64  // incremented when the code changes; invalidates older accesses
	ExpiresAt    drive.Time
	MaxDownloads *int64 // nil: unlimited
	Downloads    int64
	Views        int64
	CreatedAt    drive.Time

	kept vault.Link
}

// Identity returns what package link needs of each kind of link: id, creator, account and node.
func (s Share) Identity() link.Identity {
	return link.Identity{ID: s.ID.String(), By: s.User, Account: s.Account, Node: s.Node}
}

// NeedsCode reports whether visitors need a code. It is known without decrypting the code.
func (s Share) NeedsCode() bool { return s.kept.AsksCode() }

// State tells whether visitors may use a share, or why not. It is computed, not stored.
type State string

// The states of a share.
const (
	Open    State = "open"
	Expired State = "expired"
	UsedUp  State = "used-up" // the download limit is reached
	Gone    State = "gone"    // its node is trashed or deleted, or its owner is gone
)

// View is a share as its owner sees it.
type View struct {
	Share
	State State
	Item  tree.Node // the node, also while it is in the trash; zero: deleted
}

// Options configure New. Access, Ledger, Now and RetentionClock are optional.
type Options struct {
	DB     *sqldb.DB
	Access *access.Access // default: one over DB
	Tree   *tree.Tree
	Users  *account.Users
	Ledger quota.Ledger
	// Vault holds the signing secret of accesses, and tokens and codes.
	Vault          *vault.Vault
	Now            func() time.Time // default: time.Now
	Log            *activity.Log    // records changes of shares
	RetentionClock func() time.Time // retention clock, see package retention; default: Now
}

// Shares creates, shows and ends shares, and admits visitors. It is safe for concurrent use.
type Shares struct {
	*link.Links[drive.ShareID, Share, View]
	opt Options
}

// New returns the shares of a database.
func New(opt Options) *Shares {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.RetentionClock == nil {
		opt.RetentionClock = opt.Now
	}
	s := &Shares{opt: opt}
	s.Links = link.New[drive.ShareID](link.Kind[Share, View]{
		Noun: "share", Table: "shares", Node: "node_id", SealedTable: "share_texts", SealedKey: "share_id", Codes: true, MaxLinks: maxShares, LimitError: tooMany,
		Use: access.Link, ShowsSubtree: true, Columns: columns, Scan: scan, Show: s.view, ShowAll: s.views,
		Created: activity.ShareCreated, Changed: activity.ShareChanged, Ended: activity.ShareEnded,
	}, link.Options{DB: opt.DB, Access: opt.Access, Tree: opt.Tree, Users: opt.Users, Ledger: opt.Ledger, Vault: opt.Vault, Now: opt.Now, Log: opt.Log})
	return s
}

// tooMany returns the TooManyOpen error for sent shares, more than maxShares.
func tooMany(sent int) error {
	return drive.Fail(drive.TooManyOpen, "reason", "shares", "limit", maxShares, "sent", sent)
}

const (
	maxShares = 10_000 // per account
	// MaxDownloads is the largest download limit.
	MaxDownloads = 1_000_000
)

// columns lists the columns of scan, of the tables l (shares) and t (sealed tokens).
const columns = `l.id, l.account_id, l.user_id, l.node_id, l.token, l.code, COALESCE(t.sealed, ''), l.epoch, l.expires_at,
	l.max_downloads, l.downloads, l.views, l.created_at`

// scan reads a row of columns into s by calling its parameter scan, whose error it returns. Token
// and code stay sealed: see Shares.reveal.
func scan(s *Share, scan func(...any) error) error {
	err := scan(&s.ID, &s.Account, &s.User, &s.Node, &s.kept.Token, &s.kept.Code, &s.kept.Sealed, &s.Epoch, &s.ExpiresAt, &s.MaxDownloads,
		&s.Downloads, &s.Views, &s.CreatedAt)
	s.kept.ID = s.ID.String()
	return err
}

// reveal decrypts the token and the code of sh and sets them in place; empty if the key that sealed
// them is lost. It fails if the key cannot be read from the database.
func (s *Shares) reveal(ctx context.Context, q sqldb.Querier, sh *Share) (err error) {
	sh.Token, sh.Code, err = s.opt.Vault.OpenLink(ctx, q, sh.kept)
	return err
}

// view returns a share with its state, its node and its decrypted secrets. If the node is deleted
// or no longer shareable by the share's creator, the state is Gone and no error.
func (s *Shares) view(ctx context.Context, q sqldb.Querier, sh Share) (View, error) {
	if err := s.reveal(ctx, q, &sh); err != nil {
		return View{}, err
	}
	v := View{Share: sh, State: s.stateByItself(sh)}
	item, err := s.opt.Tree.Find(ctx, q, sh.Account, sh.Node)
	if drive.IsKind(err, drive.NotFound) {
		v.State = Gone
		return v, nil
	}
	if err != nil {
		return View{}, fmt.Errorf("read the node of share %s: %w", sh.ID, err)
	}
	v.Item = item
	live, err := s.IsUsable(ctx, q, sh.Identity())
	if err == nil && !live {
		v.State = Gone
	}
	return v, err
}

// views returns the views of shares of one account with their states and nodes, in the same order.
// It reads them with few statements, plus one check per guest and node.
func (s *Shares) views(ctx context.Context, q sqldb.Querier, all []Share) ([]View, error) {
	ids, made := make([]drive.NodeID, len(all)), make([]link.Identity, len(all))
	for i, sh := range all {
		ids[i], made[i] = sh.Node, sh.Identity()
	}
	nodes, err := tree.ByID(ctx, s.opt.Tree, q, ids...)
	if err != nil {
		return nil, err
	}
	live, err := s.AreUsable(ctx, q, nodes, made)
	if err != nil {
		return nil, fmt.Errorf("look which of %d shares are open: %w", len(all), err)
	}
	views := make([]View, len(all))
	for i, sh := range all {
		if err := s.reveal(ctx, q, &sh); err != nil {
			return nil, err
		}
		views[i] = View{Share: sh, State: s.stateByItself(sh), Item: nodes[sh.Node]}
		if !live[made[i].ID] {
			views[i].State = Gone
		}
	}
	return views, nil
}

// stateByItself returns the state as far as the share's row determines it: Expired, UsedUp or Open.
// The node may be gone even so.
func (s *Shares) stateByItself(sh Share) State {
	switch {
	case sh.ExpiresAt != 0 && s.Now() >= sh.ExpiresAt:
		return Expired
	case sh.MaxDownloads != nil && sh.Downloads >= *sh.MaxDownloads:
		return UsedUp
	}
	return Open
}
