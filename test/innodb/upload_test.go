package innodb

import (
	"bytes"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/timer"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// Two read a balance, reckon, and write: one of the two changes is lost, in either isolation.
func TestReadReckonWriteLosesAChange(t *testing.T) {
	t.Parallel()
	for _, isolation := range []string{readCommitted, repeatableRead} {
		t.Run(isolation, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, balances)
			exec(t, s, "INSERT INTO balances VALUES ('ann', 100)")
			a, b := s.session(t, isolation), s.session(t, isolation)
			plainSnapshots(t, a)
			plainSnapshots(t, b)
			wantRows(t, a.all("SELECT amount FROM balances"), "100")
			wantRows(t, b.all("SELECT amount FROM balances"), "100")
			a.must("UPDATE balances SET amount = 110")
			a.commit()
			b.must("UPDATE balances SET amount = 105")
			b.commit()
			wantRows(t, all(t, s, "SELECT amount FROM balances"), "105")
		})
	}
}

// Crash, flush, resume, complete: the unfinished balance ends at zero (U13) although two processes
// deliver every timer repeatedly and concurrently.
func TestCrashFlushResumeCompleteEndsAtZero(t *testing.T) {
	t.Parallel()
	d := newDrive(t)
	s := uploadtest.New(t, uploadtest.Options{DB: sqldb.Options{MySQL: d.raw.config.FormatDSN(), Connections: 8}})
	who := s.Account(t, 10*drive.MiB)
	data := bytes.Repeat([]byte("smartdrv"), 4<<20/8)
	v := s.Start(t, who, "/f", 4*drive.MiB)
	balance := func(want string) {
		t.Helper()
		s.CheckLedger(t, who)
		if got := s.Balance(t, who); got != want {
			t.Fatalf("finished/unfinished/reserved is %s, want %s", got, want)
		}
	}
	// quiet delivers the park timers of all generations, concurrently from both processes.
	quiet := func() {
		twin := s.SecondInstance()
		_, gen := s.State(t, v.ID)
		atOnce(8, func(i int) error {
			fired := timer.Fired{Key: timer.Key{Kind: timer.Park, ID: v.ID}, Gen: max(1, gen-int64(i/2))}
			return []*upload.Sessions{s.Sessions, twin}[i%2].OnPark(t.Context(), fired) // what is too old or too late is refused
		})
	}
	must(t, s.Send(t, who, v, 1, data))
	balance("0/0/4194304")
	s.Restart(t)
	s.Clock.Advance(time.Minute)
	quiet()
	balance("0/2097152/0")
	quiet()
	balance("0/2097152/0")
	s.Restart(t)
	must(t, s.Send(t, who, v, 0, data)) // resumes
	balance("0/0/4194304")
	s.Clock.Advance(time.Minute)
	quiet()
	balance("0/4194304/0")
	_, _, err := s.Complete(t.Context(), who, v.ID, upload.Complete{})
	must(t, err)
	quiet()
	balance("4194304/0/0")
	if !bytes.Equal(s.Read(t, who, "/f"), data) {
		t.Fatal("the file has other bytes")
	}
}
