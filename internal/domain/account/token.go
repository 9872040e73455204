package account

import (
	"context"
	"fmt"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// NewToken describes a token to create.
type NewToken struct {
	Name   string
	Scopes drive.Scope
	Heads  drive.Heads   // zero: the native API
	Life   time.Duration // zero: it does not expire
}

const (
	// minTokenLife and maxTokenLife bound the life of a token that has one.
	minTokenLife = time.Minute
	maxTokenLife = 10 * 365 * 24 * time.Hour
	// allScopes and allHeads are the scopes and heads that a token may have.
	allScopes = drive.ScopeRead | drive.ScopeWrite | drive.ScopeAdmin
	allHeads  = drive.HeadNative | drive.HeadDAV | drive.HeadNextcloud
)

// CreateToken creates an API token. The caller must use a login, because a token that creates
// tokens could outlive its own expiry. The scope admin requires an administrator and the native
// head. It fails with Forbidden {reason: login-required or scope}, with Unauthenticated if the
// caller's session has ended, with BadRequest for invalid scopes, heads, name or life, and with
// TooManyOpen beyond maxSessions tokens per user.
func (s *Sessions) CreateToken(ctx context.Context, who drive.Who, in NewToken) (Granted, error) {
	secret, hash := newSecret()
	session, err := s.addToken(ctx, who, drive.NewID[drive.SessionID](), in, hash, authorizeToken)
	if err != nil {
		return Granted{}, fmt.Errorf("create a token: %w", err)
	}
	return Granted{Session: session, Secret: secret}, nil
}

// addToken creates a token with a given id and secret hash after may allows it. If the caller has
// already created the token with this id, it returns that; a token of another user is NotFound.
func (s *Sessions) addToken(
	ctx context.Context, who drive.Who, id drive.SessionID, in NewToken, hash secretHash, may func(context.Context, *sqldb.Tx, drive.Who) error,
) (Session, error) {
	name, err := checkToken(&in)
	if err != nil {
		return Session{}, err
	}
	if in.Scopes.Has(drive.ScopeAdmin) && !who.Admin {
		return Session{}, drive.Fail(drive.Forbidden, "reason", "scope")
	}
	now := drive.TimeOf(s.opt.Now())
	session := Session{
		ID: id, User: who.User, Kind: KindToken, Name: name, Scopes: in.Scopes, Heads: in.Heads,
		CreatedAt: now, SeenAt: now,
	}
	if in.Life > 0 {
		session.ExpiresAt = now.Add(in.Life)
	}
	err = s.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := may(ctx, tx, who); err != nil {
			return err
		}
		var there Session
		row := tx.QueryRow(ctx, "SELECT "+sessionColumns+" FROM sessions WHERE id = ?", id)
		switch err := scanSession(&there, row.Scan); {
		case drive.IsKind(err, drive.NotFound):
			if err := insertSession(ctx, tx, session, hash); err != nil {
				if sqldb.IsDuplicate(err) { // another user grants the same flow concurrently
					err = sqldb.Rerun(err)
				}
				return err
			}
			return s.opt.happened(ctx, tx, Effect{
				What: TokenMade, Account: who.Account, By: who, Session: session.ID, Name: name, Scopes: in.Scopes, Heads: in.Heads,
			})
		case err != nil:
			return fmt.Errorf("look for the token: %w", err)
		case there.User != who.User:
			return drive.Fail(drive.NotFound)
		}
		session = there
		return nil
	})
	return session, err
}

// checkToken returns the normalized name of a new token and sets in.Heads to HeadNative if it is
// zero. It fails with BadRequest, which names the field, if the name, scopes, heads or life are not
// valid, or if the admin scope is combined with heads other than HeadNative.
func checkToken(in *NewToken) (string, error) {
	name, err := drive.ParseLabel("name", in.Name, MaxNameBytes)
	if in.Heads == 0 {
		in.Heads = drive.HeadNative
	}
	switch {
	case err != nil:
		return "", err
	case in.Scopes == 0:
		return "", drive.BadField("scopes", drive.Required)
	case !allScopes.Has(in.Scopes):
		return "", drive.BadField("scopes", drive.NotAllowed, "allowed", []string{"read", "write", "admin"})
	case !allHeads.Has(in.Heads):
		return "", drive.BadField("heads", drive.NotAllowed, "allowed", []string{"native", "dav", "nextcloud"})
	case in.Scopes.Has(drive.ScopeAdmin) && in.Heads != drive.HeadNative:
		return "", drive.BadField("scopes", drive.NotTogether, "with", "heads")
	case in.Life != 0 && (in.Life < minTokenLife || in.Life > maxTokenLife):
		return "", drive.BadField("expires_in", drive.OutOfRange,
			"min", int64(minTokenLife.Seconds()), "max", int64(maxTokenLife.Seconds()))
	}
	return name, nil
}

// authorizeToken locks the user's row, which serializes the counting of tokens, and checks that the
// caller uses a login session.
func authorizeToken(ctx context.Context, tx *sqldb.Tx, who drive.Who) error {
	if err := lockUser(ctx, tx, who); err != nil {
		return err
	}
	var kind Kind
	row := tx.QueryRow(ctx, "SELECT kind FROM sessions WHERE id = ? AND user_id = ?", who.Session, who.User)
	switch err := row.Scan(&kind); {
	case drive.IsKind(err, drive.NotFound): // ended since the request began
		return drive.Fail(drive.Unauthenticated, "reason", "invalid")
	case err != nil:
		return fmt.Errorf("read the session %s: %w", who.Session, err)
	case kind != KindLogin:
		return drive.Fail(drive.Forbidden, "reason", "login-required")
	}
	return checkTokenCount(ctx, tx, who)
}

// lockUser locks the row of the caller. It fails with Unauthenticated if the user does not exist.
func lockUser(ctx context.Context, tx *sqldb.Tx, who drive.Who) error {
	var user drive.UserID
	if err := tx.QueryRow(ctx, "SELECT id FROM users WHERE id = ?"+tx.ForUpdate(), who.User).Scan(&user); drive.IsKind(err, drive.NotFound) {
		return drive.Fail(drive.Unauthenticated, "reason", "invalid")
	} else if err != nil {
		return fmt.Errorf("read user %s: %w", who.User, err)
	}
	return nil
}

// checkTokenCount fails with TooManyOpen if the user has maxSessions tokens, expired ones included.
func checkTokenCount(ctx context.Context, tx *sqldb.Tx, who drive.Who) error {
	var n int
	row := tx.QueryRow(ctx, "SELECT COUNT(*) FROM sessions WHERE user_id = ? AND kind = 'token'", who.User)
	if err := row.Scan(&n); err != nil {
		return fmt.Errorf("count the tokens of %s: %w", who.User, err)
	}
	if n >= maxSessions {
		return drive.Fail(drive.TooManyOpen, "reason", "tokens", "limit", maxSessions, "sent", n+1)
	}
	return nil
}
