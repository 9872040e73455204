package batch_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/idem"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/engine/turn"
	"example.org/smartdrive/internal/usecase/batch"
	"example.org/smartdrive/internal/usecase/files"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
	"example.org/smartdrive/test/process"
)

// While an account's turn is taken its batches commit nothing, and batches of other accounts
// continue.
func TestBatchesTakeTurns(t *testing.T) {
	t.Parallel()
	f := newFixture(t, drive.MiB, uploadtest.Options{})
	turns := turn.NewLongLimiter(func() int { return 4 })
	f.batches = batch.New(batch.Options{DB: f.DB, Tree: f.Tree, Uploads: f.Sessions, Files: f.files, Keys: f.keys, LongTurns: turns})
	other := f.Account(t, drive.MiB)
	end, err := turns.Acquire(t.Context(), f.who.Account)
	if err != nil {
		t.Fatal(err)
	}
	var ended atomic.Bool
	var all, read sync.WaitGroup
	run := func(who drive.Who, after *atomic.Bool, n int) error {
		from := &list{items: []batch.Item{(request{op: batch.Folder, path: fmt.Sprintf("/%d", n)}).item(t, 0)}}
		return f.batches.Run(t.Context(), who, idem.Request{}, from, func([]batch.Answer) error {
			if after != nil && !after.Load() {
				t.Error("a batch has committed before its turn")
			}
			return nil
		})
	}
	for n := range 8 {
		read.Add(1)
		all.Go(func() {
			read.Done()
			if err := run(f.who, &ended, n); err != nil {
				t.Error(err)
			}
		})
	}
	read.Wait()
	if err := run(other, nil, 0); err != nil {
		t.Errorf("a batch of another account: %v", err)
	}
	if _, err := f.files.Mkdir(t.Context(), other, files.Mkdir{Name: "made"}); err != nil {
		t.Errorf("a folder of another account: %v", err)
	}
	ended.Store(true)
	end()
	all.Wait()
}

// A batch runs while batches of two other accounts wait for locks during their turns.
func TestBatchRunsBesideLockedAccounts(t *testing.T) {
	t.Parallel()
	if !sqldbtest.OnMySQL() {
		t.Skip("one transaction runs at a time")
	}
	f := newFixture(t, drive.MiB, uploadtest.Options{})
	locked := []drive.Who{f.Account(t, drive.MiB), f.Account(t, drive.MiB)}
	free, held := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	defer all.Wait()
	release := sync.OnceFunc(func() { close(free) })
	defer release()
	all.Go(func() {
		if err := f.DB.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			for _, who := range locked {
				if err := f.Ledger.Lock(ctx, tx, who.Account); err != nil {
					return err
				}
			}
			close(held)
			<-free
			return nil
		}); err != nil {
			t.Error(err)
		}
	})
	<-held
	run := func(who drive.Who) error {
		from := &list{items: []batch.Item{(request{op: batch.Folder, path: "/a"}).item(t, 0)}}
		return f.batches.Run(t.Context(), who, idem.Request{}, from, func([]batch.Answer) error { return nil })
	}
	var waiting, timeouts atomic.Int64
	for _, who := range locked {
		waiting.Add(1)
		all.Go(func() {
			err := run(who)
			for drive.KindOf(err) == drive.Unavailable && timeouts.Add(1) < 100 { // waited 5 s for the lock
				err = run(who)
			}
			if err != nil {
				t.Errorf("a batch whose account was locked: %v", err)
			}
			waiting.Add(-1)
		})
	}
	for _, who := range locked {
		process.Eventually(t, time.Minute, "the batch of a locked account waits", func() error {
			var waits bool
			// Not innodb_trx: MariaDB does not refresh its copy while queries follow within 0.1 s.
			err := f.DB.QueryRow(t.Context(), "SELECT COUNT(*) > 0 FROM information_schema.processlist WHERE info LIKE ? AND id <> CONNECTION_ID()",
				"%"+who.Account.String()+"%FOR UPDATE%").Scan(&waits)
			if err == nil && !waits {
				err = errors.New("it does not wait for a lock")
			}
			return err
		})
	}
	between := false // a batch ran while no lock wait of the others timed out
	for tries := 0; tries < 3 && !between; tries++ {
		before := timeouts.Load()
		if err := run(f.who); err != nil {
			t.Errorf("a batch of another account: %v", err)
		}
		between = timeouts.Load() == before
	}
	if !between {
		t.Error("a batch of another account ran only after the lock wait of a locked account had timed out")
	}
	if n := waiting.Load(); int(n) != len(locked) {
		t.Errorf("it waited for %d batches of locked accounts", len(locked)-int(n))
	}
	release()
}
