package app

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/config"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob/blobtest"
	"example.org/smartdrive/internal/engine/blob/local"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/head/rest"
	"example.org/smartdrive/internal/move/contents"
	"example.org/smartdrive/internal/move/migrate"
	"example.org/smartdrive/internal/usecase/admin"
	"example.org/smartdrive/test/process"
)

// step requests a migration step until its preconditions hold, and returns the resulting status.
func (n *node) step(t *testing.T, token, step, body string) (s migrate.Status) {
	t.Helper()
	process.Eventually(t, patience, step, func() error {
		code, answer := n.send(t, token, http.MethodPost, "/api/v1/admin/migration"+step, []byte(body))
		switch code {
		case http.StatusOK:
			return json.Unmarshal(answer, &s)
		case http.StatusConflict, http.StatusServiceUnavailable:
			return fmt.Errorf("%s", answer)
		}
		t.Fatalf("%s: %d %s", step, code, answer)
		return nil
	})
	return s
}

// move begins a migration through the control socket, as an operator on the machine does.
func (n *node) move(t *testing.T, in rest.MigrationStart) {
	t.Helper()
	if report, err := (moveSteps{n.App.mover, n.App.users}).Start(t.Context(), admin.Local(), in); err != nil || !report.OK {
		t.Fatalf("start: %+v, %v", report, err)
	}
}

func (n *node) migration(t *testing.T, token string) (s migrate.Status) {
	t.Helper()
	code, answer := n.send(t, token, http.MethodGet, "/api/v1/admin/migration", nil)
	if err := json.Unmarshal(answer, &s); err != nil || code != http.StatusOK {
		t.Fatalf("status: %d %s", code, answer)
	}
	return s
}

// An installation moves to another data directory, which lies within the old one, and the old side
// is dropped: nothing of the new one goes.
func TestTheOldSideIsDropped(t *testing.T) {
	t.Setenv("SMARTDRIVE_ADMIN_PASSWORD", clusterPassword)
	old := testConfig(t)
	n := start1(t, old)
	token := n.login(t)
	content := bytes.Repeat([]byte("all work and no play "), 100_000)
	upload2(t, []*node{n}, token, "/kept", content)
	upload2(t, []*node{n}, token, "/deleted", content[:1_000_000])

	fresh := filepath.Join(old.Data, "blobs", "new")
	n.move(t, rest.MigrationStart{ToDB: fresh, ToBlobs: fresh, Rows: 100_000})
	for range 3 {
		n.step(t, token, "/verify", "{}")
		n.step(t, token, "/advance", "{}")
	}
	n.step(t, token, "/verify", "{}")
	n.step(t, token, "/finish", "{}")
	if code, answer := n.send(t, token, http.MethodPost, "/api/v1/admin/migration/drop-old", []byte(`{"early":true}`)); code != http.StatusConflict || !strings.Contains(string(answer), "new settings") {
		t.Errorf("drop-old with the old settings: %d %s", code, answer)
	}
	n.stop()

	cfg := testConfig(t, "--data", fresh)
	n = start1(t, cfg)
	token = n.login(t)
	if code, answer := n.send(t, token, http.MethodDelete, "/api/v1/nodes/"+n.find(t, token, "/deleted")+"?permanent=true", nil); code/100 != 2 {
		t.Errorf("delete: %d %s", code, answer)
	}
	if code, answer := n.send(t, token, http.MethodPost, "/api/v1/admin/migration/drop-old", []byte(`{}`)); code != http.StatusConflict || !strings.Contains(string(answer), "kept until") {
		t.Errorf("drop-old before its time: %d %s", code, answer)
	}
	blobs := filepath.Join(old.Data, "blobs", "??", "*-*")
	if found, err := filepath.Glob(blobs); err != nil || len(found) != 2 {
		t.Errorf("the old place has %v, %v", found, err)
	}
	n.step(t, token, "/drop-old", `{"early":true,"percent":100}`)
	process.Eventually(t, patience, "the old side is dropped", func() error {
		s := n.migration(t, token)
		if s.Old == nil || s.Old.State != "dropped" {
			return fmt.Errorf("it is %+v", s.Old)
		}
		if s.Old.Contents.Removed != 2 || s.Old.Contents.Kept != 0 {
			t.Errorf("dropped %+v", s.Old)
		}
		return nil
	})
	if found, err := filepath.Glob(blobs); err != nil || len(found) != 0 {
		t.Errorf("the old place has %v, %v", found, err)
	}
	n.stop()

	back := unmount(t, filepath.Join(old.Data, databaseFile)) // nobody needs it any more
	n = start1(t, cfg)
	token = n.login(t)
	n.holds(t, token, "/kept", content)
	n.step(t, token, "/drop", "{}")
	n.stop()
	back()
	if a, err := Open(t.Context(), old, silent); err == nil {
		t.Error("it starts with the settings of the side that was dropped")
		_ = a.Close()
	} else if _, moved := errors.AsType[*MovedError](err); !moved {
		t.Logf("a start with the old settings: %v", err)
	}
	n = start1(t, cfg)
	n.holds(t, n.login(t), "/kept", content)
}

