package account

import (
	"context"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// What names a security event of a user.
type What string

// The security events, as stored in the activity log.
const (
	LoggedIn        What = "login.created"
	LoginFailed     What = "login.failed"
	LoggedOut       What = "login.ended"
	TokenMade       What = "token.created"
	TokenRevoked    What = "token.ended"
	PasswordChanged What = "password.changed"
	Connected       What = "identity.connected"
	Disconnected    What = "identity.ended"
)

// Effect is a security event of a user for the activity log; see Options.Happened.
type Effect struct {
	What    What
	Account drive.AccountID // the user's
	By      drive.Who       // who caused it; without a user: unknown
	Session drive.SessionID // the session or token
	Name    string          // of the session or token
	Scopes  drive.Scope     // of a token
	Heads   drive.Heads     // of a token
	All     bool            // all sessions, or all except the caller's

	Times int      // number of combined attempts
	From  []string // some of their addresses
}

// happened calls Options.Happened within the transaction of the change and returns its error, after
// which tx must be rolled back. It does nothing if Happened is nil.
func (o Options) happened(ctx context.Context, tx *sqldb.Tx, e Effect) error {
	if o.Happened == nil {
		return nil
	}
	return o.Happened(ctx, tx, e)
}
