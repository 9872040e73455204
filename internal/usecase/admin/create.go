package admin

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/account"
	"smartdrive/internal/domain/idem"
	"smartdrive/internal/engine/sqldb"
)

// NewUser describes a user to be created.
type NewUser struct {
	Name     string
	Password string
	Total    Total // absent: the default quota
	Admin    bool

	MustChange bool // whoever logs in with it has to set another one first
}

// CreateUser creates a user with an account of their own, its ledger and its tree. NameTaken when
// the name, whatever its case, is another user's. A reply that was lost cannot be told from a name
// that was taken: see CreateUserOnce.
func (a *Admin) CreateUser(ctx context.Context, who drive.Who, in NewUser) (User, error) {
	return a.CreateUserAnd(ctx, who, in, func(context.Context, *sqldb.Tx, account.User) error { return nil })
}

// CreateUserAnd is CreateUser, and what and does in the same transaction.
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

// CreateUserOnce is CreateUser under an idempotency key; render makes the response that is kept and
// repeated. The fingerprint of the request is made here, without the password: a fast hash of it
// must not lie about for a day.
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

func (in NewUser) fingerprint() idem.Fingerprint {
	total := "default"
	switch {
	case in.Total.Bytes != nil:
		total = strconv.FormatInt(int64(*in.Total.Bytes), 10)
	case in.Total.Given:
		total = "unlimited"
	}
	must := ""
	if in.MustChange { // what was sent before it was there has the sum that it had
		must = " must-change"
	}
	return sha256.Sum256(fmt.Appendf(nil, "%q %s %t%s", in.Name, total, in.Admin, must))
}

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

// create writes all rows of a new user.
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

// FirstUser is the name of the user that a new installation has.
const FirstUser = "admin"

// EnsureFirstUser creates the administrator FirstUser where there is no user at all, and does
// nothing otherwise. An empty password is replaced by a generated one, which is returned. keep
// (nil: nothing) is given the generated password before the user exists and must make it durable: a
// crash after the creation must not lose the only password. When it turns out that another instance
// was first (created is false) what was kept is the password of nobody.
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
	case drive.IsKind(err, drive.NameTaken): // by another instance that starts at the same moment
		created = false
	case err != nil:
		return "", false, fmt.Errorf("create the first user: %w", err)
	}
	if !created {
		generated = ""
	}
	return generated, created, nil
}
