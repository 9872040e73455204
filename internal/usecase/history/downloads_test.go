package history_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/activity"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/usecase/history"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// downloadsOf returns the number of download entries of an account and of the downloads in them.
func downloadsOf(t *testing.T, s *uploadtest.Site, who drive.Who) (entries, times, others int) {
	t.Helper()
	err := s.DB.QueryRow(t.Context(), "SELECT COUNT(*) FROM activity WHERE account_id = ? AND verb = ?", who.Account, string(activity.DownloadBegun)).Scan(&entries)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := s.DB.Query(t.Context(), "SELECT node_id, data FROM activity WHERE account_id = ? AND verb = ?", who.Account, string(activity.DownloadBegun))
	type row struct{ node, data string }
	all, err := sqldb.Scan(rows, err, func(r *row, scan func(...any) error) error { return scan(&r.node, &r.data) })
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		n := 0
		if r.node == "" {
			_, err = fmt.Sscanf(r.data, `{"files":"many","times":%d}`, &n)
			others += n
		} else {
			_, err = fmt.Sscanf(r.data, `{"times":%d}`, &n)
		}
		if err != nil {
			t.Fatal(r.data, err)
		}
		times += n
	}
	return entries, times, others
}

// TestFailedDownloadEntryIsRetried: entries that cannot be written are retried, and entries with a
// lost reply are written again; none is lost.
func TestFailedDownloadEntryIsRetried(t *testing.T) {
	t.Parallel()
	var faults sqldbtest.Faults
	s := uploadtest.New(t, uploadtest.Options{DB: sqldb.Options{Connector: faults.Connector, Log: slog.New(slog.DiscardHandler)}})
	who := s.Account(t, drive.GiB)
	d := history.NewDownloads(history.Parts{DB: s.DB, Log: s.Activity, Tree: s.Tree}, s.Clock.Now, nil)
	node := drive.NewID[drive.NodeID]()
	d.File(who, node)
	faults.FailAll(sqldbtest.Commit, nil)
	if d.Flush(t.Context()) == nil {
		t.Error("what could not be written is told of as if it were")
	}
	faults.Clear()
	d.File(who, node)
	if err := d.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if entries, times, _ := downloadsOf(t, s, who); entries != 1 || times != 2 {
		t.Errorf("%d entries tell of %d downloads, not one of two", entries, times)
	}

	s.Clock.Advance(2 * time.Hour)
	d.File(who, node)
	faults.LoseReply(sqldbtest.Commit, 1, nil)
	_ = d.Flush(t.Context()) // whether the commit is known depends on the engine
	faults.Clear()
	if err := d.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, times, _ := downloadsOf(t, s, who); times < 3 || times > 4 {
		t.Errorf("three downloads, the reply of the last one lost, are told as %d", times)
	}
}

// TestDownloadsAreFlushedOnStop: unreported downloads are written when the process stops.
func TestDownloadsAreFlushedOnStop(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{})
	who := s.Account(t, drive.GiB)
	d := history.NewDownloads(history.Parts{DB: s.DB, Log: s.Activity, Tree: s.Tree}, s.Clock.Now, nil)
	node := drive.NewID[drive.NodeID]()
	d.File(who, node)
	if err := d.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.File(who, node) // within the hour
	d.File(who, node)
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := d.Run(stopped); err != nil {
		t.Fatal(err)
	}
	if entries, times, _ := downloadsOf(t, s, who); entries != 2 || times != 3 {
		t.Errorf("%d entries tell of %d downloads, not two of three", entries, times)
	}
}

// TestExcessDownloadsAreCombined: above the limit of tracked files, downloads are counted without
// naming files, and memory is bounded.
func TestExcessDownloadsAreCombined(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{})
	who := s.Account(t, drive.GiB)
	d := history.NewDownloads(history.Parts{DB: s.DB, Log: s.Activity, Tree: s.Tree}, s.Clock.Now, nil)
	const files = 12_000
	for range files {
		d.File(who, drive.NewID[drive.NodeID]())
	}
	if err := d.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if entries, times, others := downloadsOf(t, s, who); entries != 10_001 || times != files || others != 2000 {
		t.Errorf("%d entries tell of %d downloads, %d of them together", entries, times, others)
	}
	// Reported keys without new downloads are evicted.
	d.File(who, drive.NewID[drive.NodeID]())
	s.Clock.Advance(time.Second)
	if err := d.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if entries, times, _ := downloadsOf(t, s, who); entries != 10_002 || times != files+1 {
		t.Errorf("then %d entries tell of %d", entries, times)
	}
}

// TestManyDownloadsWakeTheWriterOnce: thousands of downloads at once wake the writer once and not
// each time, neither after they are reported nor while the database is unavailable.
func TestManyDownloadsWakeTheWriterOnce(t *testing.T) {
	t.Parallel()
	var faults sqldbtest.Faults
	s := uploadtest.New(t, uploadtest.Options{DB: sqldb.Options{Connector: faults.Connector, Log: slog.New(slog.DiscardHandler)}})
	who := s.Account(t, drive.GiB)
	d := history.NewDownloads(history.Parts{DB: s.DB, Log: s.Activity, Tree: s.Tree}, s.Clock.Now, nil)
	const half = 5000
	for _, away := range []bool{false, true} {
		for range half - 1 {
			d.File(who, drive.NewID[drive.NodeID]())
		}
		if d.Woken() {
			t.Error("the writer was woken before there was much")
		}
		d.File(who, drive.NewID[drive.NodeID]())
		if !d.Woken() {
			t.Error("the writer was not woken")
		}
		if away {
			faults.FailAll(sqldbtest.Commit, nil)
		}
		if err := d.Flush(t.Context()); (err != nil) != away {
			t.Fatal(err)
		}
		d.File(who, drive.NewID[drive.NodeID]())
		if d.Woken() {
			t.Errorf("one more download wakes the writer (the database is away: %v)", away)
		}
		if err := d.Flush(t.Context()); (err != nil) != away {
			t.Fatal(err)
		}
	}
}
