package share

import (
	"context"
	"fmt"
	"math"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/activity"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/usecase/link"
)

// Request describes a share to be made.
type Request struct {
	Node         drive.NodeID
	Code         string        // as given, or AutoCode, or none
	Life         time.Duration // zero: for ever
	MaxDownloads *int64
}

// Hook runs at the end of the transaction that makes a share, so that an idempotency key commits
// with it. Nil does nothing; an error undoes all.
type Hook func(ctx context.Context, tx *sqldb.Tx, v View) error

// Create makes a share of a live node, other than a root, that the caller may give links to. At
// most 10,000 an account: TooManyOpen.
func (s *Shares) Create(ctx context.Context, who drive.Who, in Request, hook Hook) (v View, err error) {
	at, err := s.links.Enter(ctx, s.opt.DB, who, in.Node)
	if err != nil {
		return View{}, err
	}
	sh := Share{
		ID: drive.NewID[drive.ShareID](), Account: at, User: who.User, Node: in.Node, Token: link.NewToken(), Epoch: 1,
		MaxDownloads: in.MaxDownloads, CreatedAt: s.now(),
	}
	if sh.Code, err = makeCode(in.Code); err != nil {
		return View{}, err
	}
	if sh.ExpiresAt, err = s.links.End(in.Life); err != nil {
		return View{}, err
	}
	if err := checkMax(in.MaxDownloads); err != nil {
		return View{}, err
	}
	err = s.links.Write(ctx, at, func(ctx context.Context, tx *sqldb.Tx) error {
		if _, err := s.links.Enter(ctx, tx, who, in.Node); err != nil {
			return err
		}
		if err := s.links.MayLead(ctx, tx, sh.Account, sh.Node, mayBeShared); err != nil {
			return err
		}
		if err := s.insert(ctx, tx, &sh); err != nil {
			return err
		}
		if err := s.links.Told(tx, who, activity.ShareCreated, sh.made(), sh.ID); err != nil {
			return err
		}
		if v, err = s.view(ctx, tx, sh); err != nil || hook == nil {
			return err
		}
		return hook(ctx, tx, v)
	})
	return v, err
}

func mayBeShared(n tree.Node) error {
	if n.IsRoot() {
		return drive.Bad("node", drive.NotAllowed, "allowed", []string{"a file or folder below the root"}, "sent", "root")
	}
	return nil
}

