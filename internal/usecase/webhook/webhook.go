package webhook

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/activity"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/domain/vault"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Parts are the components that Webhooks uses.
type Parts struct {
	DB     *sqldb.DB
	Log    *activity.Log
	Access *access.Access
	Tree   *tree.Tree
	Ledger quota.Ledger
	Vault  *vault.Vault // encrypts the secrets
}

// Options configures New. Source and Transport are required; the zero value of each other field
// selects its default.
type Options struct {
	Source    string            // of every event: "smartdrive/<installation id>"
	Transport http.RoundTripper // must refuse forbidden addresses
	Now       func() time.Time  // default time.Now
	Log       *slog.Logger      // default slog.Default
	// Refuses reports whether Transport refuses to connect to a host. Default: no host is refused.
	Refuses func(ctx context.Context, host string) bool
	// Timeout bounds one attempt. Default: 10 s.
	Timeout time.Duration
	// OnDisabled is called in the transaction that disables a webhook automatically. Default: no
	// call.
	OnDisabled func(ctx context.Context, tx *sqldb.Tx, h Hook) error
}

// Webhooks manages webhooks and delivers to them. It is safe for concurrent use.
type Webhooks struct {
	parts   Parts
	opt     Options
	client  *http.Client
	limiter limiter
	cursor  dueHook // last webhook that Run's polls have seen; zero: start at the first

	contextAfterCancel func(context.Context) context.Context // returns the context for writes after ctx has ended
}

// New returns a Webhooks with defaults for the zero fields of opt. It does no I/O and starts no
// goroutine.
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
	if opt.Refuses == nil {
		opt.Refuses = func(context.Context, string) bool { return false }
	}
	if opt.OnDisabled == nil {
		opt.OnDisabled = func(context.Context, *sqldb.Tx, Hook) error { return nil }
	}
	settleLate := context.WithoutCancel
	noRedirect := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Webhooks{
		parts: parts, opt: opt, limiter: newLimiter(),
		contextAfterCancel: settleLate,
		client:             &http.Client{Transport: opt.Transport, Timeout: opt.Timeout, CheckRedirect: noRedirect},
	}
}

// now returns the current time of Options.Now.
func (w *Webhooks) now() drive.Time { return drive.TimeOf(w.opt.Now()) }

// ID identifies a webhook.
type ID = drive.ID[idTag]

// idTag makes ID a type of its own; it has no values.
type idTag struct{}

// State tells whether events are sent to a webhook.
type State string

// The states.
const (
	Active   State = "active"
	Disabled State = "disabled"
)

// Reason is why a webhook was disabled; empty: by a user.
type Reason string

// The reasons.
const (
	Failing   Reason = "failing" // for three days
	RightLost Reason = "right"   // its user lost the right to manage it
	NoSecret  Reason = "secret"  // its secret cannot be decrypted, because the key is lost
	Gone      Reason = "gone"    // the receiver responded with 410
)

// Hook is a webhook as stored in the database: where events are sent, and how far.
type Hook struct {
	ID           ID
	Account      drive.AccountID
	User         drive.UserID
	Name         string
	URL          string
	Types        []string // verbs or prefixes; none: see activity.SentToWebhook
	State        State
	Reason       Reason
	Position     activity.Position // last settled entry
	Skipped      int64             // entries skipped because they were rejected
	Failures     int64             // consecutive failed attempts
	FailingSince drive.Time        // start of the failures; zero: not failing
	NotBefore    drive.Time        // time of the next retry
	Status       int64             // HTTP status of the last attempt; 0: none yet, or no response
	Error        string            // problem code of the last failure; empty: none
	Sent         drive.Time        // time of the last attempt; zero: none yet
	Created      drive.Time
	Updated      drive.Time

	// OldSecretUntil is until when requests are also signed with the previous secret; zero: they
	// are not.
	OldSecretUntil drive.Time

	Secret    string // only set in the results of Create and Rotate
	oldSecret string
	sealed    string
	oldSealed string

	turnEnd drive.Time // end of the running turn
}

