package account

import (
	"context"
	"fmt"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// NewToken describes a token to be made.
type NewToken struct {
	Name   string
	Scopes drive.Scope
	Life   time.Duration // zero: until it is deleted
}

const (
	minTokenLife = time.Minute
	maxTokenLife = 10 * 365 * 24 * time.Hour
	allScopes    = drive.ScopeRead | drive.ScopeWrite | drive.ScopeAdmin
)

// CreateToken makes a token for a program. Only a login may: a token that could make tokens could
// outlive its own end. The scope admin needs an administrator (Forbidden). At most 1,000 tokens a
// user: TooManyOpen.
func (s *Sessions) CreateToken(ctx context.Context, who drive.Who, in NewToken) (Granted, error) {
	name, err := checkToken(&in)
	if err != nil {
		return Granted{}, err
	}
	if in.Scopes.Has(drive.ScopeAdmin) && !who.Admin {
		return Granted{}, drive.Fail(drive.Forbidden, "reason", "scope")
	}
	secret, hash := newSecret()
	now := drive.TimeOf(s.opt.Now())
	session := Session{
		ID: drive.NewID[drive.SessionID](), User: who.User, Kind: KindToken, Name: name, Scopes: in.Scopes,
		CreatedAt: now, SeenAt: now,
	}
	if in.Life > 0 {
		session.ExpiresAt = now.Add(in.Life)
	}
	err = s.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := mayCreateToken(ctx, tx, who); err != nil {
			return err
		}
		return insertSession(ctx, tx, session, hash)
	})
	if err != nil {
		return Granted{}, fmt.Errorf("create a token: %w", err)
	}
	return Granted{session, secret}, nil
}

func checkToken(in *NewToken) (string, error) {
	name, err := parseLabel("name", in.Name)
	switch {
	case err != nil:
		return "", err
	case in.Scopes == 0:
		return "", drive.Bad("scopes", drive.Required)
	case !allScopes.Has(in.Scopes):
		return "", drive.Bad("scopes", drive.NotAllowed, "allowed", []string{"read", "write", "admin"})
	case in.Life != 0 && (in.Life < minTokenLife || in.Life > maxTokenLife):
		return "", drive.Bad("expires_in", drive.OutOfRange,
			"min", int64(minTokenLife.Seconds()), "max", int64(maxTokenLife.Seconds()))
	}
	return name, nil
}

// mayCreateToken locks the user's row, so that tokens are counted by turns.
func mayCreateToken(ctx context.Context, tx *sqldb.Tx, who drive.Who) error {
	var user drive.UserID
	if err := tx.QueryRow(ctx, "SELECT id FROM users WHERE id = ?"+tx.ForUpdate(), who.User).Scan(&user); drive.IsKind(err, drive.NotFound) {
		return drive.Fail(drive.Unauthenticated, "reason", "invalid")
	} else if err != nil {
		return fmt.Errorf("read user %s: %w", who.User, err)
	}
	var kind Kind
	row := tx.QueryRow(ctx, "SELECT kind FROM sessions WHERE id = ? AND user_id = ?", who.Session, who.User)
	switch err := row.Scan(&kind); {
	case drive.IsKind(err, drive.NotFound): // it ended since the request began
		return drive.Fail(drive.Unauthenticated, "reason", "invalid")
	case err != nil:
		return fmt.Errorf("read the session %s: %w", who.Session, err)
	case kind != KindLogin:
		return drive.Fail(drive.Forbidden, "reason", "login-required")
	}
	var n int
	row = tx.QueryRow(ctx, "SELECT COUNT(*) FROM sessions WHERE user_id = ? AND kind = 'token'", who.User)
	if err := row.Scan(&n); err != nil {
		return fmt.Errorf("count the tokens of %s: %w", who.User, err)
	}
	if n >= maxSessions {
		return drive.Fail(drive.TooManyOpen, "reason", "tokens", "limit", maxSessions, "sent", n+1)
	}
	return nil
}
