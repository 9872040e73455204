package outbox_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"smartdrive/internal/sqldb"
	"smartdrive/internal/sqldb/sqldbtest"
	"smartdrive/internal/stream"
	"smartdrive/internal/stream/outbox"
	"smartdrive/internal/stream/streamtest"
)

// hold publishes a record in a transaction that stays open until end is called, with what its function returns.
func hold(t *testing.T, db *sqldb.DB, o *outbox.Outbox, subject string) (end func(error)) {
	t.Helper()
	inserted, ended, done := make(chan struct{}), make(chan error), make(chan struct{})
	go func() {
		defer close(done)
		_ = db.Write(context.Background(), func(ctx context.Context, tx *sqldb.Tx) error {
			if err := o.Append(ctx, tx, streamtest.Records(t, streamtest.Account, subject)...); err != nil {
				return err
			}
			close(inserted)
			return <-ended
		})
	}()
	<-inserted
	return func(err error) {
		ended <- err
		<-done
	}
}

func poll(t *testing.T, s stream.Session) (subjects []string, again time.Time) {
	t.Helper()
	got, again, err := s.Poll(t.Context(), 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range got {
		r, err := stream.Decode(d.Topic, streamtest.Account, d.Event)
		if err != nil {
			t.Fatal(err)
		}
		subjects = append(subjects, r.Subject)
	}
	return subjects, again
}

// Of two transactions the one with the larger number commits first: nothing of it is handed over before the other has ended, or
// the other's record would be passed over for ever.
func TestASmallerNumberThatCommitsLater(t *testing.T) {
	t.Parallel()
	sqldbtest.MySQLOnly(t)
	for name, end := range map[string]struct {
		err  error
		want []string
	}{"commits": {nil, []string{"a", "b"}}, "is rolled back": {errors.New("no"), []string{"b"}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, o := open(t)
			s, err := o.Open(t.Context(), stream.Subscription{Consumer: "w", Topic: stream.TopicUploads})
			if err != nil {
				t.Fatal(err)
			}
			finish := hold(t, f.DB, o, "a")
			f.Publish(t, streamtest.Account, "b")
			for range 3 {
				if got, again := poll(t, s); len(got) > 0 || again.IsZero() {
					t.Fatalf("handed over %v while a smaller number is open; again at %v", got, again)
				}
			}
			finish(end.err)
			got, _ := poll(t, s)
			if len(got) == 0 { // it was seen to be filled
				got, _ = poll(t, s)
			}
			if len(got) != len(end.want) || got[0] != end.want[0] {
				t.Errorf("handed over %v, want %v", got, end.want)
			}
		})
	}
}