// columns lists the columns of webhooks in the order of scanHook and insert.
const columns = `id, account_id, user_id, name, url, secret, types, state, reason, position, skipped, failures, failing_since, not_before,
	status, error, sent_at, created_at, updated_at, old_secret, old_until`

// scanHook reads a row of columns into h by calling scan, whose error it returns. The secrets stay
// sealed.
func scanHook(h *Hook, scan func(...any) error) error {
	var types string
	err := scan(&h.ID, &h.Account, &h.User, &h.Name, &h.URL, &h.sealed, &types, &h.State, &h.Reason, &h.Position, &h.Skipped, &h.Failures,
		&h.FailingSince, &h.NotBefore, &h.Status, &h.Error, &h.Sent, &h.Created, &h.Updated, &h.oldSealed, &h.OldSecretUntil)
	if types != "" {
		h.Types = strings.Split(types, ",")
	}
	return err
}

const (
	maxHooks = 100  // per account
	maxURL   = 2000 // bytes
	maxName  = 200  // bytes
	// maxTypes is the largest number of types of a webhook.
	maxTypes = 32

	secretBytes = 32 // Standard Webhooks: 24 to 64
	// secretPrefix begins the text form of a secret.
	secretPrefix = "whsec_"
)

// HookChange describes a new webhook or a change of one; a nil field stays unchanged.
type HookChange struct {
	Place string // of a new one: a space; empty: the caller's own drive
	Name  *string
	URL   *string
	Types *[]string
	State *State // ignored by Create
}

// CommitHook runs at the end of the transaction of Create or Rotate, for example to store an
// idempotency key. An error rolls it back.
type CommitHook func(ctx context.Context, tx *sqldb.Tx, h Hook) error

// Create creates a webhook that is sent all entries from now on. Its secret is in the result and
// never shown again. The caller must own the drive or manage the space. keep runs at the end of the
// transaction; nil: nothing. It fails with NotFound, Forbidden, BadRequest for a missing or invalid
// URL, name or type, and TooManyOpen.
func (w *Webhooks) Create(ctx context.Context, who drive.Who, in HookChange, keep CommitHook) (h Hook, err error) {
	account, err := w.authorizePlace(ctx, who, in.Place)
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
		return Hook{}, drive.BadField("url", drive.Required)
	}
	if err := w.checkHost(ctx, h.URL); err != nil {
		return Hook{}, err
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
		if h.sealed, err = w.parts.Vault.Seal(ctx, tx, h.vaultRow(), h.Secret); err != nil {
			return err
		}
		if h.Position, err = w.parts.Log.Head(ctx, tx, account); err != nil {
			return err
		}
		if err := insert(ctx, tx, h); err != nil {
			return err
		}
		if err := w.record(tx, activity.WebhookCreated, h); err != nil || keep == nil {
			return err
		}
		return keep(ctx, tx, h)
	})
	return h, err
}

// checkHost returns BadRequest if events cannot be sent to the host of address, a valid URL. The
// host of a name may change, so each attempt checks it again.
func (w *Webhooks) checkHost(ctx context.Context, address string) error {
	u, err := url.Parse(address)
	if err == nil && w.opt.Refuses(ctx, u.Hostname()) {
		return drive.BadField("url", drive.NotAllowed, "allowed", []string{"public addresses of other machines"}, "sent", u.Hostname())
	}
	return nil
}

// insert inserts the row of a new webhook within tx, with the sealed secrets of h.
func insert(ctx context.Context, tx *sqldb.Tx, h Hook) error {
	_, err := tx.Exec(ctx, "INSERT INTO webhooks ("+columns+") VALUES ("+sqldb.Placeholders(21)+")", h.ID, h.Account, h.User, h.Name, h.URL, h.sealed,
		strings.Join(h.Types, ","), h.State, h.Reason, int64(h.Position), h.Skipped, h.Failures, h.FailingSince, h.NotBefore, h.Status, h.Error,
		h.Sent, h.Created, h.Updated, h.oldSealed, h.OldSecretUntil)
	if err != nil {
		return fmt.Errorf("insert webhook %s: %w", h.ID, err)
	}
	return nil
}

