//go:build linux

package bench

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/timer"
	"example.org/smartdrive/internal/engine/timer/redis"
	"example.org/smartdrive/internal/engine/timer/timertest"
	"example.org/smartdrive/internal/testkit/servicetest"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// patient is an upload service under a virtual clock: rows on MariaDB, timers in Redis, and a
// staging that stores no bytes.
type patient struct {
	*counted
	clock *timertest.Clock
	staging
	who  drive.Who
	next time.Time // when the queue is to be polled next
	cost struct {
		armed, moved int // writes of the timer's entry into the index
		fired        int
	}
}

func newPatient(b *testing.B) *patient {
	b.Helper()
	on := startBacking(b, servicetest.Redis)
	p := &patient{counted: &counted{redis: goredis.NewClient(&goredis.Options{Addr: on.redis.Addr()})}, clock: timertest.NewClock()}
	b.Cleanup(func() { must(b, p.redis.Close()) })
	p.staging = staging{now: p.clock.Now, parts: map[drive.UploadID]*journal{}}
	p.queue = redis.New(redis.Options{Addrs: []string{on.redis.Addr()}, Now: p.clock.Now, Clock: p.clock.Now, MaxWait: timer.Never})
	b.Cleanup(func() { must(b, p.queue.Close()) })
	p.site = mysqlSite(b, &p.calls)
	p.Sessions = p.over(b, &p.staging, p.site.Store, p.queue, upload.Options{
		Now: p.clock.Now, PartSize: drive.MiB,
		RowClock: func(context.Context) (drive.Time, error) { return drive.TimeOf(p.clock.Now()), nil },
	})
	p.who = p.site.Account(b, 0)
	return p
}

// BenchmarkClusterQuiet sends an upload of 10,000 parts within ten minutes of virtual time and lets
// it idle until it is parked, with an idle time of 30 s. It counts the writes to the timer index
// and to the database.
func BenchmarkClusterQuiet(b *testing.B) {
	const parts, every = 10_000, 60 * time.Millisecond
	p := newPatient(b)
	var rows [][]any
	for b.Loop() {
		v := p.begin(b, "/quiet", parts)
		at, sets := p.seen(b), p.sets(b)
		for n := range parts {
			p.pass(b, every)
			p.part(b, v, n)
		}
		during := p.seen(b).less(at)
		p.idle(b, v)
		writes, index := p.seen(b).less(at).writes, p.cost.armed+p.cost.moved
		rows = [][]any{
			{"index writes: armed, then moved because parts came (at most 25)", index},
			{"commands on sorted sets behind them, the entry's end included", p.sets(b) - sets},
			{"write transactions from begin until it is parked (1)", writes},
			{"database calls while parts came (0)", during.writes + during.statements},
			{"Redis scripts of the timers (a touch at most every 20 ms)", during.scripts},
			{"s from the last part until it was parked (30)", p.parkedAfter().Seconds()},
		}
		if index > 25 || writes != 1 || during.statements+during.writes != 0 || p.cost.fired != 1 {
			b.Errorf("%d index writes, %d transactions, %d statements, fired %d times", index, writes, during.statements, p.cost.fired)
		}
	}
	table(b, "10,000 parts over 10 minutes, idle 30 s", rows...)
	b.ReportMetric(0, "ns/op")
}

// BenchmarkClusterWrites counts the write transactions of uploads on MariaDB and Redis, by the
// number of parts and pauses.
func BenchmarkClusterWrites(b *testing.B) {
	p := newPatient(b)
	rows := [][]any{{"parts", "pauses", "write transactions (3 and 2 for each pause)"}}
	for b.Loop() {
		for _, parts := range []int{1, 100, 1000, 10_000} {
			for pauses := range min(4, parts) {
				before := p.seen(b).writes
				p.stretches(b, parts, pauses+1)
				got := p.seen(b).writes - before
				rows = append(rows, []any{parts, pauses, got})
				if got != int64(3+2*pauses) {
					b.Errorf("%d parts with %d pauses: %d transactions", parts, pauses, got)
				}
			}
		}
	}
	table(b, "database writes of one upload", rows...)
	b.ReportMetric(0, "ns/op")
}

// stretches uploads a file in n stretches of parts, and lets it idle until it is parked between
// them.
func (p *patient) stretches(b *testing.B, parts, n int) {
	b.Helper()
	v := p.begin(b, "/"+servicetest.Unique(), parts)
	for i := range n {
		for part := i; part < parts; part += n {
			p.part(b, v, part)
		}
		if i < n-1 {
			p.idle(b, v)
		}
	}
	_, _, err := p.Complete(b.Context(), p.who, v.ID, upload.Complete{})
	must(b, err)
}

