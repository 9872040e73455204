package app

import (
	"bytes"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"example.org/smartdrive/internal/base/config"
	"example.org/smartdrive/internal/head/rest"
	"example.org/smartdrive/internal/move/migrate"
)

// What comes out of a move must be an installation that can be started; what cannot is refused in
// words.
func TestMigrationTargetMustBeStartable(t *testing.T) {
	t.Parallel()
	const db, s3 = "mysql://u:p@h/d", "s3://k:s@h/b redis://r/1"
	embedded := config.Config{Data: "/srv/a", Blobs: "/srv/a"}
	single := embedded
	single.MySQL = &config.MySQL{}
	shared := single
	shared.S3, shared.Redis = &config.S3{Endpoint: "h", Bucket: "old"}, &config.Redis{Addrs: []string{"r:6379"}}
	for name, c := range map[string]struct {
		from config.Config
		req  migrate.Request
		why  string // part of the refusal; empty: it can be done
	}{
		"to a cluster":                    {embedded, migrate.Request{ToDB: db, ToBlobs: s3}, ""},
		"rows alone":                      {embedded, migrate.Request{ToDB: db}, ""},
		"to another directory":            {embedded, migrate.Request{ToBlobs: "/srv/b"}, ""},
		"contents of a single":            {single, migrate.Request{ToBlobs: s3}, ""},
		"back":                            {shared, migrate.Request{ToDB: "/srv/b/smartdrive.db", ToBlobs: "/srv/b"}, ""},
		"to another bucket":               {shared, migrate.Request{ToBlobs: s3}, ""},
		"a bucket beside SQLite":          {embedded, migrate.Request{ToBlobs: s3}, "--db is missing"},
		"a bucket without Redis":          {embedded, migrate.Request{ToDB: db, ToBlobs: "s3://k:s@h/b"}, "journal"},
		"SQLite beside a bucket":          {shared, migrate.Request{ToDB: "/srv/b/smartdrive.db"}, "--db is missing"},
		"the same directory":              {embedded, migrate.Request{ToBlobs: "/srv/a/"}, "already"},
		"two buckets' journals in one db": {shared, migrate.Request{ToBlobs: "s3://k:s@h/b redis://r"}, "journals"},
	} {
		a := &mover{cfg: c.from}
		g := a.checkMode(c.req)
		if g.OK != (c.why == "") || !strings.Contains(g.Detail, c.why) {
			t.Errorf("%s: %v %q, want %q", name, g.OK, g.Detail, c.why)
		}
	}
}

func TestNewSettingsAreSaidWithoutSecrets(t *testing.T) {
	t.Parallel()
	for want, c := range map[string][2]string{
		"--db mysql://u@h/d --blobs s3://k@h/b --redis redis://r/1": {"mysql://u@h/d", "s3://k:hidden@h/b redis://r/1"},
		"--data /srv/b and without --db --blobs /srv/b":             {"/srv/b/smartdrive.db", "/srv/b"},
	} {
		if got := newSettings(c[0], c[1]); !strings.HasPrefix(got, want) || strings.Contains(got, "hidden") {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Contents alone go to phase 4 and all the way back. What was stored there meanwhile, and waits to
// be brought back, keeps the move from being given up.
func TestContentsMigrationRollsBack(t *testing.T) {
	t.Setenv("SMARTDRIVE_ADMIN_PASSWORD", clusterPassword)
	n := start1(t, testConfig(t))
	token := n.login(t)
	fresh := filepath.Join(t.TempDir(), "fresh")
	before, alone := []byte("written before"), bytes.Repeat([]byte("0123456789abcdef"), 3<<16)
	upload2(t, []*node{n}, token, "/before", before)
	n.move(t, rest.MigrationStart{ToBlobs: fresh})
	for phase := range 3 {
		n.step(t, token, "/advance", fmt.Sprintf(`{"phase":%d}`, phase+1))
	}
	n.step(t, token, "/rate", `{"bytes_per_second":1}`)
	upload2(t, []*node{n}, token, "/alone", alone)
	for phase := 4; phase > 1; phase-- {
		n.step(t, token, "/rollback", fmt.Sprintf(`{"phase":%d}`, phase))
	}
	code, answer := n.send(t, token, http.MethodPost, "/api/v1/admin/migration/rollback", []byte(`{}`))
	if code != http.StatusConflict || !bytes.Contains(answer, []byte("wait to be copied to")) {
		t.Errorf("it is given up although contents are at the new place alone: %d %s", code, answer)
	}
	n.step(t, token, "/rate", `{"bytes_per_second":0}`)
	n.step(t, token, "/rollback", `{"phase":1}`)
	rename(t, fresh, fresh+".away")
	n.holds(t, token, "/before", before)
	n.holds(t, token, "/alone", alone)
}

// After a migration of contents only, a process with the old settings refuses to start: it would
// write to the old store.
func TestOldSettingsAreRefusedAfterMigration(t *testing.T) {
	t.Setenv("SMARTDRIVE_ADMIN_PASSWORD", clusterPassword)
	cfg := testConfig(t)
	n := start1(t, cfg)
	token := n.login(t)
	fresh := filepath.Join(t.TempDir(), "fresh")
	n.move(t, rest.MigrationStart{ToBlobs: fresh})
	for phase := range 3 {
		n.step(t, token, "/advance", fmt.Sprintf(`{"phase":%d}`, phase+1))
	}
	n.step(t, token, "/finish", "{}")
	content := []byte("at the new place alone")
	upload2(t, []*node{n}, token, "/alone", content)
	code, answer := n.send(t, token, http.MethodPost, "/api/v1/admin/migration/drop", []byte(`{}`))
	if code != http.StatusConflict || !bytes.Contains(answer, []byte("old settings")) {
		t.Errorf("it is forgotten by a process with the old settings: %d %s", code, answer)
	}
	n.stop()

	cfg.Blobs = fresh
	n = start1(t, cfg)
	n.step(t, token, "/drop", "{}")
	n.holds(t, token, "/alone", content)
}
