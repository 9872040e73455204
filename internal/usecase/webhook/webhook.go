package webhook

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
	"smartdrive/internal/domain/activity"
	"smartdrive/internal/domain/quota"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/domain/vault"
	"smartdrive/internal/engine/sqldb"
)

// Parts are what webhooks are composed of.
type Parts struct {
	DB     *sqldb.DB
	Log    *activity.Log
	Access *access.Access
	Tree   *tree.Tree
	Ledger quota.Ledger
	Vault  *vault.Vault // keeps the secrets
}

// Options configure New. The zero value of each field but Source and Transport is its default.
type Options struct {
	Source    string            // of every event: "smartdrive/<installation id>"
	Transport http.RoundTripper // refuses addresses that must not be asked
	Now       func() time.Time  // default time.Now
	Log       *slog.Logger      // default slog.Default
	// Timeout is how long one attempt may take. Default: 10 s.
	Timeout time.Duration
	// Disabled is told, in the transaction, of a webhook that was disabled because it fails.
	// Default: nobody is told.
	Disabled func(ctx context.Context, tx *sqldb.Tx, h Hook) error
}

// Webhooks keeps webhooks and sends. It is safe for concurrent use.
type Webhooks struct {
	parts  Parts
	opt    Options
	client *http.Client
	turns  turns
	seen   due // the last one that Run's looks have found so far; zero: they begin at the first

	settleLate func(context.Context) context.Context // that of what is written when ctx is done
}

// New returns the webhooks of a database.
func New(parts Parts, opt Options) *Webhooks {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Log == nil {
		opt.Log = slog.Default()
	}
	if opt.Timeout == 0 {
		opt.Timeout = 10 * time.Second
	}
	if opt.Disabled == nil {
		opt.Disabled = func(context.Context, *sqldb.Tx, Hook) error { return nil }
	}
	settleLate := context.WithoutCancel
	noRedirect := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Webhooks{
		parts: parts, opt: opt, turns: newTurns(),
		settleLate: settleLate,
		client:     &http.Client{Transport: opt.Transport, Timeout: opt.Timeout, CheckRedirect: noRedirect},
	}
}

func (w *Webhooks) now() drive.Time { return drive.TimeOf(w.opt.Now()) }

// ID identifies a webhook.
type ID = drive.ID[ofHook]

type ofHook struct{}

// State says whether anything is sent.
type State string

// The states.
const (
	Active   State = "active"
	Disabled State = "disabled"
)

// Reason is why a webhook was disabled; empty: somebody has.
type Reason string

// The reasons.
const (
	Failing   Reason = "failing" // for three days
	RightLost Reason = "right"   // whoever made it may not any more
	NoSecret  Reason = "secret"  // the key that has sealed its secret is lost
	Gone      Reason = "gone"    // the receiver answered 410
)

// Hook is a webhook.
type Hook struct {
	ID           ID
	Account      drive.AccountID
	User         drive.UserID
	Name         string
	URL          string
	Types        []string // verbs, or what they begin with; none: what activity.Sent says
	State        State
	Reason       Reason
	Position     activity.Position
	Skipped      int64
	Failures     int64
	FailingSince drive.Time
	NotBefore    drive.Time
	Status       int64
	Error        string
	Sent         drive.Time
	Created      drive.Time
	Updated      drive.Time

	// OldUntil is until when requests are signed with the secret before this one, too; zero: they
	// are not.
	OldUntil drive.Time

	Secret    string // only in the answer to its making, and to a rotation
	oldSecret string
	sealed    string
	oldSealed string

	until drive.Time // the end of its turn, while it is being sent to
}

const columns = `id, account_id, user_id, name, url, secret, types, state, reason, position, skipped, failures, failing_since, not_before,
	status, error, sent_at, created_at, updated_at, old_secret, old_until`

