package app

import (
	"context"
	"errors"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/stream"
)

// The outbox of the composed program is trimmed. With a relay, a sent record is deleted an hour
// later even if a cursor from the time before the broker lags behind, and an unsent record is kept
// however long the brokers are down. Without brokers, records are kept until all consumers have
// read them.
func TestTheOutboxOfTheProgramIsTrimmed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args              func(*testing.T) []string
		soon, late, never int // how many of three records are there after 2 hours, after 8 days, and then without the cursor
	}{
		"embedded": {func(*testing.T) []string { return nil }, 3, 3, 0},
		"brokers":  {func(t *testing.T) []string { return clusterArgs(t, true) }, 2, 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, err := Open(t.Context(), testConfig(t, c.args(t)...), silent)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := a.Close(); err != nil {
					t.Error(err)
				}
			})
			publish(t, a, 3)
			write(t, a, `INSERT INTO cursors (consumer, topic, position) VALUES ('old', 'smartdrive.uploads', 0)`)
			if waiting, err := a.outbox.Unsent(t.Context(), 1); err != nil || len(waiting) != 1 {
				t.Fatal(len(waiting), err)
			} else if err := a.outbox.MarkSent(t.Context(), waiting); err != nil {
				t.Fatal(err)
			}
			left := func(after time.Duration, want int) {
				t.Helper()
				_, err := a.outbox.Trim(t.Context(), time.Now().Add(after))
				var n int
				err = errors.Join(err, a.platform.db.QueryRow(t.Context(), `SELECT COUNT(*) FROM outbox`).Scan(&n))
				if err != nil || n != want {
					t.Errorf("%v later there are %d records, want %d; error %v", after, n, want, err)
				}
			}
			left(2*time.Hour, c.soon)
			left(8*24*time.Hour, c.late)
			write(t, a, `DELETE FROM cursors WHERE consumer = 'old'`)
			left(8*24*time.Hour, c.never)
		})
	}
}

func publish(t *testing.T, a *App, n int) {
	t.Helper()
	err := a.platform.db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		for range n {
			r, err := stream.New(stream.TopicUploads, stream.UploadDone, drive.NewID[drive.AccountID](), "subject", struct{}{})
			if err == nil {
				err = a.outbox.Append(ctx, tx, r)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