// unmount moves a database file away, as if its disk were not mounted. back moves it back and fails
// if a new file was created in the meantime.
func unmount(t *testing.T, path string) (back func()) {
	t.Helper()
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the database was made again: %v", err)
		}
		if err := os.Rename(path+".away", path); err != nil {
			t.Fatal(err)
		}
	}
}

// The migration's target is a database file that does not exist when the server starts. Up to phase
// 3 the server runs without it and continues the migration when it is back. In phase 4 the target
// is authoritative, and the server does not start without it.
func TestTheNewSideIsNotMounted(t *testing.T) {
	t.Setenv("SMARTDRIVE_ADMIN_PASSWORD", clusterPassword)
	cfg := testConfig(t)
	n := start1(t, cfg)
	var token string
	fresh := t.TempDir()
	n.move(t, rest.MigrationStart{ToDB: fresh})
	content := []byte("written meanwhile")
	var written []string
	for phase := migrate.Fill; phase < migrate.WriteNew; phase++ {
		n.stop()
		back := unmount(t, filepath.Join(fresh, databaseFile))
		n = start1(t, cfg)
		token = n.login(t)
		written = append(written, fmt.Sprint("/in-", phase))
		upload2(t, []*node{n}, token, written[len(written)-1], content)
		if code, answer := n.send(t, token, http.MethodPost, "/api/v1/admin/migration/advance", []byte("{}")); code != http.StatusConflict {
			t.Errorf("it goes forward from %d without the new side: %d %s", phase, code, answer)
		}
		back()
		n.step(t, token, "/verify", "{}")
		n.step(t, token, "/advance", "{}")
	}
	n.stop()

	back := unmount(t, filepath.Join(fresh, databaseFile))
	if a, err := Open(t.Context(), cfg, silent); err == nil {
		t.Error("it starts in phase 4 without the new side")
		_ = a.Close()
	}
	back()
	n = start1(t, cfg)
	token = n.login(t)
	for _, path := range written {
		n.holds(t, token, path, content)
	}
}

func (n *node) find(t *testing.T, token, path string) string {
	t.Helper()
	_, found := n.send(t, token, http.MethodGet, "/api/v1/nodes?path="+path, nil)
	var file struct{ ID string }
	if err := json.Unmarshal(found, &file); err != nil || file.ID == "" {
		t.Fatalf("%s: %s", path, found)
	}
	return file.ID
}

