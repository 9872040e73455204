package share

import (
	"context"
	"fmt"
	"net/netip"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
)

// Public is what a visitor is told of a share.
type Public struct {
	NeedsCode bool // and no access was shown
	Item      tree.Node
	Owner     string // their name
	ExpiresAt drive.Time
}

// Look says what a token leads to. A token that is nobody's is NotFound, a share that is closed
// Gone {reason: expired, used-up or withdrawn}. An access that is not good counts as none.
func (s *Shares) Look(ctx context.Context, token, access string) (Public, error) {
	sh, item, err := s.arrive(ctx, token)
	if err != nil {
		return Public{}, err
	}
	if state := s.stateByItself(sh); state != Open {
		return Public{}, closed(state)
	}
	owner, err := s.opt.Users.Find(ctx, s.opt.DB, sh.User)
	if err != nil {
		return Public{}, err
	}
	p := Public{NeedsCode: sh.AsksCode(), Item: item, Owner: owner.Name, ExpiresAt: sh.ExpiresAt}
	if p.NeedsCode {
		switch _, err := s.valid(ctx, sh, access); {
		case err == nil:
			p.NeedsCode = false
		case !drive.IsKind(err, drive.Unauthenticated):
			return Public{}, err
		}
	}
	return p, nil
}

func closed(state State) error {
	reason := string(state)
	if state == Gone {
		reason = "withdrawn" // why is nobody's business
	}
	return drive.Fail(drive.Gone, "reason", reason)
}

// arrive reads the share of a token and its node, unless it is closed by something other than the
// number of its downloads.
func (s *Shares) arrive(ctx context.Context, token string) (Share, tree.Node, error) {
	sh, err := s.ByToken(ctx, token)
	if err != nil {
		return Share{}, tree.Node{}, err
	}
	v, err := s.view(ctx, s.opt.DB, sh)
	if err == nil && (v.State == Gone || v.State == Expired) {
		err = closed(v.State)
	}
	return v.Share, v.Item, err
}

// Access lets somebody in until it expires.
type Access struct {
	Access    string
	ExpiresAt drive.Time
}

// Open lets a visitor in who has the code, and counts them. A wrong code is WrongCode; too many of
// them are Rate with retry_after in seconds, whatever the code then is.
func (s *Shares) Open(ctx context.Context, token, code string, client netip.Addr) (Access, error) {
	sh, _, err := s.arrive(ctx, token)
	if err != nil {
		return Access{}, err
	}
	if state := s.stateByItself(sh); state != Open {
		return Access{}, closed(state)
	}
	if sh.AsksCode() {
		if err := s.attempt(ctx, sh.ID, client); err != nil {
			return Access{}, err
		}
		if !sameCode(sh.Code, code) {
			return Access{}, drive.Fail(drive.WrongCode)
		}
	}
	key, err := s.SigningKey(ctx, signs)
	if err != nil {
		return Access{}, err
	}
	err = s.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if sh.AsksCode() {
			if err := pardon(ctx, tx, sh.ID, client); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, "UPDATE shares SET views = views + 1 WHERE id = ?", sh.ID)
		return err
	})
	if err != nil {
		return Access{}, fmt.Errorf("open share %s: %w", sh.ID, err)
	}
	t := entry{share: sh.ID, visit: drive.NewID[drive.VisitID](), epoch: sh.Epoch, expires: s.Now().Add(AccessLife)}
	if sh.ExpiresAt != 0 {
		t.expires = min(t.expires, sh.ExpiresAt)
	}
	return Access{t.text(key), t.expires}, nil
}

// Visit is somebody who was let in.
type Visit struct {
	share Share
	id    drive.VisitID
	item  tree.Node
}

// Who acts for a visitor: the owner's account, to read. Only what Reach has returned may be read as
// them.
func (v Visit) Who() drive.Who {
	return drive.Who{User: v.share.User, Account: v.share.Account, Scopes: drive.ScopeRead, Head: drive.LinkHead}
}

// Item is the node that is shared.
func (v Visit) Item() tree.Node { return v.item }

// ExpiresAt is when the share ends; zero: never.
func (v Visit) ExpiresAt() drive.Time { return v.share.ExpiresAt }

// Limited reports whether the number of downloads is.
func (v Visit) Limited() bool { return v.share.MaxDownloads != nil }

// Enter checks an access. A share that is used up still lets in whom it has let in: what they have
// begun to download they may end. Errors: NotFound, Gone, Unauthenticated.
func (s *Shares) Enter(ctx context.Context, token, access string) (Visit, error) {
	sh, item, err := s.arrive(ctx, token)
	if err != nil {
		return Visit{}, err
	}
	t, err := s.valid(ctx, sh, access)
	if err != nil {
		return Visit{}, err
	}
	return Visit{share: sh, id: t.visit, item: item}, nil
}

// Reach returns a live node that is shared, and its path below the node of the share, which is
// empty for that itself. Everything else is NotFound.
func (s *Shares) Reach(ctx context.Context, v Visit, id drive.NodeID) (tree.Node, drive.Path, error) {
	return s.opt.Tree.Within(ctx, s.opt.DB, v.share.Account, v.share.Node, id)
}
