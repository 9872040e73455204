//go:build unix

package notify_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/notice"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/engine/stream"
	"example.org/smartdrive/internal/engine/stream/kafka"
	"example.org/smartdrive/internal/engine/stream/outbox"
	"example.org/smartdrive/internal/usecase/notify"
	"example.org/smartdrive/test/process"
)

// childConfig tells the killed child process where its broker and database are.
type childConfig struct {
	Brokers []string
	Path    string
	MySQL   string
}

// childConfigVariable is the environment variable with the JSON of a childConfig.
const childConfigVariable = "SMARTDRIVE_TEST_NOTICES_AT"

// stream opens the stream as another process.
func (p childConfig) stream(t *testing.T, db *sqldb.DB) (*kafka.Stream, *outbox.Outbox) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	box := outbox.New(db, outbox.Options{Source: "smartdrive/test", Log: log, Relayed: true})
	s, err := kafka.New(kafka.Options{
		Brokers: p.Brokers, Partitions: 1, RelayEvery: 20 * time.Millisecond, SessionTimeout: 2 * time.Second, Source: "smartdrive/test",
		Backlog: box, DeadLetters: box, Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close the stream: %v", err)
		}
	})
	if err := s.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s, box
}

// consume passes the topic of notices to a teller. after is called after each handled record,
// before it is acknowledged.
func consume(t *testing.T, teller *notify.Notifier, s *kafka.Stream, after func()) error {
	t.Helper()
	c := teller.Consumers()[0]
	handle := c.Handle
	c.Handle = func(ctx context.Context, r stream.Record) error {
		err := handle(ctx, r)
		if err == nil {
			after()
		}
		return err
	}
	return stream.NewRunner(s, c, stream.Options{Log: slog.New(slog.DiscardHandler)}).Run(t.Context())
}

// TestKilledChild is the child process that is killed between the effect of a record and its
// acknowledgement. It is skipped on its own.
func TestKilledChild(t *testing.T) {
	t.Parallel()
	var at childConfig
	if text := os.Getenv(childConfigVariable); text == "" {
		return
	} else if err := json.Unmarshal([]byte(text), &at); err != nil {
		t.Fatal(err)
	}
	w := &fixture{people: map[string]drive.Who{}, roots: map[string]drive.NodeID{}, now: time.UnixMilli(1_800_000_000_000)}
	w.addUsers(t, sqldbtest.OpenAt(t, sqldb.Options{Path: at.Path, MySQL: at.MySQL}, nil))
	s, _ := at.stream(t, w.parts.DB)
	err := consume(t, w.teller, s, func() {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // the result does not matter
		select {}
	})
	t.Fatalf("the process ends by itself: %v", err)
}

// TestKilledProcessesNotifyOnce: a process killed after it has notified and before it acknowledges
// leaves the record to the next one, which must not notify twice.
func TestKilledProcessesNotifyOnce(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.GroupMinSessionTimeout(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	place := sqldbtest.At(t, sqldb.Options{})
	at := childConfig{Brokers: cluster.ListenAddrs(), Path: place.Path, MySQL: place.MySQL}
	w := &fixture{people: map[string]drive.Who{}, roots: map[string]drive.NodeID{}, now: time.UnixMilli(1_800_000_000_000)}
	w.addUsers(t, sqldbtest.OpenAt(t, place, nil), "bob")

	s, box := at.stream(t, w.parts.DB)
	relay, stop := context.WithCancel(t.Context())
	relayed := make(chan error, 1)
	go func() { relayed <- s.RunRelay(relay) }()
	t.Cleanup(func() {
		stop()
		if err := <-relayed; err != nil {
			t.Errorf("the relay ended: %v", err)
		}
	})
	record, err := notice.NewRecord(notice.Cause{Kind: notice.Operation, What: notice.Failed, Account: w.people["bob"].Account, User: w.people["bob"].User, Data: notice.Data{Failed: 2}}) // no other notice replaces it
	if err != nil {
		t.Fatal(err)
	}
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error { return box.Append(ctx, tx, record) })

	text, err := json.Marshal(at)
	if err != nil {
		t.Fatal(err)
	}
	once := []string{"operation.failed"}
	for i := range 2 {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledChild$") //nolint:gosec // this test
		cmd.Env = append(os.Environ(), childConfigVariable+"="+string(text))
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || !exit.Sys().(syscall.WaitStatus).Signaled() { //nolint:forcetypeassert // it is that on unix
			t.Fatalf("process %d was not killed: %v\n%s", i, err, out)
		}
		if got := w.noticesOf(t, "bob"); !slices.Equal(got, once) {
			t.Fatalf("after process %d bob is told %q", i, got)
		}
	}

	// The process that is not killed gets the record, too, and acknowledges it.
	var handled atomic.Int64
	ended := make(chan error, 1)
	go func() { ended <- consume(t, w.teller, s, func() { handled.Add(1) }) }()
	t.Cleanup(func() {
		if err := <-ended; err != nil {
			t.Errorf("the consumer ended: %v", err)
		}
	})
	process.Eventually(t, 3*time.Minute, "the record comes once more", func() error {
		if handled.Load() == 0 {
			return errors.New("it has not come")
		}
		lags, err := s.Lags(t.Context())
		for _, l := range lags {
			if l.Consumer == "notices" && l.Offsets+l.Waiting > 0 {
				err = errors.Join(err, fmt.Errorf("%d records wait", l.Offsets+l.Waiting))
			}
		}
		return err
	})
	if got := w.noticesOf(t, "bob"); !slices.Equal(got, once) || handled.Load() != 1 {
		t.Errorf("bob is told %q, by %d records", got, handled.Load())
	}
}
