package setting_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"example.org/smartdrive/internal/base/config"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/account"
	"example.org/smartdrive/internal/domain/activity"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/usecase/setting"
)

var admin = drive.Who{Admin: true}

// started returns the configuration of a server started with args.
func started(t *testing.T, args ...string) config.Config {
	t.Helper()
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	config.AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(flags, []string{"HOME=/home/ann"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// instance returns the settings of a server that uses the given database.
func instance(t *testing.T, db *sqldb.DB, args ...string) *setting.Settings {
	t.Helper()
	auth := account.NewAuth(db, account.Options{})
	s := setting.New(setting.Parts{
		Activity: activity.New(activity.Options{DB: db}), DB: db, Users: account.NewUsers(db, auth, account.Options{}), Live: setting.NewLive(started(t, args...)), Log: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return time.UnixMilli(1_800_000_000_000) },
	})
	refresh(t, s)
	return s
}

func refresh(t *testing.T, s *setting.Settings) {
	t.Helper()
	if err := s.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func of(t *testing.T, s *setting.Settings, name string) setting.Setting {
	t.Helper()
	all, err := s.List(t.Context(), admin)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		if one.Name == name {
			return one
		}
	}
	t.Fatalf("there is no setting %s", name)
	return setting.Setting{}
}

// TestFlagOverridesStoredSetting: a change applies at once on its own instance, on
// others after their next read, and after a restart. It does not apply to an instance started with
// a value.
func TestFlagOverridesStoredSetting(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t)
	one, other, fixed := instance(t, db), instance(t, db), instance(t, db, "--default-quota=7GiB")
	for range 2 { // a retry after a lost reply
		if _, err := one.Set(t.Context(), admin, "default-quota", " 50GiB "); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := one.Set(t.Context(), admin, "dav-litter", "hide"); err != nil {
		t.Fatal(err)
	}
	if got := *one.Now().DefaultQuota; got != 50*drive.GiB {
		t.Errorf("where it was made: %s", got)
	}
	if got := *other.Now().DefaultQuota; got != 10*drive.GiB {
		t.Errorf("elsewhere before a look: %s", got)
	}
	refresh(t, other)
	refresh(t, fixed)
	for name, s := range map[string]*setting.Settings{"another instance": other, "one that starts": instance(t, db)} {
		if got := s.Now(); *got.DefaultQuota != 50*drive.GiB || got.DAVLitter != config.LitterHide || got.InstantScope != config.InstantInstance {
			t.Errorf("%s: %s, %s", name, got.DefaultQuota, got.DAVLitter)
		}
	}
	if got := fixed.Now(); *got.DefaultQuota != 7*drive.GiB || got.DAVLitter != config.LitterHide {
		t.Errorf("one that was started with it: %s, %s", got.DefaultQuota, got.DAVLitter)
	}
	if got := of(t, fixed, "default-quota"); !got.Fixed || got.Value != "7GiB" || got.ChangedAt != nil {
		t.Errorf("it is shown as %+v", got)
	}
	for name, act := range map[string]func() error{
		"set":   func() error { _, err := fixed.Set(t.Context(), admin, "default-quota", "1GiB"); return err },
		"reset": func() error { _, err := fixed.Reset(t.Context(), admin, "default-quota"); return err },
	} {
		if err := act(); !drive.IsKind(err, drive.WrongState) {
			t.Errorf("%s what is fixed: %v", name, err)
		}
	}
	for range 2 {
		got, err := one.Reset(t.Context(), admin, "default-quota")
		if err != nil || got.Value != "10GiB" || got.ChangedAt != nil {
			t.Errorf("after it was reset: %+v, %v", got, err)
		}
	}
	if got := *one.Now().DefaultQuota; got != 10*drive.GiB {
		t.Errorf("after it was reset: %s", got)
	}
}

func TestInvalidSettingIsRefused(t *testing.T) {
	t.Parallel()
	s := instance(t, sqldbtest.Open(t))
	for name, values := range map[string][]string{
		"default-quota": {"much", ""}, "dav-litter": {"burn", ""}, "instant-scope": {"all"}, "log-level": {"loud"}, "export-hosts": {"http://x/", "a b"},
	} {
		was := of(t, s, name)
		for _, value := range values {
			if _, err := s.Set(t.Context(), admin, name, value); !drive.IsKind(err, drive.BadRequest) {
				t.Errorf("%s %q: %v", name, value, err)
			}
		}
		if got := of(t, s, name); got != was {
			t.Errorf("%s was %+v and is %+v", name, was, got)
		}
	}
	for _, name := range []string{"data", "nothing", ""} { // for the operator only, unknown, empty
		if _, err := s.Set(t.Context(), admin, name, "/tmp"); !drive.IsKind(err, drive.NotFound) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := s.Set(t.Context(), drive.Who{}, "dav-litter", "hide"); !drive.IsKind(err, drive.Forbidden) {
		t.Errorf("by who is no administrator: %v", err)
	}
	if got, err := s.Set(t.Context(), admin, "export-hosts", "docs.example.org, *.example.net"); err != nil || len(s.Now().ExportHosts) != 2 {
		t.Errorf("hosts: %+v, %v", got, err)
	}
}

// TestInvalidStoredSettingIsIgnored: invalid values in the database do not prevent the start.
func TestInvalidStoredSettingIsIgnored(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t)
	err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		for name, value := range map[string]string{"dav-litter": "burn", "colour": "blue", "log-level": "debug"} {
			if _, err := tx.Exec(ctx, "INSERT INTO settings (name, value, changed_at) VALUES (?, ?, 1)", name, value); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := instance(t, db).Now(); got.DAVLitter != config.LitterKeep || got.LogLevel != slog.LevelDebug {
		t.Errorf("litter %s, level %s", got.DAVLitter, got.LogLevel)
	}
}
