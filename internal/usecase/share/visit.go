package share

import (
	"context"
	"fmt"
	"net/netip"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Public is what a visitor may see of a share.
type Public struct {
	NeedsCode bool // a code is required and no valid access was given
	Item      tree.Node
	Owner     string // the owner's name
	ExpiresAt drive.Time
}

// Describe returns what a token's share shows. An invalid access counts as none. NotFound for an
// unknown token; Gone {reason: expired, used-up or withdrawn} for a closed share.
func (s *Shares) Describe(ctx context.Context, token, access string) (Public, error) {
	sh, item, err := s.openShare(ctx, token)
	if err != nil {
		return Public{}, err
	}
	if state := s.stateByItself(sh); state != Open {
		return Public{}, errClosed(state)
	}
	owner, err := s.opt.Users.Find(ctx, s.opt.DB, sh.User)
	if err != nil {
		return Public{}, err
	}
	p := Public{NeedsCode: sh.NeedsCode(), Item: item, Owner: owner.Name, ExpiresAt: sh.ExpiresAt}
	if p.NeedsCode {
		switch _, err := s.checkAccess(ctx, sh, access); {
		case err == nil:
			p.NeedsCode = false
		case !drive.IsKind(err, drive.Unauthenticated):
			return Public{}, err
		}
	}
	return p, nil
}

// errClosed returns the Gone error of visitors for a share in the given state. A share that is Gone
// has the reason withdrawn.
func errClosed(state State) error {
	reason := string(state)
	if state == Gone {
		reason = "withdrawn" // visitors must not learn why
	}
	return drive.Fail(drive.Gone, "reason", reason)
}

// openShare returns the share of a token and its node. Gone if the share is closed, except if only
// its downloads are used up.
func (s *Shares) openShare(ctx context.Context, token string) (Share, tree.Node, error) {
	sh, err := s.ByToken(ctx, token)
	if err != nil {
		return Share{}, tree.Node{}, err
	}
	v, err := s.view(ctx, s.opt.DB, sh)
	if err == nil && (v.State == Gone || v.State == Expired) {
		err = errClosed(v.State)
	}
	return v.Share, v.Item, err
}

// AccessToken is a signed access and its expiry.
type AccessToken struct {
	Token     string
	ExpiresAt drive.Time
}

// Open returns an access to a visitor with the right code and counts the view. It fails with
// NotFound for an unknown token, Gone for a closed share, WrongCode, and Rate {retry_after} in
// seconds after too many attempts, even if the code is right.
func (s *Shares) Open(ctx context.Context, token, code string, client netip.Addr) (AccessToken, error) {
	sh, _, err := s.openShare(ctx, token)
	if err != nil {
		return AccessToken{}, err
	}
	if state := s.stateByItself(sh); state != Open {
		return AccessToken{}, errClosed(state)
	}
	if sh.NeedsCode() {
		if err := s.attempt(ctx, sh.ID, client); err != nil {
			return AccessToken{}, err
		}
		if !sameCode(sh.Code, code) {
			return AccessToken{}, drive.Fail(drive.WrongCode)
		}
	}
	key, err := s.SigningKey(ctx, keyPurpose)
	if err != nil {
		return AccessToken{}, err
	}
	err = s.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if sh.NeedsCode() {
			if err := uncount(ctx, tx, sh.ID, client); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, "UPDATE shares SET views = views + 1 WHERE id = ?", sh.ID)
		return err
	})
	if err != nil {
		return AccessToken{}, fmt.Errorf("open share %s: %w", sh.ID, err)
	}
	t := accessTicket{share: sh.ID, visit: drive.NewID[drive.VisitID](), epoch: sh.Epoch, expires: s.Now().Add(AccessLife)}
	if sh.ExpiresAt != 0 {
		t.expires = min(t.expires, sh.ExpiresAt)
	}
	return AccessToken{t.text(key), t.expires}, nil
}

// Visit is an admitted visitor's use of a share: the access was checked when it was created, and is
// not checked again.
type Visit struct {
	share Share
	id    drive.VisitID
	item  tree.Node
}

// Who returns the identity that acts for the visitor: the owner's account, read-only. The caller
// must read only nodes that FindWithin has returned.
func (v Visit) Who() drive.Who {
	return drive.Who{User: v.share.User, Account: v.share.Account, Scopes: drive.ScopeRead, Head: drive.LinkHead}
}

// Item returns the shared node.
func (v Visit) Item() tree.Node { return v.item }

// ExpiresAt returns when the share expires; zero: never.
func (v Visit) ExpiresAt() drive.Time { return v.share.ExpiresAt }

// Limited reports whether the share has a download limit, so that downloads are counted.
func (v Visit) Limited() bool { return v.share.MaxDownloads != nil }

// VerifyAccess checks an access and returns the visit. It also admits visitors of a used-up share,
// so that they can finish downloads. Errors: NotFound, Gone, Unauthenticated.
func (s *Shares) VerifyAccess(ctx context.Context, token, access string) (Visit, error) {
	sh, item, err := s.openShare(ctx, token)
	if err != nil {
		return Visit{}, err
	}
	t, err := s.checkAccess(ctx, sh, access)
	if err != nil {
		return Visit{}, err
	}
	return Visit{share: sh, id: t.visit, item: item}, nil
}

// FindWithin returns a node within the share's subtree and outside the trash, and its path relative
// to the shared node (empty for that itself). NotFound otherwise.
func (s *Shares) FindWithin(ctx context.Context, v Visit, id drive.NodeID) (tree.Node, drive.Path, error) {
	return s.opt.Tree.Within(ctx, s.opt.DB, v.share.Account, v.share.Node, id)
}
