package share

import (
	"context"
	"fmt"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/domain/vault"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/link"
)

// Request describes a share to create. Node is required.
type Request struct {
	Node         drive.NodeID
	Code         string        // the code, AutoCode, or "" for none
	Life         time.Duration // zero: never expires
	MaxDownloads *int64
}

// Hook runs at the end of the transaction that creates a share, so that an idempotency key commits
// with it. nil: nothing to run. Its error rolls back.
type Hook func(ctx context.Context, tx *sqldb.Tx, v View) error

// Create creates a share of a node that is neither a root nor in the trash. The caller needs the
// right to create links to it (NotFound, Forbidden). TooManyOpen beyond 10,000 shares per account.
func (s *Shares) Create(ctx context.Context, who drive.Who, in Request, hook Hook) (v View, err error) {
	at, err := s.Authorize(ctx, s.opt.DB, who, in.Node)
	if err != nil {
		return View{}, err
	}
	sh := Share{
		ID: drive.NewID[drive.ShareID](), Account: at, User: who.User, Node: in.Node, Token: link.NewToken(), Epoch: 1,
		MaxDownloads: in.MaxDownloads, CreatedAt: s.Now(),
	}
	if sh.Code, err = makeCode(in.Code); err != nil {
		return View{}, err
	}
	if sh.ExpiresAt, err = s.ExpiryAfter(in.Life); err != nil {
		return View{}, err
	}
	if err := checkMax(in.MaxDownloads); err != nil {
		return View{}, err
	}
	n := link.NewLink{Identity: sh.Identity(), Token: sh.Token, Code: sh.Code, CheckNode: mayBeShared}
	return s.Links.Create(ctx, who, n, func(ctx context.Context, tx *sqldb.Tx, kept vault.Link) (Share, error) {
		sh.kept = kept
		return sh, insert(ctx, tx, sh)
	}, hook)
}

// mayBeShared returns BadRequest if n is the root of a drive or space, nil for other nodes.
func mayBeShared(n tree.Node) error {
	if n.IsRoot() {
		return drive.BadField("node", drive.NotAllowed, "allowed", []string{"a file or folder below the root"}, "sent", "root")
	}
	return nil
}

// insert inserts the row of a share within tx, without its sealed token.
func insert(ctx context.Context, tx *sqldb.Tx, sh Share) error {
	_, err := tx.Exec(ctx, `INSERT INTO shares
		(id, account_id, user_id, node_id, token, code, epoch, expires_at, max_downloads, downloads, views, created_at)
		VALUES (`+sqldb.Placeholders(12)+")", sh.ID, sh.Account, sh.User, sh.Node, sh.kept.Token, sh.kept.Code, sh.Epoch, sh.ExpiresAt,
		sh.MaxDownloads, sh.Downloads, sh.Views, sh.CreatedAt)
	return err
}

// checkMax returns BadRequest unless limit is nil or from 1 to MaxDownloads.
func checkMax(limit *int64) error {
	if limit != nil && (*limit < 1 || *limit > MaxDownloads) {
		return drive.BadField("max_downloads", drive.OutOfRange, "min", 1, "max", MaxDownloads, "sent", *limit)
	}
	return nil
}

// Query selects a page of shares, newest first.
type Query = link.Query[drive.ShareID]

// Change is a change of a share; nil fields stay unchanged.
type Change struct {
	Code         *string        // empty: remove the code
	Life         *time.Duration // from now on; zero: never expires
	MaxDownloads **int64        // total, including downloads already counted
}

// Change changes a share; NotFound if the caller has no such share. A changed or removed code
// invalidates every access.
func (s *Shares) Change(ctx context.Context, who drive.Who, id drive.ShareID, in Change) (v View, err error) {
	code := ""
	if in.Code != nil {
		if code, err = makeCode(*in.Code); err != nil {
			return View{}, err
		}
	}
	return s.Links.Change(ctx, who, id, func(ctx context.Context, tx *sqldb.Tx, sh *Share) (err error) {
		if in.Code != nil {
			if err := s.recode(ctx, tx, sh, code); err != nil {
				return err
			}
		}
		if in.Life != nil {
			if sh.ExpiresAt, err = s.ExpiryAfter(*in.Life); err != nil {
				return err
			}
		}
		if in.MaxDownloads != nil {
			if sh.MaxDownloads = *in.MaxDownloads; checkMax(sh.MaxDownloads) != nil {
				return checkMax(sh.MaxDownloads)
			}
		}
		if _, err := tx.Exec(ctx, "UPDATE shares SET epoch = ?, expires_at = ?, max_downloads = ? WHERE id = ?",
			sh.Epoch, sh.ExpiresAt, sh.MaxDownloads, sh.ID); err != nil {
			return fmt.Errorf("change share %s: %w", id, err)
		}
		return nil
	})
}

// recode sets or removes the code of a share and increments its epoch, which invalidates every
// access. It does nothing if the code is unchanged.
func (s *Shares) recode(ctx context.Context, tx *sqldb.Tx, sh *Share, code string) error {
	if err := s.reveal(ctx, tx, sh); err != nil || sh.Code == code && sh.NeedsCode() == (code != "") {
		return err
	}
	now, err := s.opt.Vault.SetCode(ctx, tx, sh.kept, code)
	if err != nil {
		return err
	}
	if err := s.Replace(ctx, tx, sh.kept, now); err != nil {
		return err
	}
	sh.kept, sh.Code, sh.Epoch = now, code, sh.Epoch+1
	return nil
}