// Label returns the name of the webhook, or else the host of its URL.
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

// vaultRow returns the context that the encrypted secret is bound to.
func (h Hook) vaultRow() string { return "webhook " + h.ID.String() }

// record records within tx a change of a webhook as activity of its account.
func (w *Webhooks) record(tx *sqldb.Tx, verb activity.Verb, h Hook) error {
	return w.parts.Log.Record(tx, activity.Entry{Account: h.Account, Verb: verb, Name: h.Name}, map[string]any{"webhook": h.ID, "reason": h.Reason})
}

// apply validates the fields of in that are set and applies them to h in place. It returns
// BadRequest for an invalid field; h may be partly changed then.
func (h *Hook) apply(in HookChange) error {
	if in.Name != nil {
		if h.Name = strings.ToValidUTF8(*in.Name, ""); len(h.Name) > maxName {
			return drive.BadField("name", drive.TooLong, "limit", maxName, "sent", len(h.Name))
		}
	}
	if in.URL != nil {
		u, err := url.Parse(*in.URL)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil || len(*in.URL) > maxURL {
			return drive.BadField("url", drive.Malformed, "expected", "an http or https address without a user, of at most 2000 bytes")
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
			return drive.BadField("state", drive.NotAllowed, "allowed", []State{Active, Disabled}, "sent", *in.State)
		}
	}
	return nil
}

// checkTypes returns BadRequest if a type matches no verb, or for more than maxTypes.
func checkTypes(types []string) error {
	if len(types) > maxTypes {
		return drive.BadField("types", drive.TooLong, "limit", maxTypes, "sent", len(types))
	}
	for _, t := range types {
		known := false
		for _, v := range activity.Verbs() {
			known = known || activity.Matches(v, []string{t})
		}
		if !known {
			return drive.BadField("types", drive.NotAllowed, "allowed", activity.Verbs(), "sent", t)
		}
	}
	return nil
}

// authorizePlace returns the account of a place whose webhooks the caller may manage; "" is the
// caller's own drive. It fails with NotFound or Forbidden.
func (w *Webhooks) authorizePlace(ctx context.Context, who drive.Who, place string) (drive.AccountID, error) {
	if place == "" {
		return who.Account, nil
	}
	to, err := w.parts.Access.Find(ctx, w.parts.DB, who, drive.Address{Place: place})
	if err != nil {
		return drive.AccountID{}, err
	}
	return to.Account, w.authorizeAccount(ctx, who, to.Account)
}

// authorizeAccount checks that the caller may manage webhooks of an account: its owner, or a
// manager of the space. It fails with NotFound or Forbidden.
func (w *Webhooks) authorizeAccount(ctx context.Context, who drive.Who, account drive.AccountID) error {
	if who.Account == account {
		return nil
	}
	root, err := w.parts.Tree.Root(ctx, w.parts.DB, account)
	if err == nil {
		_, err = w.parts.Access.Enter(ctx, w.parts.DB, who, root, access.SetAccess)
	}
	return err
}

// write runs fn in a transaction that holds the lock on the account's ledger. fn may run several
// times; its error rolls back and is returned.
func (w *Webhooks) write(ctx context.Context, who drive.Who, account drive.AccountID, fn func(context.Context, *sqldb.Tx) error) error {
	return w.parts.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.SetActor(who)
		if err := w.parts.Ledger.Lock(ctx, tx, account); err != nil {
			return err
		}
		return fn(ctx, tx)
	})
}

// Find returns a webhook, without its secret, that the caller may manage. It returns NotFound for
// others.
func (w *Webhooks) Find(ctx context.Context, who drive.Who, id ID) (Hook, error) {
	h, err := find(ctx, w.parts.DB, id)
	if err == nil {
		err = w.authorizeAccount(ctx, who, h.Account)
	}
	if drive.IsKind(err, drive.Forbidden) { // a member who must not learn of it
		err = drive.Fail(drive.NotFound)
	}
	return h, err
}

