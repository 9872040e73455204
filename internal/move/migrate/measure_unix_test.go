//go:build unix

package migrate

import (
	"context"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// TestMeasure prints figures on request without judging them.
func TestMeasure(t *testing.T) {
	if os.Getenv("SMARTDRIVE_MEASURE") == "" {
		t.Skip("SMARTDRIVE_MEASURE is not set")
	}
	for _, pair := range pairs {
		t.Run(pair.name, func(t *testing.T) { measure(t, pair.from(t), pair.to(t)) })
	}
}

const measured = 60_000 // nodes

func measure(t *testing.T, from, to *place) {
	s := newSite(t, from, to)
	p := s.mustStart(s.old)
	defer p.stop(t)
	accounts := seed(t, p.db, 20)
	spread(t, p.db, accounts[0], drive.NewID[drive.NodeID](), measured)
	plain := writes(t, p, accounts)
	begun := time.Now()
	report, err := p.m.Start(t.Context(), Request{ToDB: s.new.at})
	must(t, err)
	t.Logf("start: %s, rows %d", time.Since(begun).Round(time.Millisecond), report.Rows)
	captured := writes(t, p, accounts)
	must(t, p.m.apply.applyPending(t.Context()))
	begun = time.Now()
	must(t, p.m.participant.runOnce(t.Context()))
	must(t, p.m.participant.leadOnce(t.Context()))
	t.Logf("fill: %.0f rows/s", float64(report.Rows)/time.Since(begun).Seconds())
	_, err = p.m.Advance(t.Context(), AnyPhase)
	must(t, err)
	second := writes(t, p, accounts)
	t.Logf("writes one after the other: %s without, %s with capture (%.2f), %s with the second write (%.2f)", plain, captured,
		float64(captured)/float64(plain), second, float64(second)/float64(plain))
	must(t, p.m.apply.applyPending(t.Context()))
	must(t, p.m.Verify(t.Context()))
	begun = time.Now()
	used := processorTime()
	must(t, p.m.participant.leadOnce(t.Context()))
	used = processorTime() - used
	c, err := p.m.lastChecksum(t.Context(), p.m.currentSnapshot())
	must(t, err)
	t.Logf("checksum: %d rows, %d unequal, %.0f rows/s, %.0f rows for a second of processor", c.rows, c.unequal,
		float64(c.rows)/time.Since(begun).Seconds(), float64(c.rows)/used.Seconds())
	_, err = p.m.Advance(t.Context(), AnyPhase)
	must(t, err)
	must(t, p.m.Percent(t.Context(), 100, nil))
	stop, done := make(chan struct{}), make(chan struct{})
	var longest time.Duration
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			begun := time.Now()
			must(t, oneWrite(p.db, accounts[i%len(accounts)]))
			longest = max(longest, time.Since(begun))
		}
	}()
	begun = time.Now()
	_, err = p.m.Advance(t.Context(), AnyPhase)
	must(t, err)
	took := time.Since(begun)
	close(stop)
	<-done
	t.Logf("switch: %s in all; longest write %s, of it for the switch %d ms", took.Round(time.Millisecond), longest.Round(time.Millisecond), p.m.traffic.counts.pause.Load())
	verifyAgain(t, p)
	begun = time.Now()
	_, err = p.m.Rollback(t.Context(), AnyPhase)
	must(t, err)
	t.Logf("roll back from 4: %s", time.Since(begun).Round(time.Millisecond))
}

func oneWrite(db *sqldb.DB, account drive.AccountID) error {
	return db.Write(context.Background(), func(ctx context.Context, tx *sqldb.Tx) error {
		if _, err := tx.Exec(ctx, "UPDATE ledgers SET finished = finished + 1 WHERE account_id = ?", account); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "UPDATE trees SET seq = seq + 1 WHERE account_id = ?", account)
		return err
	})
}

// writes returns the median time of a small transaction.
func writes(t *testing.T, p *process, accounts []drive.AccountID) time.Duration {
	t.Helper()
	took := make([]time.Duration, 400)
	for i := range took {
		begun := time.Now()
		must(t, oneWrite(p.db, accounts[i%len(accounts)]))
		took[i] = time.Since(begun)
	}
	slices.Sort(took)
	return took[len(took)/2].Round(time.Microsecond)
}

