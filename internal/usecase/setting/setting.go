// Package setting holds the settings that administrators change while the server runs. What the
// operator has given as a flag, a variable or in the file stays as it is: nobody overrides it from
// the network. See decision 105.
package setting

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"smartdrive/internal/base/config"
	"smartdrive/internal/base/drive"
	"smartdrive/internal/base/telemetry"
	"smartdrive/internal/domain/account"
	"smartdrive/internal/domain/activity"
	"smartdrive/internal/domain/quota"
	"smartdrive/internal/engine/sqldb"
)

// lookEvery is how long a change takes at most to reach the other instances.
const lookEvery = 5 * time.Second

// Setting is a setting and where its value comes from.
type Setting struct {
	Name      string      `json:"name" doc:"that of the flag, without the dashes"`
	Value     string      `json:"value" doc:"as it would be written in the flag; empty: not set"`
	Default   string      `json:"default" doc:"what it is where nobody has said anything; empty: not set"`
	Expected  string      `json:"expected" doc:"what a value is, in words"`
	Help      string      `json:"help" doc:"what it does"`
	Fixed     bool        `json:"fixed" doc:"the server was started with it: it can be changed there alone"`
	ChangedAt *drive.Time `json:"changed_at" doc:"when an administrator changed it; null: nobody has"`
	ChangedBy *string     `json:"changed_by" doc:"name of that administrator at that time"`
}

// Live is the configuration of a server as it is. It is safe for concurrent use.
type Live struct {
	started config.Config
	now     atomic.Pointer[config.Config]
}

// NewLive returns the configuration that a server was started with, which Settings change.
func NewLive(started config.Config) *Live {
	l := &Live{started: started}
	l.now.Store(&started)
	return l
}

// Now returns the configuration. It asks nobody, and is not to be changed.
func (l *Live) Now() *config.Config { return l.now.Load() }

// Settings are those of an installation, as an instance that was started with some of them sees
// them. It is safe for concurrent use.
type Settings struct {
	*Live

	db      *sqldb.DB
	users   *account.Users
	log     *slog.Logger
	noted   *activity.Log
	ledger  quota.Ledger
	clock   func() time.Time
	changed func(*config.Config)

	reading sync.Mutex // of two readings the later one counts
	refused string     // the name of a value in the database that this version does not take; under reading
}

// Parts are what the settings are composed of.
type Parts struct {
	DB    *sqldb.DB
	Users *account.Users
	Live  *Live
	Log   *slog.Logger
	Now   func() time.Time // default: time.Now
	// Activity is told who has changed what. Nil: nothing is noted.
	Activity *activity.Log
	// Changed is called with the configuration whenever it was read. Default: nobody is.
	Changed func(*config.Config)
}

// New returns the settings of an installation; Refresh reads what administrators have changed.
func New(p Parts) *Settings {
	if p.Now == nil {
		p.Now = time.Now
	}
	if p.Changed == nil {
		p.Changed = func(*config.Config) {}
	}
	return &Settings{Live: p.Live, db: p.DB, users: p.Users, log: p.Log, noted: p.Activity, clock: p.Now, changed: p.Changed}
}

// Run reads again every few seconds what administrators have changed, here or at another instance,
// until ctx is done.
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

// Refresh reads what administrators have changed. A value that this version does not take is left
// out: an older or newer one has written it.
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
				s.log.WarnContext(ctx, "a setting in the database is not one of this version", "setting", change.Name, telemetry.KeyError, err)
			}
			continue
		}
		c = with
	}
	s.now.Store(&c)
	s.changed(&c)
	return nil
}

// changes returns what administrators have changed, by name.
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

// List returns all settings that can be changed while the server runs, in the order of the help.
// Administrators may.
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

// Set changes a setting: at once here, within seconds at other instances. To set what is set
// already changes nothing. Administrators may.
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
	s.soon(ctx)
	return one, nil
}

// note writes into the administrator's activity what a setting is now, and what it was. Whoever
// changes it on the machine itself has no account, and so no activity: the log of the process has
// it.
func (s *Settings) note(ctx context.Context, tx *sqldb.Tx, who drive.Who, now Setting, was string) error {
	if who.Account.IsZero() {
		return nil
	}
	if err := s.ledger.Lock(ctx, tx, who.Account); err != nil {
		return err
	}
	return s.noted.Record(tx, activity.Entry{Account: who.Account, By: who, Verb: activity.SettingChanged, Name: now.Name},
		map[string]any{"value": noted(now.Value), "was": noted(was)})
}

// noted is what of a value is noted: an entry has room for 2 KiB.
func noted(value string) string {
	const most = 300 // bytes, each of which may become six in JSON
	if len(value) > most {
		return strings.ToValidUTF8(value[:most], "") + "…"
	}
	return value
}

// soon reads what was changed here. It was changed: if it cannot be read, Run does so soon.
func (s *Settings) soon(ctx context.Context) {
	if err := s.Refresh(ctx); err != nil {
		s.log.WarnContext(ctx, "the settings could not be read after a change", telemetry.KeyError, err)
	}
}

// Reset takes back what administrators have changed about a setting: it is its default again. It
// may be repeated. Administrators may.
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
	s.soon(ctx)
	return one, nil
}

// changeable returns a setting that can be changed.
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
