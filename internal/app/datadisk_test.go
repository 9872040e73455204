package app

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/base/telemetry"
	"example.org/smartdrive/internal/head/probe"
)

// If the database and the contents are on two disks, the database's disk is monitored too: uploads
// are refused before it is full, deletions continue, and log, metrics and /readyz report it.
func TestTheDiskOfTheDatabaseIsWatched(t *testing.T) {
	t.Parallel()
	a, control, api := opened(t, "--min-free", "1GiB", "--blobs", t.TempDir())
	p := a.platform
	var free atomic.Int64
	free.Store(int64(10 * drive.GiB))
	p.freeAt = func(dir string) (drive.ByteSize, error) {
		if dir != p.cfg.Data {
			t.Errorf("asked for %s", dir)
		}
		return drive.ByteSize(free.Load()), nil
	}
	if _, err := ask(t, control, http.MethodPost, "/api/v1/admin/users", map[string]any{"name": "ann", "password": "correct horse"}); err != nil {
		t.Fatal(err)
	}
	token := loginAs(t, api, "ann")
	begin := func() int {
		return request(t, api, token, http.MethodPost, "/uploads", `{"path":"/`+drive.NewID[drive.NodeID]().String()+`","size":10}`)
	}
	low := func() error {
		for _, c := range p.checks() {
			if c.Name == "database-disk" {
				if !c.Soft {
					t.Error("a disk that is nearly full takes the server out of service")
				}
				return c.Func(t.Context())
			}
		}
		t.Error("/readyz does not look at it")
		return nil
	}
	room := func() probe.Disk {
		t.Helper()
		d, err := p.diskState(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if err := low(); err != nil || begin() != http.StatusCreated {
		t.Errorf("with much free: %v", err)
	}
	free.Store(int64(drive.GiB) - 1)
	if err := low(); err == nil || !strings.Contains(err.Error(), "--min-free") || begin() != http.StatusCreated {
		t.Errorf("below --min-free: %v", err)
	}
	if status := request(t, api, token, http.MethodPost, "/nodes", `{"type":"folder","path":"/full"}`); status != http.StatusCreated {
		t.Fatalf("a folder: %d", status)
	}
	free.Store(int64(rowsFloor) - 1)
	if got := begin(); got != http.StatusInsufficientStorage || room() != probe.Full {
		t.Errorf("an upload onto a full disk of the database: %d, %v", got, room())
	}
	if status := request(t, api, token, http.MethodDelete, "/trash", ""); status/100 != 2 {
		t.Errorf("deleting on it: %d", status)
	}
	m := telemetry.NewMetrics()
	p.observeDisks(m)
	if text := figuresOf(t, m); !strings.Contains(text, "smartdrive_data_disk_free_bytes 6.7108863e+07") || !strings.Contains(text, "smartdrive_disk_min_free_bytes 1.073741824e+09") {
		t.Errorf("the figures are\n%s", text)
	}
	free.Store(int64(10 * drive.GiB))
	if err := low(); err != nil || begin() != http.StatusCreated || room() == probe.Full {
		t.Errorf("when there is room again: %v", err)
	}
}

// Metrics report the times of the last backup and of the last daily copy.
func TestBackupMetrics(t *testing.T) {
	t.Parallel()
	a, _, _ := opened(t)
	m := telemetry.NewMetrics()
	a.platform.observeDisks(m)
	if text := figuresOf(t, m); !strings.Contains(text, "smartdrive_backup_last_success_timestamp_seconds 0\n") || !strings.Contains(text, "smartdrive_database_copy_last_success_timestamp_seconds 0\n") {
		t.Errorf("without any they are\n%s", text)
	}
	if _, err := a.console().backup(t.Context(), BackupRequest{Dir: filepath.Join(t.TempDir(), "backup")}); err != nil {
		t.Fatal(err)
	}
	if err := a.platform.snapshot(t.Context(), a.platform.kept.Now()); err != nil {
		t.Fatal(err)
	}
	if text := figuresOf(t, m); strings.Contains(text, "_success_timestamp_seconds 0\n") {
		t.Errorf("with both they are\n%s", text)
	}
}

func figuresOf(t *testing.T, m *telemetry.Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

// A full disk is logged once when it fills up and once when space is free again.
func TestFullDatabaseDiskIsLoggedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		p := newPlatform(testConfig(t), slog.New(slog.NewTextHandler(&log, nil)))
		var free atomic.Int64
		p.freeAt = func(string) (drive.ByteSize, error) { return drive.ByteSize(free.Load()), nil }
		var watching sync.WaitGroup
		ctx, stop := context.WithCancel(t.Context())
		watching.Go(func() { _ = p.watchDataDisk(ctx) })
		for _, then := range []drive.ByteSize{drive.TiB, 2 * drive.TiB} {
			<-time.After(10 * sampleEvery)
			free.Store(int64(then))
		}
		stop()
		watching.Wait()
		if text := log.String(); strings.Count(text, "\n") != 2 || !strings.Contains(text, "level=WARN") || !strings.Contains(text, "over: the disk of the database is nearly full") {
			t.Errorf("the log has\n%s", text)
		}
	})
}
