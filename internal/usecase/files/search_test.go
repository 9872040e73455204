package files_test

import (
	"database/sql/driver"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/usecase/files"
)

// TestSearchesLeaveDatabaseReaders: many concurrent searches of one user leave database connections
// for other requests.
func TestSearchesLeaveDatabaseReaders(t *testing.T) {
	t.Parallel()
	sqldbtest.SQLiteOnly(t, "it has a fixed number of readers")
	const searches = 16
	var begun sync.WaitGroup
	var on atomic.Bool
	var running, most atomic.Int64
	db := sqldbtest.OpenWith(t, sqldb.Options{Connector: func(dsn string) (driver.Connector, error) {
		return sqldbtest.Connect(dsn, func(call sqldbtest.Call, do func() error) error {
			if call == sqldbtest.Query && sqldbtest.Reads(dsn) && on.Load() {
				now := running.Add(1)
				defer running.Add(-1)
				for was := most.Load(); now > was && !most.CompareAndSwap(was, now); was = most.Load() {
				}
				begun.Wait()
				for range 2000 { // give further searches time to start
					runtime.Gosched()
				}
			}
			return do()
		})
	}})
	d := newFixtureAt(t, db, nil, files.Options{})
	on.Store(true)
	begun.Add(searches)
	var all sync.WaitGroup
	for range searches {
		all.Go(func() {
			begun.Done()
			if _, err := d.Search(t.Context(), d.who, drive.Address{}, tree.Search{Name: "x"}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := most.Load(); n > 2 {
		t.Errorf("%d readers searched for one account at a time, want 2 at most", n)
	}
}