func scanHook(h *Hook, scan func(...any) error) error {
	var types string
	err := scan(&h.ID, &h.Account, &h.User, &h.Name, &h.URL, &h.sealed, &types, &h.State, &h.Reason, &h.Position, &h.Skipped, &h.Failures,
		&h.FailingSince, &h.NotBefore, &h.Status, &h.Error, &h.Sent, &h.Created, &h.Updated, &h.oldSealed, &h.OldUntil)
	if types != "" {
		h.Types = strings.Split(types, ",")
	}
	return err
}

const (
	maxHooks = 100  // of an account
	maxURL   = 2000 // bytes
	maxName  = 200  // bytes
	maxTypes = 32

	secretBytes  = 32 // Standard Webhooks: 24 to 64
	secretPrefix = "whsec_"
)

// Wish describes a webhook to be made or changed; what is nil stays as it is.
type Wish struct {
	Place string // a space, for a new one; empty: the caller's own drive
	Name  *string
	URL   *string
	Types *[]string
	State *State // of one that is there
}

// Keep runs at the end of the transaction that makes a webhook. Nil does nothing.
type Keep func(ctx context.Context, tx *sqldb.Tx, h Hook) error

// Create makes a webhook; its secret is in the answer, and is never shown again. The owner of a
// drive may, and the managers of a space. What happens from now on is sent. Errors: NotFound,
// Forbidden, BadRequest, TooManyOpen.
func (w *Webhooks) Create(ctx context.Context, who drive.Who, in Wish, keep Keep) (h Hook, err error) {
	account, err := w.enter(ctx, who, in.Place)
	if err != nil {
		return Hook{}, err
	}
	now := w.now()
	h = Hook{ID: drive.NewID[ID](), Account: account, User: who.User, State: Active, Created: now, Updated: now}
	in.State = nil
	if err := h.apply(in); err != nil {
		return Hook{}, err
	}
	if h.URL == "" {
		return Hook{}, drive.Bad("url", drive.Required)
	}
	h.Secret = newSecret()
	err = w.write(ctx, who, account, func(ctx context.Context, tx *sqldb.Tx) error {
		var have int
		if err := tx.QueryRow(ctx, "SELECT COUNT(*) FROM webhooks WHERE account_id = ?", account).Scan(&have); err != nil {
			return fmt.Errorf("count the webhooks: %w", err)
		}
		if have >= maxHooks {
			return drive.Fail(drive.TooManyOpen, "reason", "webhooks", "limit", maxHooks, "sent", have+1)
		}
		if h.sealed, err = w.parts.Vault.Seal(ctx, tx, h.row(), h.Secret); err != nil {
			return err
		}
		if h.Position, err = w.parts.Log.Head(ctx, tx, account); err != nil {
			return err
		}
		if err := insert(ctx, tx, h); err != nil {
			return err
		}
		if err := w.note(tx, activity.WebhookCreated, h); err != nil || keep == nil {
			return err
		}
		return keep(ctx, tx, h)
	})
	return h, err
}

func insert(ctx context.Context, tx *sqldb.Tx, h Hook) error {
	_, err := tx.Exec(ctx, "INSERT INTO webhooks ("+columns+") VALUES ("+sqldb.Marks(21)+")", h.ID, h.Account, h.User, h.Name, h.URL, h.sealed,
		strings.Join(h.Types, ","), h.State, h.Reason, int64(h.Position), h.Skipped, h.Failures, h.FailingSince, h.NotBefore, h.Status, h.Error,
		h.Sent, h.Created, h.Updated, h.oldSealed, h.OldUntil)
	if err != nil {
		return fmt.Errorf("insert webhook %s: %w", h.ID, err)
	}
	return nil
}