// What an administrator does to a migration, and is refused, is in the log with who it was.
func TestStepsOfAMigrationLeaveATrail(t *testing.T) {
	t.Parallel()
	var text lockedBuffer
	db := sqldbtest.Open(t)
	a := moveSteps{mover: newMover(config.Config{}, slog.New(slog.NewTextHandler(&text, nil)), db, time.Now, &modules{})}
	a.noteStep(t.Context(), drive.Who{}, "rate", nil, "rows_per_second", 7)
	a.noteStep(t.Context(), drive.Who{}, "advance", errors.New("lag: 3 changes"))
	lines := strings.Split(text.String(), "\n")
	for i, want := range [][]string{
		{"level=INFO", `msg="migration step"`, "step=rate", `by="the machine's administrator"`, "rows_per_second=7"},
		{"level=WARN", `msg="migration step refused"`, "step=advance", "lag: 3 changes"},
	} {
		for _, part := range want {
			if !strings.Contains(lines[i], part) {
				t.Errorf("%q lacks %q", lines[i], part)
			}
		}
	}
}

// An instance is not ready until it has opened the new content store.
func TestInstanceIsReadyWhenNewStoreIsOpen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := &mover{cfg: config.Config{Data: dir, Blobs: dir}}
	state := migrate.State{ID: "m", Epoch: 3, Phase: migrate.DualWrite, Contents: filepath.Join(dir, "new")}
	for _, c := range []struct {
		change func()
		want   string // part of the reason; empty: it is ready
	}{
		{func() {}, "being opened"},
		{func() { a.failed = "403" }, "403"},
		{func() { a.applied = migrate.State{ID: "m", Epoch: 2} }, "403"},
		{func() { a.applied = state }, ""},
		{func() { state.Phase = migrate.NewOnly }, "old settings"},
	} {
		c.change()
		err := a.ready(state)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("ready says %v, want %q", err, c.want)
		}
	}
}

// A store that cannot be opened is tried again after a delay, and immediately when the migration
// has reached its next phase.
func TestFailedStoreIsRetriedLater(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	state := migrate.State{ID: "m", Epoch: 3}
	var last attempt
	if last.tooSoon(migrate.State{}, begun) || last.tooSoon(state, begun) {
		t.Error("the first attempt waits")
	}
	last = attempt{state, begun}
	if !last.tooSoon(state, begun.Add(followEvery)) || last.tooSoon(state, begun.Add(followAgain)) {
		t.Error("an attempt that failed is made again at the wrong time")
	}
	state.Epoch++
	if last.tooSoon(state, begun.Add(followEvery)) {
		t.Error("another state waits for the attempt of an earlier one")
	}
}

// A process that was started with the old settings changes nothing at the place that was left, from
// phase 5 on.
func TestPhase5LeavesOldStore(t *testing.T) {
	t.Parallel()
	open := func() contents.Side {
		d, err := local.Open(t.Context(), local.Options{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Close() })
		return contents.Side{Store: d.Blobs, Staging: d.Staging, Quarantine: d.Quarantine}
	}
	dir := t.TempDir()
	m := &mover{cfg: config.Config{Data: dir, Blobs: dir}, pair: contents.NewPair(open()), second: &location{side: open()}}
	put := func() (name string) {
		t.Helper()
		b, name := blobtest.Bytes(1, 10), blobtest.PutName()
		if _, err := m.pair.Blobs.Put(t.Context(), name, blobtest.BodyOf(0, len(b), bytes.NewReader(b))); err != nil {
			t.Fatal(err)
		}
		return name
	}
	before := put()
	state := migrate.State{ID: "m", Phase: migrate.WriteNew, Switched: true, Contents: filepath.Join(dir, "new")}
	m.applyState(state)
	state.Phase = migrate.NewOnly
	m.applyState(state)
	if err := m.pair.Blobs.Remove(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	after := put()
	for name, where := range map[string][2]bool{before: {true, false}, after: {false, true}} {
		for side, want := range where {
			if _, err := m.pair.Side(contents.SideIndex(side)).Store.Stat(t.Context(), name); (err == nil) != want {
				t.Errorf("%s at side %d: %v", name, side, err)
			}
		}
	}
}
