package admin

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/account"
	"example.org/smartdrive/internal/domain/idem"
	"example.org/smartdrive/internal/engine/sqldb"
)

// NewUser describes a user to create. Name and Password are required.
type NewUser struct {
	Name     string
	Password string
	Total    Total // absent: the default limit
	Admin    bool

	MustChange bool // the user must set another password at the first sign-in
}

// CreateUser creates a user with an account, a ledger and a tree. It fails with Forbidden if the
// caller is not an administrator, and with NameTaken if the name is in use, whatever its case. A
// retry after a lost reply fails with NameTaken as well; CreateUserOnce avoids that.
func (a *Admin) CreateUser(ctx context.Context, who drive.Who, in NewUser) (User, error) {
	return a.CreateUserAnd(ctx, who, in, func(context.Context, *sqldb.Tx, account.User) error { return nil })
}

// CreateUserAnd creates a user with account, ledger and tree, and calls and with the new user in
// the same transaction. An error of and undoes the creation. It fails with Forbidden if the caller
// is not an administrator, with BadRequest for an invalid name or password, and with NameTaken.
func (a *Admin) CreateUserAnd(ctx context.Context, who drive.Who, in NewUser, and func(context.Context, *sqldb.Tx, account.User) error) (User, error) {
	draft, err := a.draft(ctx, who, in)
	if err != nil {
		return User{}, err
	}
	var user User
	err = a.parts.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		if user, err = a.create(ctx, tx, draft, in.Total); err != nil {
			return err
		}
		return and(ctx, tx, user.User)
	})
	return user, err
}

// CreateUserOnce creates a user under the idempotency key req. render builds the response, which is
// stored and returned again for a retry. The fingerprint leaves out the password, because the
// database would hold a fast hash of it for a day. It fails with Forbidden if the caller is not an
// administrator, and with NameTaken.
func (a *Admin) CreateUserOnce(ctx context.Context, who drive.Who, in NewUser, req idem.Request,
	render func(User) (status int, body []byte, err error),
) (idem.Response, error) {
	if err := check(who); err != nil {
		return idem.Response{}, err
	}
	req.Fingerprint = in.fingerprint()
	resp, ok, err := a.parts.Keys.Lookup(ctx, a.parts.DB, req)
	if err != nil || ok {
		return resp, err
	}
	draft, err := a.draft(ctx, who, in)
	if err != nil {
		return idem.Response{}, err
	}
	return a.parts.Keys.Once(ctx, req, func(ctx context.Context, tx *sqldb.Tx) (int, []byte, error) {
		user, err := a.create(ctx, tx, draft, in.Total)
		if err != nil {
			return 0, nil, err
		}
		return render(user)
	})
}

// fingerprint identifies the request for idempotency: all fields but the password.
func (in NewUser) fingerprint() idem.Fingerprint {
	total := "default"
	switch {
	case in.Total.Bytes != nil:
		total = strconv.FormatInt(int64(*in.Total.Bytes), 10)
	case in.Total.Given:
		total = "unlimited"
	}
	must := ""
	if in.MustChange { // only if set, so that fingerprints stored by older versions still match
		must = " must-change"
	}
	return sha256.Sum256(fmt.Appendf(nil, "%q %s %t%s", in.Name, total, in.Admin, must))
}

// draft checks the caller and the request, and hashes the password, which takes long: it runs
// before the transaction and writes nothing. It fails with Forbidden, and with BadRequest for an
// invalid quota, name or password.
func (a *Admin) draft(ctx context.Context, who drive.Who, in NewUser) (account.Draft, error) {
	if err := check(who); err != nil {
		return account.Draft{}, err
	}
	if err := in.Total.check(); err != nil {
		return account.Draft{}, err
	}
	draft, err := a.parts.Users.Draft(ctx, in.Name, in.Password, in.Admin)
	if in.MustChange {
		draft = draft.Temporary()
	}
	return draft, err
}

// create inserts the rows of a new user within tx: user, ledger and tree. Without a total the
// ledger gets the default quota. It fails with NameTaken if the name is used.
func (a *Admin) create(ctx context.Context, tx *sqldb.Tx, draft account.Draft, total Total) (User, error) {
	user, err := a.parts.Users.Create(ctx, tx, draft)
	if err != nil {
		return User{}, err
	}
	if err := a.parts.Ledger.Create(ctx, tx, user.Account, total.or(Total{Given: true, Bytes: a.opt.DefaultQuota()}).Bytes); err != nil {
		return User{}, err
	}
	if _, err := a.parts.Trees.Create(ctx, tx, user.Account); err != nil {
		return User{}, err
	}
	return a.withBalance(ctx, tx, user)
}

// FirstUser is the name of the administrator that a new installation starts with.
const FirstUser = "admin"

// EnsureFirstUser creates the administrator FirstUser if no user exists, and reports whether it
// did. An empty password is replaced by a random one, which is returned. keep (may be nil) is
// called with that password before the user exists and must store it durably: a crash must not lose
// the only password. If another instance creates the user first, created is false and the password
// passed to keep is void.
func (a *Admin) EnsureFirstUser(ctx context.Context, password string, keep func(generated string) error) (
	generated string, created bool, err error,
) {
	if any, err := a.parts.Users.Any(ctx, a.parts.DB); err != nil || any {
		return "", false, err
	}
	if password == "" {
		generated = strings.ToLower(rand.Text()) // 130 bits
		password = generated
	}
	draft, err := a.parts.Users.Draft(ctx, FirstUser, password, true)
	if err != nil {
		return "", false, fmt.Errorf("create the first user: %w", err)
	}
	if generated != "" && keep != nil {
		if err := keep(generated); err != nil {
			return "", false, fmt.Errorf("keep the first user's password: %w", err)
		}
	}
	err = a.parts.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		any, err := a.parts.Users.Any(ctx, tx)
		if created = err == nil && !any; !created {
			return err
		}
		_, err = a.create(ctx, tx, draft, Total{})
		return err
	})
	switch {
	case drive.IsKind(err, drive.NameTaken): // by another instance that starts at the same time
		created = false
	case err != nil:
		return "", false, fmt.Errorf("create the first user: %w", err)
	}
	if !created {
		generated = ""
	}
	return generated, created, nil
}