// Label is what people know a webhook by: its name, else the host that it sends to.
func (h Hook) Label() string {
	if h.Name != "" {
		return h.Name
	}
	u, err := url.Parse(h.URL)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// row is what the sealed secret is bound to.
func (h Hook) row() string { return "webhook " + h.ID.String() }

func (w *Webhooks) note(tx *sqldb.Tx, verb activity.Verb, h Hook) error {
	return w.parts.Log.Note(tx, activity.Entry{Account: h.Account, Verb: verb, Name: h.Name}, map[string]any{"webhook": h.ID, "reason": h.Reason})
}

// apply changes what is not nil, if it may be so.
func (h *Hook) apply(in Wish) error {
	if in.Name != nil {
		if h.Name = strings.ToValidUTF8(*in.Name, ""); len(h.Name) > maxName {
			return drive.Bad("name", drive.TooLong, "limit", maxName, "sent", len(h.Name))
		}
	}
	if in.URL != nil {
		u, err := url.Parse(*in.URL)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil || len(*in.URL) > maxURL {
			return drive.Bad("url", drive.Malformed, "expected", "an http or https address without a user, of at most 2000 bytes")
		}
		h.URL = *in.URL
	}
	if in.Types != nil {
		if err := checkTypes(*in.Types); err != nil {
			return err
		}
		h.Types = *in.Types
	}
	if in.State != nil {
		switch *in.State {
		case Active, Disabled:
			h.State, h.Reason = *in.State, ""
		default:
			return drive.Bad("state", drive.NotAllowed, "allowed", []State{Active, Disabled}, "sent", *in.State)
		}
	}
	return nil
}

// checkTypes refuses types that nothing is of.
func checkTypes(types []string) error {
	if len(types) > maxTypes {
		return drive.Bad("types", drive.TooLong, "limit", maxTypes, "sent", len(types))
	}
	for _, t := range types {
		known := false
		for _, v := range activity.Verbs() {
			known = known || activity.Matches(v, []string{t})
		}
		if !known {
			return drive.Bad("types", drive.NotAllowed, "allowed", activity.Verbs(), "sent", t)
		}
	}
	return nil
}

// enter lets the caller keep webhooks of a place, and returns its account.
func (w *Webhooks) enter(ctx context.Context, who drive.Who, place string) (drive.AccountID, error) {
	if place == "" {
		return who.Account, nil
	}
	to, err := w.parts.Access.Find(ctx, w.parts.DB, who, drive.Address{Place: place})
	if err != nil {
		return drive.AccountID{}, err
	}
	return to.Account, w.may(ctx, who, to.Account)
}

// may is nil for who may keep webhooks of an account.
func (w *Webhooks) may(ctx context.Context, who drive.Who, account drive.AccountID) error {
	if who.Account == account {
		return nil
	}
	root, err := w.parts.Tree.Root(ctx, w.parts.DB, account)
	if err == nil {
		_, err = w.parts.Access.Enter(ctx, w.parts.DB, who, root, access.SetAccess)
	}
	return err
}

// write runs fn in a transaction under the lock on the account's ledger.
func (w *Webhooks) write(ctx context.Context, who drive.Who, account drive.AccountID, fn func(context.Context, *sqldb.Tx) error) error {
	return w.parts.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.ActFor(who)
		if err := w.parts.Ledger.Lock(ctx, tx, account); err != nil {
			return err
		}
		return fn(ctx, tx)
	})
}

// Find returns a webhook of an account that the caller may keep webhooks of.
func (w *Webhooks) Find(ctx context.Context, who drive.Who, id ID) (Hook, error) {
	h, err := find(ctx, w.parts.DB, id)
	if err == nil {
		err = w.may(ctx, who, h.Account)
	}
	if drive.IsKind(err, drive.Forbidden) { // a member who may not know of it
		err = drive.Fail(drive.NotFound)
	}
	return h, err
}

func find(ctx context.Context, q sqldb.Querier, id ID) (h Hook, err error) {
	err = scanHook(&h, q.QueryRow(ctx, "SELECT "+columns+" FROM webhooks WHERE id = ?", id).Scan)
	return h, err
}

// findToChange is find for a transaction that writes back what it has read: how an attempt ended is
// noted without the lock on the ledger.
func findToChange(ctx context.Context, tx *sqldb.Tx, id ID) (h Hook, err error) {
	err = scanHook(&h, tx.QueryRow(ctx, "SELECT "+columns+" FROM webhooks WHERE id = ?"+tx.ForUpdate(), id).Scan)
	return h, err
}

