package account

import (
	"context"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// What says what was done about the logins, tokens and the password of a user.
type What string

// What there is to tell.
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

// Effect is something about the logins, tokens and the password of a user that they want to find
// again: see Options.Happened.
type Effect struct {
	What    What
	Account drive.AccountID // of the user
	By      drive.Who       // who did it; without a user: nobody knows
	Session drive.SessionID // the login or token
	Name    string          // of that
	Scopes  drive.Scope     // of a token
	Heads   drive.Heads     // of a token
	All     bool            // not one login: all of them, or all but the one that asked

	Times int      // of attempts that were gathered
	From  []string // where those came from: some of the addresses
}

// happened tells of an effect, in its transaction.
func (o Options) happened(ctx context.Context, tx *sqldb.Tx, e Effect) error {
	if o.Happened == nil {
		return nil
	}
	return o.Happened(ctx, tx, e)
}