// processorTime returns the processor time used by this process.
func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// measuredPairs are the measured moves. SQLite as the target is for one process with few rows.
var measuredPairs = []struct {
	name     string
	from, to func(t testing.TB) *place
}{
	{"SQLite to MySQL", onSQLite, onMySQL},
	{"MySQL to MySQL", onMySQL, onMySQL},
}

// many is the number of rows of TestMeasureMany: ten millions by C4. SMARTDRIVE_MEASURE sets
// another number if it is above 1.
const many = 10_000_000

// TestMeasureMany measures the rate of a full comparison of many rows, which is interrupted and
// resumed.
func TestMeasureMany(t *testing.T) {
	rows := manyRows(t)
	for _, pair := range measuredPairs {
		t.Run(pair.name, func(t *testing.T) {
			s := newSite(t, pair.from(t), pair.to(t))
			p := s.mustStart(s.old)
			begun := time.Now()
			spreadBoth(t, p, rows)
			t.Logf("made: %d rows on each side in %s", rows, time.Since(begun).Round(time.Second))
			must(t, p.m.Verify(t.Context()))

			begun = time.Now()
			used := processorTime()
			ctx, cancel := context.WithCancel(t.Context())
			half := make(chan struct{})
			go func() {
				defer close(half)
				untilHalf(ctx, p, int64(rows)/2)
				cancel()
			}()
			err := p.m.participant.leadOnce(ctx)
			first := time.Since(begun)
			cancel()
			<-half
			if err == nil {
				t.Fatal("it was not stopped in the middle")
			}
			points, err := savePoints(t.Context(), p.m.currentSnapshot().other.DB, "check")
			must(t, err)
			at := points["nodes"].done
			p.stop(t)

			p = s.mustStart(s.old)
			defer p.stop(t)
			begun = time.Now()
			work(t, p)
			second := time.Since(begun)
			used = processorTime() - used
			c, err := p.m.lastChecksum(t.Context(), p.m.currentSnapshot())
			must(t, err)
			if c.state != "done" || c.unequal != 0 || c.rows < int64(rows) {
				t.Errorf("it ended as %+v, of more than %d rows", c, rows)
			}
			t.Logf("checksum: %d rows, %.0f rows/s, %.0f rows for a second of processor; %d rows of nodes before it was stopped (%s), the rest after it (%s)",
				c.rows, float64(c.rows)/(first+second).Seconds(), float64(c.rows)/used.Seconds(), at, first.Round(time.Second), second.Round(time.Second))
		})
	}
}

// manyRows skips a test that was not requested.
func manyRows(t *testing.T) int {
	t.Helper()
	asked := os.Getenv("SMARTDRIVE_MEASURE")
	if n, err := strconv.Atoi(asked); err == nil && n > 1 {
		return n
	}
	if asked == "" && os.Getenv("SMARTDRIVE_SOAK") == "" {
		t.Skip("neither SMARTDRIVE_MEASURE nor SMARTDRIVE_SOAK is set")
	}
	return many
}

// untilHalf returns when so many rows of nodes were compared, or ctx ends.
func untilHalf(ctx context.Context, p *process, rows int64) {
	for ctx.Err() == nil {
		points, err := savePoints(ctx, p.m.currentSnapshot().other.DB, "check")
		if err == nil && points["nodes"].done >= rows {
			return
		}
		_ = wait(ctx, 100*time.Millisecond)
	}
}

// TestMeasureComparing measures the cost for readers of comparing one percent of reads: the 99th
// percentile with and without, in alternating rounds, as the median of the ratios of neighbours.
// Reads go directly to the database, the worst case; occasional writes leave changes to apply.
func TestMeasureComparing(t *testing.T) {
	if os.Getenv("SMARTDRIVE_MEASURE") == "" {
		t.Skip("SMARTDRIVE_MEASURE is not set")
	}
	for _, pair := range measuredPairs {
		t.Run(pair.name, func(t *testing.T) {
			s := newSite(t, pair.from(t), pair.to(t))
			p := s.mustStart(s.old)
			defer p.stop(t)
			accounts := seed(t, p.db, 20)
			spread(t, p.db, accounts[0], drive.NewID[drive.NodeID](), 20_000)
			climb(t, p, DualWrite)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				p.m.participant.compare.run(ctx)
			}()
			defer func() { cancel(); <-done }()
			for _, pause := range comparePauses {
				compareRounds(t, p, accounts, "phase 2", pause)
			}
			_, err := p.m.Advance(t.Context(), AnyPhase)
			must(t, err)
			must(t, p.m.Percent(t.Context(), 100, nil))
			for _, pause := range comparePauses {
				compareRounds(t, p, accounts, "phase 3, all read new", pause)
			}
		})
	}
}