// List returns the webhooks of a place.
func (w *Webhooks) List(ctx context.Context, who drive.Who, place string) ([]Hook, error) {
	account, err := w.enter(ctx, who, place)
	if err != nil {
		return nil, err
	}
	rows, err := w.parts.DB.Query(ctx, "SELECT "+columns+" FROM webhooks WHERE account_id = ? ORDER BY id LIMIT ?", account, maxHooks)
	all, err := sqldb.Scan(rows, err, scanHook)
	if err != nil {
		return nil, fmt.Errorf("list the webhooks of account %s: %w", account, err)
	}
	return all, nil
}

// Change changes a webhook. One that is made active again goes on where it stopped.
func (w *Webhooks) Change(ctx context.Context, who drive.Who, id ID, in Wish) (h Hook, err error) {
	if h, err = w.Find(ctx, who, id); err != nil {
		return Hook{}, err
	}
	err = w.write(ctx, who, h.Account, func(ctx context.Context, tx *sqldb.Tx) error {
		if h, err = findToChange(ctx, tx, id); err != nil {
			return err
		}
		was := h
		if err := h.apply(in); err != nil {
			return err
		}
		if in.State != nil && *in.State == Active || in.URL != nil {
			h.Failures, h.FailingSince, h.NotBefore = 0, 0, 0
			h.User = who.User // who is good for it from now on
		}
		h.Updated = w.now()
		_, err := tx.Exec(ctx, `UPDATE webhooks SET user_id = ?, name = ?, url = ?, types = ?, state = ?, reason = ?, failures = ?, failing_since = ?,
			not_before = ?, updated_at = ? WHERE id = ?`, h.User, h.Name, h.URL, strings.Join(h.Types, ","), h.State, h.Reason, h.Failures,
			h.FailingSince, h.NotBefore, h.Updated, h.ID)
		if err != nil {
			return fmt.Errorf("change webhook %s: %w", id, err)
		}
		if was.State == h.State && was.URL == h.URL && was.Name == h.Name && strings.Join(was.Types, ",") == strings.Join(h.Types, ",") {
			return nil
		}
		return w.note(tx, activity.WebhookChanged, h)
	})
	return h, err
}

// Delete deletes a webhook.
func (w *Webhooks) Delete(ctx context.Context, who drive.Who, id ID) error {
	h, err := w.Find(ctx, who, id)
	if err != nil {
		return err
	}
	return w.write(ctx, who, h.Account, func(ctx context.Context, tx *sqldb.Tx) error {
		n, err := tx.Exec(ctx, "DELETE FROM webhooks WHERE id = ?", id)
		if err == nil && n == 0 {
			err = drive.Fail(drive.NotFound)
		}
		if err != nil {
			return err
		}
		return w.note(tx, activity.WebhookDeleted, h)
	})
}

// ReplaySince makes a webhook send again all that happened since a moment, as far as it is kept.
func (w *Webhooks) ReplaySince(ctx context.Context, who drive.Who, id ID, since time.Time) (h Hook, err error) {
	if h, err = w.Find(ctx, who, id); err != nil {
		return Hook{}, err
	}
	before, err := w.parts.Log.Before(ctx, w.parts.DB, h.Account, drive.TimeOf(since))
	if err != nil {
		return Hook{}, err
	}
	err = w.write(ctx, who, h.Account, func(ctx context.Context, tx *sqldb.Tx) error {
		if h, err = findToChange(ctx, tx, id); err != nil {
			return err
		}
		h.Position, h.Failures, h.NotBefore, h.Updated = min(h.Position, before), 0, 0, w.now()
		_, err := tx.Exec(ctx, "UPDATE webhooks SET position = ?, failures = 0, not_before = 0, updated_at = ? WHERE id = ?", int64(h.Position), h.Updated, id)
		return err
	})
	return h, err
}

// Forget deletes the webhooks of an account.
func (w *Webhooks) Forget(ctx context.Context, tx *sqldb.Tx, account drive.AccountID) error {
	_, err := tx.Exec(ctx, "DELETE FROM webhooks WHERE account_id = ?", account)
	return err
}
