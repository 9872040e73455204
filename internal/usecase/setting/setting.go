// Package setting holds the settings that administrators change while the server runs. A setting
// that the operator fixes by a flag, an environment variable or the configuration file cannot be
// changed over the network. See decision 105.
package setting

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"example.org/smartdrive/internal/base/config"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/base/telemetry"
	"example.org/smartdrive/internal/domain/account"
	"example.org/smartdrive/internal/domain/activity"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/engine/sqldb"
)

// lookEvery bounds how long a change takes to reach the other instances.
const lookEvery = 5 * time.Second

// Setting is a setting with its current value and the origin of the value.
type Setting struct {
	Name      string      `json:"name" doc:"name of the command-line flag, without dashes"`
	Value     string      `json:"value" doc:"value in the syntax of the command-line flag; empty: not set"`
	Default   string      `json:"default" doc:"default value; empty: not set"`
	Expected  string      `json:"expected" doc:"description of valid values"`
	Help      string      `json:"help" doc:"description of the setting"`
	Fixed     bool        `json:"fixed" doc:"true: set by flag, variable or file when the server started, and cannot be changed here"`
	ChangedAt *drive.Time `json:"changed_at" doc:"when an administrator changed it; null: never"`
	ChangedBy *string     `json:"changed_by" doc:"name of that administrator at the time"`
}

// Live is the current configuration of a running server. It is safe for concurrent use.
type Live struct {
	started config.Config
	now     atomic.Pointer[config.Config]
}

// NewLive returns a Live that holds the configuration the server was started with. Settings update
// it.
func NewLive(started config.Config) *Live {
	l := &Live{started: started}
	l.now.Store(&started)
	return l
}

// Now returns the current configuration without I/O. The caller must not modify it.
func (l *Live) Now() *config.Config { return l.now.Load() }

// Settings reads and changes the settings in the database. It is safe for concurrent use.
type Settings struct {
	*Live

	db      *sqldb.DB
	users   *account.Users
	log     *slog.Logger
	noted   *activity.Log
	ledger  quota.Ledger
	clock   func() time.Time
	changed func(*config.Config)

	reading sync.Mutex // held by Refresh, so that an older result never replaces a newer one
	refused string     // name of the last setting that Refresh skipped; logged once; guarded by reading
}

// Parts are the dependencies of Settings. Activity and Changed are optional.
type Parts struct {
	DB    *sqldb.DB
	Users *account.Users
	Live  *Live
	Log   *slog.Logger
	Now   func() time.Time // default: time.Now
	// Activity records who changed which setting. Nil: nothing is recorded.
	Activity *activity.Log
	// Changed is called with the configuration after every read. Optional.
	Changed func(*config.Config)
}

// New returns Settings; call Refresh to load the changes of administrators.
func New(p Parts) *Settings {
	if p.Now == nil {
		p.Now = time.Now
	}
	if p.Changed == nil {
		p.Changed = func(*config.Config) {}
	}
	return &Settings{Live: p.Live, db: p.DB, users: p.Users, log: p.Log, noted: p.Activity, clock: p.Now, changed: p.Changed}
}

// Run calls Refresh every few seconds until ctx is done, and returns nil.
func (s *Settings) Run(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var outage telemetry.Outage
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		outage.Record(ctx, s.log, "the settings could not be read; they stay as they are", s.Refresh(ctx))
	}
}

// Refresh loads the changed settings from the database into Live and calls Parts.Changed. It skips
// a value that this version rejects, because an older or newer version may have written it. After
// an error Live stays as it was.
func (s *Settings) Refresh(ctx context.Context) error {
	s.reading.Lock()
	defer s.reading.Unlock()
	changes, err := s.changes(ctx)
	if err != nil {
		return err
	}
	c := s.started
	for _, change := range changes {
		with, err := c.With(change.Name, change.Value)
		if err != nil {
			if s.refused != change.Name {
				s.refused = change.Name
				s.log.WarnContext(ctx, "a setting in the database is not valid in this version; this instance ignores it", "setting", change.Name, telemetry.KeyError, err)
			}
			continue
		}
		c = with
	}
	s.now.Store(&c)
	s.changed(&c)
	return nil
}

// changes returns the rows of changed settings by name. Only Name, Value, ChangedAt and ChangedBy
// are set.
func (s *Settings) changes(ctx context.Context) ([]Setting, error) {
	rows, err := s.db.Query(ctx, "SELECT name, value, changed_at, changed_by FROM settings ORDER BY name")
	all, err := sqldb.Scan(rows, err, func(c *Setting, scan func(...any) error) error {
		return scan(&c.Name, &c.Value, &c.ChangedAt, &c.ChangedBy)
	})
	if err != nil {
		return nil, fmt.Errorf("read the settings: %w", err)
	}
	return all, nil
}

