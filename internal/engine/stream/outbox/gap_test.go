package outbox_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/engine/stream"
	"example.org/smartdrive/internal/engine/stream/outbox"
	"example.org/smartdrive/internal/engine/stream/streamtest"
)

// hold publishes a record in a transaction that stays open until end is called; end returns the
// transaction's error.
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

// TestLowerOffsetThatCommitsLater: of two transactions the one with the greater id commits
// first. Its record is not delivered before the other transaction ends; otherwise the other's
// record would be skipped.
func TestLowerOffsetThatCommitsLater(t *testing.T) {
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

// TestManyNumbersThatWereRolledBack: many rolled back transactions, even one per second, delay
// consumers no longer than one does.
func TestManyNumbersThatWereRolledBack(t *testing.T) {
	t.Parallel()
	sqldbtest.MySQLOnly(t)
	f, _ := open(t)
	o := outbox.New(f.DB, outbox.Options{Source: "smartdrive/test", GapTime: 200 * time.Millisecond})
	s, err := o.Open(t.Context(), stream.Subscription{Consumer: "w", Topic: stream.TopicUploads})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"a", "b", "c", "d", "e", "f"}
	for _, subject := range want {
		f.Publish(t, streamtest.Account, subject)
		hold(t, f.DB, o, "no")(errors.New("no"))
	}
	f.Publish(t, streamtest.Account, "g")
	got, _ := poll(t, s)
	for since := time.Now(); len(got) <= 1 && time.Since(since) < time.Minute; {
		more, _ := poll(t, s)
		got = append(got, more...)
	}
	if want = append(want, "g"); !slices.Equal(got, want) {
		t.Errorf("handed over %v when the first gap was passed, want %v: each of them was there", got, want)
	}
}

// TestAQuietTopic: records of other topics, even rolled back ones, do not delay a quiet topic.
func TestAQuietTopic(t *testing.T) {
	t.Parallel()
	sqldbtest.MySQLOnly(t)
	var calls sqldbtest.Counter
	db := sqldbtest.OpenWith(t, sqldb.Options{Connector: calls.Connector})
	o := outbox.New(db, outbox.Options{Source: "smartdrive/test", GapTime: time.Nanosecond})
	s, err := o.Open(t.Context(), stream.Subscription{Consumer: "w", Topic: stream.TopicExports})
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		hold(t, db, o, "no")(errors.New("no"))
		hold(t, db, o, "yes")(nil)
	}
	r, err := stream.New(stream.TopicExports, stream.ExportSealed, streamtest.Account, "a", nil)
	if err == nil {
		err = db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error { return o.Append(ctx, tx, r) })
	}
	if err != nil {
		t.Fatal(err)
	}
	before := calls.Total()
	if got, _ := poll(t, s); !slices.Equal(got, []string{"a"}) {
		t.Errorf("handed over %v, want a", got)
	}
	if n := calls.Total() - before; n > 20 {
		t.Errorf("it took %d calls of the database to pass over 50 numbers that were rolled back", n)
	}
}

// turning is an installation during a move between engines: its dialect is correct only before or
// after a poll.
type turning struct {
	*sqldb.DB // where the rows are
	said      [2]*sqldb.DB
	asked     atomic.Int64
}

func (r *turning) Primary() *sqldb.DB { return r.said[(r.asked.Add(1)-1)%2] }

func (r *turning) Reader(context.Context, drive.AccountID) (from, again *sqldb.DB, err error) {
	return r.DB, nil, nil
}

func (r *turning) OnRead(context.Context, *sqldb.DB, string, []any, error) {}

// TestAGapWhileTheEngineChanges: a session that reads during a move cannot know which engine
// answered, so it treats gaps as on MySQL.
func TestAGapWhileTheEngineChanges(t *testing.T) {
	t.Parallel()
	sqldbtest.MySQLOnly(t)
	lite, err := sqldb.Open(t.Context(), sqldb.Options{Path: filepath.Join(t.TempDir(), "drive.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lite.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, name := range []string{"to MySQL", "from MySQL"} {
		t.Run(name, func(t *testing.T) {
			f, o := open(t)
			s, err := o.Open(t.Context(), stream.Subscription{Consumer: "w", Topic: stream.TopicUploads})
			if err != nil {
				t.Fatal(err)
			}
			finish := hold(t, f.DB, o, "a")
			f.Publish(t, streamtest.Account, "b")
			r := &turning{DB: f.DB.Direct(), said: [2]*sqldb.DB{lite, f.DB.Direct()}}
			if name == "from MySQL" {
				r.said[0], r.said[1] = r.said[1], r.said[0]
			}
			f.DB.Route(r)
			if got, again := poll(t, s); len(got) > 0 || again.IsZero() {
				t.Errorf("handed over %v while a smaller number is open; again at %v", got, again)
			}
			f.DB.Route(nil)
			finish(nil)
		})
	}
}