func (p *patient) begin(b *testing.B, path string, parts int) upload.View {
	b.Helper()
	begin := upload.Begin{Path: uploadtest.Path(b, path), Size: drive.ByteSize(parts) * drive.MiB}
	v, err := p.Begin(b.Context(), p.who, begin, nil)
	must(b, err)
	p.cost.armed, p.cost.moved, p.cost.fired, p.next = 1, 0, 0, p.clock.Now()
	return v
}

func (p *patient) part(b *testing.B, v upload.View, n int) {
	b.Helper()
	must(b, p.Put(b.Context(), p.who, v.ID, upload.PutPart{N: n, Size: drive.MiB}, nil))
}

// idle advances the clock until the upload is parked.
func (p *patient) idle(b *testing.B, v upload.View) {
	b.Helper()
	for p.cost.fired = 0; p.cost.fired == 0; {
		p.pass(b, time.Second)
	}
	got, err := p.Get(b.Context(), p.who, v.ID)
	must(b, err)
	if got.State != "parked" {
		b.Fatalf("its timer fired and it is %s", got.State)
	}
}

// pass advances the clock, flushes the touches, and handles due timers if the queue wants to be
// polled.
func (p *patient) pass(b *testing.B, d time.Duration) {
	b.Helper()
	p.clock.Advance(d)
	must(b, p.queue.Flush(b.Context()))
	if p.clock.Now().Before(p.next) {
		return
	}
	due, err := p.queue.Lease(b.Context(), timer.Park, 10, time.Minute)
	must(b, err)
	p.cost.moved += due.Early
	for _, f := range due.Fired {
		p.cost.fired++
		must(b, p.OnPark(b.Context(), f))
		_, err := p.queue.Settle(b.Context(), []timer.Outcome{{Key: f.Key, Token: f.Token, Verdict: timer.Done}})
		must(b, err)
	}
	p.next = p.clock.Now().Add(min(due.Wait, time.Second*30))
}

// parkedAfter returns the time since the last part.
func (p *patient) parkedAfter() time.Duration { return p.clock.Now().Sub(p.last) }

// sets returns how many writes to sorted sets Redis has executed.
func (p *patient) sets(b *testing.B) int {
	b.Helper()
	all := commands(b, p.redis)
	return all["zadd"] + all["zrem"]
}

// staging records the parts of uploads like a shared staging, but stores no bytes.
type staging struct {
	blob.Staging // methods that are not overridden are not called
	now          func() time.Time

	mu    sync.Mutex
	parts map[drive.UploadID]*journal
	last  time.Time
}

// journal is the list of parts of one upload.
type journal struct {
	gen  int64 // generation; Fence rejects earlier ones
	all  []blob.Part
	last drive.Time
}

// Caps implements blob.Staging.
func (s *staging) Caps() blob.Caps { return blob.Caps{Shared: true} }

func (s *staging) Create(_ context.Context, ref blob.Ref) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts[ref.ID] = &journal{last: drive.TimeOf(s.now())}
	return nil
}

func (s *staging) Write(_ context.Context, ref blob.Ref, w blob.Write, _ blob.Body) (blob.Part, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.parts[ref.ID]
	if w.Gen <= j.gen {
		return blob.Part{}, drive.Fail(drive.WrongState)
	}
	part := blob.Part{N: w.N, Size: w.Size, Session: w.Session}
	s.last = s.now()
	j.all, j.last = append(j.all, part), drive.TimeOf(s.last)
	return part, nil
}

func (s *staging) Load(_ context.Context, ref blob.Ref) (x blob.Staged, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.parts[ref.ID]
	x.Parts, x.Last, x.Now = slices.Clone(j.all), j.last, drive.TimeOf(s.now())
	slices.SortFunc(x.Parts, func(a, b blob.Part) int { return a.N - b.N })
	for _, p := range x.Parts {
		x.Held += p.Size
	}
	return x, nil
}

func (s *staging) Fence(ctx context.Context, ref blob.Ref, gen int64) (blob.Staged, error) {
	s.mu.Lock()
	j := s.parts[ref.ID]
	j.gen = max(j.gen, gen)
	s.mu.Unlock()
	return s.Load(ctx, ref)
}

func (s *staging) Seal(context.Context, blob.Ref, drive.ByteSize) error { return nil }

func (s *staging) Remove(context.Context, blob.Ref) error { return nil }