// List returns all settings that can change while the server runs, in the order of the help. It
// fails with Forbidden if the caller is not an administrator.
func (s *Settings) List(ctx context.Context, who drive.Who) ([]Setting, error) {
	if !who.Admin {
		return nil, drive.Fail(drive.Forbidden)
	}
	changes, err := s.changes(ctx)
	if err != nil {
		return nil, err
	}
	changed := map[string]Setting{}
	for _, c := range changes {
		changed[c.Name] = c
	}
	var all []Setting
	for _, l := range s.started.LiveSettings() {
		one := Setting{Name: l.Name, Value: l.Default, Default: l.Default, Expected: l.Form, Help: l.Help}
		if c, ok := changed[l.Name]; ok {
			one.Value, one.ChangedAt, one.ChangedBy = c.Value, c.ChangedAt, c.ChangedBy
		}
		if l.Given != nil {
			one.Value, one.Fixed, one.ChangedAt, one.ChangedBy = *l.Given, true, nil, nil
		}
		all = append(all, one)
	}
	return all, nil
}

// Set changes a setting, at once here and within seconds on other instances. Setting the current
// value again changes nothing. It fails with Forbidden if the caller is not an administrator, with
// NotFound, with WrongState {state: fixed} if the server was started with the setting, and with
// BadRequest for a malformed value.
func (s *Settings) Set(ctx context.Context, who drive.Who, name, value string) (Setting, error) {
	one, err := s.changeable(ctx, who, name)
	if err != nil {
		return Setting{}, err
	}
	value = strings.TrimSpace(value)
	if _, err := s.started.With(name, value); err != nil {
		return Setting{}, drive.BadField("value", drive.Malformed, "expected", one.Expected)
	}
	if one.ChangedAt != nil && one.Value == value {
		return one, nil
	}
	names, err := s.users.Names(ctx, s.db, who.User)
	if err != nil {
		return Setting{}, err
	}
	at, was := drive.TimeOf(s.clock()), one.Value
	one.Value, one.ChangedAt, one.ChangedBy = value, &at, nil
	if by, ok := names[who.User]; ok {
		one.ChangedBy = &by
	}
	err = s.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if _, err := tx.Exec(ctx, "DELETE FROM settings WHERE name = ?", name); err != nil {
			return fmt.Errorf("change the setting %s: %w", name, err)
		}
		_, err := tx.Exec(ctx, "INSERT INTO settings (name, value, changed_at, changed_by) VALUES (?, ?, ?, ?)", name, value, at, one.ChangedBy)
		if err != nil {
			return fmt.Errorf("change the setting %s: %w", name, err)
		}
		return s.note(ctx, tx, who, one, was)
	})
	if err != nil {
		return Setting{}, err
	}
	s.log.InfoContext(ctx, "a setting was changed", "setting", name, "value", value, telemetry.KeyUser, who.User)
	s.applyNow(ctx)
	return one, nil
}

// note records the new and the old value in the administrator's activity. A caller on the server's
// machine has no account; for such a caller only the process log records the change.
func (s *Settings) note(ctx context.Context, tx *sqldb.Tx, who drive.Who, now Setting, was string) error {
	if who.Account.IsZero() {
		return nil
	}
	if err := s.ledger.Lock(ctx, tx, who.Account); err != nil {
		return err
	}
	return s.noted.Record(tx, activity.Entry{Account: who.Account, By: who, Verb: activity.SettingChanged, Name: now.Name},
		map[string]any{"value": shortenValue(now.Value), "was": shortenValue(was)})
}

// shortenValue shortens a value for an activity entry, which holds 2 KiB.
func shortenValue(value string) string {
	const most = 300 // JSON escaping may make six of each
	if len(value) > most {
		return strings.ToValidUTF8(value[:most], "") + "…"
	}
	return value
}

// applyNow reads the settings and applies a change on this instance at once. If reading fails, Run
// retries within lookEvery.
func (s *Settings) applyNow(ctx context.Context) {
	if err := s.Refresh(ctx); err != nil {
		s.log.WarnContext(ctx, "the settings could not be read after a change; retried within seconds", telemetry.KeyError, err)
	}
}

// Reset restores the default of a setting and returns it. It is idempotent. It fails with Forbidden
// if the caller is not an administrator, with NotFound, and with WrongState {state: fixed} if the
// server was started with the setting.
func (s *Settings) Reset(ctx context.Context, who drive.Who, name string) (Setting, error) {
	one, err := s.changeable(ctx, who, name)
	if err != nil || one.ChangedAt == nil {
		return one, err
	}
	err = s.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if _, err := tx.Exec(ctx, "DELETE FROM settings WHERE name = ?", name); err != nil {
			return fmt.Errorf("reset the setting %s: %w", name, err)
		}
		now := one
		now.Value = one.Default
		return s.note(ctx, tx, who, now, one.Value)
	})
	if err != nil {
		return Setting{}, err
	}
	one.Value, one.ChangedAt, one.ChangedBy = one.Default, nil, nil
	s.log.InfoContext(ctx, "a setting has its default again", "setting", name, telemetry.KeyUser, who.User)
	s.applyNow(ctx)
	return one, nil
}

// changeable returns a setting. It fails with Forbidden, NotFound, or WrongState if it is fixed.
func (s *Settings) changeable(ctx context.Context, who drive.Who, name string) (Setting, error) {
	all, err := s.List(ctx, who)
	if err != nil {
		return Setting{}, err
	}
	for _, one := range all {
		switch {
		case one.Name != name:
		case one.Fixed:
			return Setting{}, drive.Fail(drive.WrongState, "setting", name, "state", "fixed")
		default:
			return one, nil
		}
	}
	return Setting{}, drive.Fail(drive.NotFound)
}