const (
	compareRound  = 3000 // reads of each reader in a closed loop; with pauses a third of it
	compareReader = 4
	comparePairs  = 31 // pairs of a round with and a round without
)

// comparePauses are the pauses of a reader between two reads: none, for a busy machine, and long
// enough for an idle one.
var comparePauses = []time.Duration{0, time.Millisecond}

func compareRounds(t *testing.T, p *process, accounts []drive.AccountID, what string, pause time.Duration) {
	t.Helper()
	var ratios, with, without []float64
	readRound(t, p, accounts, 0.01, pause) // warm up
	before := p.m.traffic.counts.compared.Load()
	for i := range comparePairs {
		order := []float64{0.01, -1}
		if i%2 == 1 {
			slices.Reverse(order)
		}
		p99 := map[float64]float64{}
		for _, sample := range order {
			p99[sample] = readRound(t, p, accounts, sample, pause)
		}
		ratios, with, without = append(ratios, p99[0.01]/p99[-1]), append(with, p99[0.01]), append(without, p99[-1])
	}
	slices.Sort(ratios)
	t.Logf("%s, pauses of %v: p99 of a read %.0f µs with the comparison, %.0f µs without; median of %d ratios %.3f (quartiles %.3f, %.3f); %d reads compared, %d left out, mismatches %d",
		what, pause, median(with), median(without), len(ratios), median(ratios), ratios[len(ratios)/4], ratios[len(ratios)*3/4],
		p.m.traffic.counts.compared.Load()-before, p.m.traffic.counts.skipped.Load(), mismatches(t, p))
}

func mismatches(t *testing.T, p *process) int {
	t.Helper()
	all, err := p.m.Mismatches(t.Context(), 10)
	must(t, err)
	return len(all)
}

func median(of []float64) float64 {
	of = slices.Sorted(slices.Values(of))
	return of[len(of)/2]
}

// readRound returns the 99th percentile of reads in microseconds.
func readRound(t *testing.T, p *process, accounts []drive.AccountID, sample float64, pause time.Duration) float64 {
	t.Helper()
	p.m.opt.Sample = sample // no reads between two rounds
	took := make([][]float64, compareReader)
	reads := compareRound
	if pause > 0 {
		reads /= 3
	}
	var readers sync.WaitGroup
	for i := range took {
		readers.Go(func() {
			for n := range reads {
				account := accounts[rand.IntN(len(accounts))]
				if n%50 == 0 {
					if err := oneWrite(p.db, account); err != nil {
						t.Errorf("write: %v", err)
					}
				}
				begun := time.Now()
				err := oneRead(p.db.For(account), account, n)
				took[i] = append(took[i], float64(time.Since(begun).Nanoseconds())/1000)
				if err != nil {
					t.Errorf("read: %v", err)
				}
				if pause > 0 {
					_ = wait(t.Context(), pause)
				}
			}
		})
	}
	readers.Wait()
	all := slices.Sorted(slices.Values(slices.Concat(took...)))
	return all[len(all)*99/100]
}

// oneRead makes a typical read: a row by key, a balance, a page of a folder.
func oneRead(q sqldb.Querier, account drive.AccountID, n int) error {
	query, args := "SELECT name, slot, state FROM users WHERE account_id = ?", []any{account}
	switch n % 3 {
	case 0:
		query, args = "SELECT name, type, rev, seq, updated_at FROM nodes WHERE id = ?", []any{spreadID(rand.IntN(20_000))}
	case 1:
		query, args = "SELECT id, name, type, rev FROM nodes WHERE id > ? ORDER BY id LIMIT 50", []any{spreadID(rand.IntN(20_000))}
	}
	rows, err := q.Query(context.Background(), query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() { // the contents do not matter
	}
	return rows.Err()
}