func (s *Shares) insert(ctx context.Context, tx *sqldb.Tx, sh *Share) (err error) {
	if sh.kept, err = s.opt.Vault.NewLink(ctx, tx, sh.ID.String(), sh.Token, sh.Code); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO shares
		(id, account_id, user_id, node_id, token, code, epoch, expires_at, max_downloads, downloads, views, created_at)
		VALUES (`+sqldb.Marks(12)+")", sh.ID, sh.Account, sh.User, sh.Node, sh.kept.Token, sh.kept.Code, sh.Epoch, sh.ExpiresAt,
		sh.MaxDownloads, sh.Downloads, sh.Views, sh.CreatedAt)
	if err == nil {
		err = s.links.Keep(ctx, tx, sh.kept)
	}
	if err != nil {
		return fmt.Errorf("insert share %s: %w", sh.ID, err)
	}
	return nil
}

func checkMax(limit *int64) error {
	if limit != nil && (*limit < 1 || *limit > MaxDownloads) {
		return drive.Bad("max_downloads", drive.OutOfRange, "min", 1, "max", MaxDownloads, "sent", *limit)
	}
	return nil
}

// Find returns a share of the caller's account, or one of another that is theirs to manage.
func (s *Shares) Find(ctx context.Context, who drive.Who, id drive.ShareID) (View, error) {
	sh, err := s.mine(ctx, s.opt.DB, who, id)
	if err != nil {
		return View{}, err
	}
	return s.view(ctx, s.opt.DB.For(sh.Account), sh)
}

// mine finds a share that the caller may see and change.
func (s *Shares) mine(ctx context.Context, q sqldb.Querier, who drive.Who, id drive.ShareID) (Share, error) {
	lock := ""
	if tx, writes := q.(*sqldb.Tx); writes {
		lock = tx.ForUpdate()
	}
	sh, err := s.find(ctx, q, "s.id = ?"+lock, id)
	if err == nil {
		err = s.links.Mine(ctx, q, who, sh.made())
	}
	if err != nil {
		return Share{}, err
	}
	return sh, nil
}

// Query selects a page of shares, the newest first.
type Query struct {
	Node  drive.NodeID  // zero: of all nodes of the caller's account; else it may be another's that the caller may give links to
	After drive.ShareID // the last one of the page before
	Limit int
}

// List returns a page of the shares of the caller's account, or of a node.
func (s *Shares) List(ctx context.Context, who drive.Who, in Query) ([]View, error) {
	at := who.Account
	if !in.Node.IsZero() {
		there, err := s.links.Manage(ctx, s.opt.DB, who, in.Node)
		switch {
		case err == nil:
			at = there
		case !drive.IsKind(err, drive.NotFound, drive.Forbidden): // else there are none that they may see
			return nil, err
		}
	}
	where, args := "s.account_id = ?", []any{at}
	if !in.Node.IsZero() {
		where, args = where+" AND s.node_id = ?", append(args, in.Node)
	}
	if !in.After.IsZero() {
		where, args = where+" AND s.id < ?", append(args, in.After)
	}
	q := s.opt.DB.For(at)
	rows, err := q.Query(ctx, selectShares+where+" ORDER BY s.id DESC LIMIT ?", append(args, in.Limit)...)
	all, err := sqldb.Scan(rows, err, scan)
	if err != nil {
		return nil, fmt.Errorf("list the shares of account %s: %w", at, err)
	}
	views := make([]View, len(all))
	for i, sh := range all {
		if err := s.reveal(ctx, q, &sh); err != nil {
			return nil, err
		}
		if views[i], err = s.view(ctx, q, sh); err != nil {
			return nil, err
		}
	}
	return views, nil
}

// Change is a change of a share; nil stays as it is.
type Change struct {
	Code         *string        // empty: none from now on
	Life         *time.Duration // from now on; zero: for ever
	MaxDownloads **int64        // of all downloads, those that were included
}

// Change changes a share. A new code, or none, voids every access that was given.
func (s *Shares) Change(ctx context.Context, who drive.Who, id drive.ShareID, in Change) (v View, err error) {
	code := ""
	if in.Code != nil {
		if code, err = makeCode(*in.Code); err != nil {
			return View{}, err
		}
	}
	found, err := s.mine(ctx, s.opt.DB, who, id)
	if err != nil {
		return View{}, err
	}
	err = s.links.Write(ctx, found.Account, func(ctx context.Context, tx *sqldb.Tx) error {
		sh, err := s.mine(ctx, tx, who, id)
		if err != nil {
			return err
		}
		if in.Code != nil && (sh.Code != code || sh.AsksCode() != (code != "")) {
			if err := s.recode(ctx, tx, &sh, code); err != nil {
				return err
			}
		}
		if in.Life != nil {
			if sh.ExpiresAt, err = s.links.End(*in.Life); err != nil {
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
		if err := s.links.Told(tx, who, activity.ShareChanged, sh.made(), sh.ID); err != nil {
			return err
		}
		v, err = s.view(ctx, tx, sh)
		return err
	})
	return v, err
}

// recode gives a share another code, or none, and voids what was opened with the one before.
func (s *Shares) recode(ctx context.Context, tx *sqldb.Tx, sh *Share, code string) error {
	now, err := s.opt.Vault.Recode(ctx, tx, sh.kept, code)
	if err != nil {
		return err
	}
	if err := s.links.Replace(ctx, tx, sh.kept, now); err != nil {
		return err
	}
	sh.kept, sh.Code, sh.Epoch = now, code, sh.Epoch+1
	return nil
}

// Delete ends a share that Find would show: its link is then one that never was. NotFound when
// there is none.
func (s *Shares) Delete(ctx context.Context, who drive.Who, id drive.ShareID) error {
	found, err := s.mine(ctx, s.opt.DB, who, id)
	if err != nil {
		return err
	}
	return s.links.Write(ctx, found.Account, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.ActFor(who)
		if _, err := s.mine(ctx, tx, who, id); err != nil {
			return err
		}
		return s.links.Delete(ctx, tx, found.Account, id.String())
	})
}

// Remove is Delete within a transaction.
func (s *Shares) Remove(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, id drive.ShareID) error {
	return s.links.Delete(ctx, tx, account, id.String())
}

// RemoveAll ends all shares of an account within a transaction.
func (s *Shares) RemoveAll(ctx context.Context, tx *sqldb.Tx, account drive.AccountID) error {
	ids, err := s.IDs(ctx, tx, account, math.MaxInt32)
	for _, id := range ids {
		if err == nil {
			err = s.Remove(ctx, tx, account, id)
		}
	}
	if err != nil {
		return fmt.Errorf("end the shares of account %s: %w", account, err)
	}
	return nil
}

// IDs returns the ids of up to limit shares of an account.
func (s *Shares) IDs(ctx context.Context, q sqldb.Querier, account drive.AccountID, limit int) ([]drive.ShareID, error) {
	rows, err := q.Query(ctx, "SELECT id FROM shares WHERE account_id = ? ORDER BY id LIMIT ?", account, limit)
	return sqldb.Scan(rows, err, func(id *drive.ShareID, scan func(...any) error) error { return scan(id) })
}