// find returns a webhook of any account, or NotFound.
func find(ctx context.Context, q sqldb.Querier, id ID) (h Hook, err error) {
	err = scanHook(&h, q.QueryRow(ctx, "SELECT "+columns+" FROM webhooks WHERE id = ?", id).Scan)
	return h, err
}

// findForUpdate reads a webhook and locks its row until tx ends. A transaction that writes back
// what it read needs the row lock: deliveries store their results in the row without the ledger
// lock.
func findForUpdate(ctx context.Context, tx *sqldb.Tx, id ID) (h Hook, err error) {
	err = scanHook(&h, tx.QueryRow(ctx, "SELECT "+columns+" FROM webhooks WHERE id = ?"+tx.ForUpdate(), id).Scan)
	return h, err
}

// List returns the webhooks of a place by id, maxHooks at most. It fails with NotFound or Forbidden
// unless the caller may manage the webhooks of the place.
func (w *Webhooks) List(ctx context.Context, who drive.Who, place string) ([]Hook, error) {
	account, err := w.authorizePlace(ctx, who, place)
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

// Change changes a webhook. The caller becomes responsible for it if it is activated or its URL
// changes. An activated webhook continues at its position. It fails with NotFound, and with
// BadRequest for an invalid URL, name, type or state.
func (w *Webhooks) Change(ctx context.Context, who drive.Who, id ID, in HookChange) (h Hook, err error) {
	if h, err = w.Find(ctx, who, id); err != nil {
		return Hook{}, err
	}
	if in.URL != nil && *in.URL != h.URL {
		if err := w.checkHost(ctx, *in.URL); err != nil {
			return Hook{}, err
		}
	}
	err = w.write(ctx, who, h.Account, func(ctx context.Context, tx *sqldb.Tx) error {
		if h, err = findForUpdate(ctx, tx, id); err != nil {
			return err
		}
		was := h
		if err := h.apply(in); err != nil {
			return err
		}
		if in.State != nil && *in.State == Active || in.URL != nil {
			h.Failures, h.FailingSince, h.NotBefore = 0, 0, 0
			h.User = who.User // responsible from now on
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
		return w.record(tx, activity.WebhookChanged, h)
	})
	return h, err
}

// Delete deletes a webhook and records this as activity. A delivery that is running may still end.
// It returns NotFound if the webhook does not exist or the caller may not manage it.
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
		return w.record(tx, activity.WebhookDeleted, h)
	})
}

// Replay moves the position of a webhook back, so that all entries since the given time are sent
// again, as far as they are retained. It never moves the position forward. It fails with NotFound
// if the caller may not manage the webhook.
func (w *Webhooks) Replay(ctx context.Context, who drive.Who, id ID, since time.Time) (h Hook, err error) {
	if h, err = w.Find(ctx, who, id); err != nil {
		return Hook{}, err
	}
	before, err := w.parts.Log.PositionBefore(ctx, w.parts.DB, h.Account, drive.TimeOf(since))
	if err != nil {
		return Hook{}, err
	}
	err = w.write(ctx, who, h.Account, func(ctx context.Context, tx *sqldb.Tx) error {
		if h, err = findForUpdate(ctx, tx, id); err != nil {
			return err
		}
		h.Position, h.Failures, h.NotBefore, h.Updated = min(h.Position, before), 0, 0, w.now()
		_, err := tx.Exec(ctx, "UPDATE webhooks SET position = ?, failures = 0, not_before = 0, updated_at = ? WHERE id = ?", int64(h.Position), h.Updated, id)
		return err
	})
	return h, err
}

// DeleteAccount deletes the webhooks of an account within tx. It records no activity.
func (w *Webhooks) DeleteAccount(ctx context.Context, tx *sqldb.Tx, account drive.AccountID) error {
	_, err := tx.Exec(ctx, "DELETE FROM webhooks WHERE account_id = ?", account)
	return err
}
