package history_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/activity"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/sqldb/sqldbtest"
	"smartdrive/internal/usecase/history"
	"smartdrive/internal/usecase/upload/uploadtest"
)

// counted are the downloads that the log tells of: entries, and how often in all.
func counted(t *testing.T, s *uploadtest.Site, who drive.Who) (entries, times, others int) {
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

// What cannot be written is told later; what was written without an answer is told once more: none
// is left out.
func TestADownloadThatCannotBeWrittenIsToldLater(t *testing.T) {
	t.Parallel()
	var faults sqldbtest.Faults
	s := uploadtest.New(t, uploadtest.Options{DB: sqldb.Options{Connector: faults.Connector, Log: slog.New(slog.DiscardHandler)}})
	who := s.Account(t, drive.GiB)
	d := history.NewDownloads(history.Parts{DB: s.DB, Log: s.Activity, Tree: s.Tree}, s.Clock.Now, nil)
	node := drive.NewID[drive.NodeID]()
	d.File(who, node)
	faults.FailAll(sqldbtest.Commit, nil)
	if d.Tell(t.Context()) == nil {
		t.Error("what could not be written is told of as if it were")
	}
	faults.Clear()
	d.File(who, node)
	if err := d.Tell(t.Context()); err != nil {
		t.Fatal(err)
	}
	if entries, times, _ := counted(t, s, who); entries != 1 || times != 2 {
		t.Errorf("%d entries tell of %d downloads, not one of two", entries, times)
	}

	s.Clock.Advance(2 * time.Hour)
	d.File(who, node)
	faults.LoseReply(sqldbtest.Commit, 1, nil)
	_ = d.Tell(t.Context()) // whether it is known to have been written depends on the engine
	faults.Clear()
	if err := d.Tell(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, times, _ := counted(t, s, who); times < 3 || times > 4 {
		t.Errorf("three downloads, the reply of the last one lost, are told as %d", times)
	}
}

// What is still gathered when the process is stopped is told then.
func TestDownloadsAreToldWhenTheProcessIsStopped(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{})
	who := s.Account(t, drive.GiB)
	d := history.NewDownloads(history.Parts{DB: s.DB, Log: s.Activity, Tree: s.Tree}, s.Clock.Now, nil)
	node := drive.NewID[drive.NodeID]()
	d.File(who, node)
	if err := d.Tell(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.File(who, node) // within the hour
	d.File(who, node)
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := d.Run(stopped); err != nil {
		t.Fatal(err)
	}
	if entries, times, _ := counted(t, s, who); entries != 2 || times != 3 {
		t.Errorf("%d entries tell of %d downloads, not two of three", entries, times)
	}
}

// So much is downloaded that it is not known file by file: none is left out of the number, and
// there is an end to what is kept.
func TestDownloadsOfManyFilesAreCountedTogether(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{})
	who := s.Account(t, drive.GiB)
	d := history.NewDownloads(history.Parts{DB: s.DB, Log: s.Activity, Tree: s.Tree}, s.Clock.Now, nil)
	const files = 12_000
	for range files {
		d.File(who, drive.NewID[drive.NodeID]())
	}
	if err := d.Tell(t.Context()); err != nil {
		t.Fatal(err)
	}
	if entries, times, others := counted(t, s, who); entries != 10_001 || times != files || others != 2000 {
		t.Errorf("%d entries tell of %d downloads, %d of them together", entries, times, others)
	}
	// What was told and has not happened since makes room.
	d.File(who, drive.NewID[drive.NodeID]())
	s.Clock.Advance(time.Second)
	if err := d.Tell(t.Context()); err != nil {
		t.Fatal(err)
	}
	if entries, times, _ := counted(t, s, who); entries != 10_002 || times != files+1 {
		t.Errorf("then %d entries tell of %d", entries, times)
	}
}

// Thousands of files at once wake the writer once, and not with each that follows: neither when
// they are told, nor when the database is away.
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
		if err := d.Tell(t.Context()); (err != nil) != away {
			t.Fatal(err)
		}
		d.File(who, drive.NewID[drive.NodeID]())
		if d.Woken() {
			t.Errorf("one more download wakes the writer (the database is away: %v)", away)
		}
		if err := d.Tell(t.Context()); (err != nil) != away {
			t.Fatal(err)
		}
	}
}
