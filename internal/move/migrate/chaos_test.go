package migrate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/instance"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/testkit/depth"
)

// fleet is the set of live processes.
type fleet struct {
	mu    sync.Mutex
	alive map[int64]bool
	next  int64
}

// seat is the membership of one process.
type seat struct {
	f  *fleet
	id int64
}

func (f *fleet) join() *seat {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next++
	if f.alive == nil {
		f.alive = map[int64]bool{}
	}
	f.alive[f.next] = true
	return &seat{f, f.next}
}

func (s *seat) leave() {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	delete(s.f.alive, s.id)
}

func (s *seat) Info() instance.Info { return instance.Info{Generation: s.id} }

func (s *seat) Alive(context.Context) (all []instance.Instance, err error) {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(s.f.alive)) {
		all = append(all, instance.Instance{Info: instance.Info{Generation: id}, Alive: true})
	}
	return all, nil
}

func (s *seat) Lead(ctx context.Context, _ string, job func(ctx context.Context) error) error {
	return job(ctx)
}

// stand is a process that may crash at any moment and is restarted.
type stand struct {
	c    *chaos
	mu   sync.RWMutex // held for reading by users of the process
	p    *process
	seat *seat
	died atomic.Bool // in the middle of a switch
}

// chaos runs users on two processes while the installation moves back and forth and faults occur.
type chaos struct {
	t      *testing.T
	site   *site
	fleet  fleet
	stands [2]*stand
	ops    atomic.Int64
	lost   atomic.Int64 // writes with unknown outcome
	reads  atomic.Int64
	fails  atomic.Int64
	stop   atomic.Bool
	seen   [NewOnly + 1]atomic.Int64 // writes by phase of the process
	crash  int
	goal   Phase // phase that the next steps aim for
	moves  map[string]int
}

func (s *stand) start() {
	for !s.c.stop.Load() {
		s.seat = s.c.fleet.join()
		s.c.site.member = func(*sqldb.DB) Member { return s.seat }
		p, err := s.c.site.start(s.c.site.old)
		if err == nil {
			p.m.switcher.takeoverAfter = 100 * time.Millisecond
			p.m.switcher.testHook = s.halt
			s.p = p
			return
		}
		s.seat.leave()
		s.c.t.Logf("start: %v", err)
	}
}

var errDied = errors.New("the process died")

// halt sometimes crashes the process at a step of a switch.
func (s *stand) halt(string) error {
	if rand.N(8) > 0 {
		return nil
	}
	s.died.Store(true)
	s.cut()
	return errDied
}

// cut makes all further calls of the process fail.
func (s *stand) cut() {
	for _, f := range s.p.faults {
		f.FailAll("", nil)
	}
}

// kill crashes and restarts the process.
func (s *stand) kill() {
	s.c.crash++
	s.cut()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seat.leave()
	s.p.stop(s.c.t)
	s.died.Store(false)
	s.start()
}

// user owns some rows and knows their contents.
type user struct {
	c       *chaos
	account drive.AccountID
	rng     *rand.Rand
	rows    map[string]userRow // by id
	ledger  int64
	n       int64
	unsure  *known // the rows if the last write, whose outcome is unknown, succeeded
}

type userRow struct {
	Slot  string
	Value int64
}

type known struct {
	Rows   map[string]userRow
	Ledger int64
}

func (u *user) know() known { return known{maps.Clone(u.rows), u.ledger} }

func (u *user) read(ctx context.Context, q sqldb.Querier) (k known, err error) {
	k.Rows = map[string]userRow{}
	rows, err := q.Query(ctx, "SELECT id, slot, link_epoch FROM users WHERE account_id = ?", u.account)
	type item struct {
		id string
		r  userRow
	}
	all, err := sqldb.Scan(rows, err, func(i *item, scan func(...any) error) error { return scan(&i.id, &i.r.Slot, &i.r.Value) })
	if err != nil {
		return k, err
	}
	for _, i := range all {
		k.Rows[i.id] = i.r
	}
	err = q.QueryRow(ctx, "SELECT finished FROM ledgers WHERE account_id = ?", u.account).Scan(&k.Ledger)
	return k, err
}

// change picks a random change and the state after it.
func (u *user) change() (do func(ctx context.Context, tx *sqldb.Tx) error, after known) {
	after = u.know()
	u.n++
	ids := slices.Sorted(maps.Keys(after.Rows))
	exec := func(statements ...[]any) func(ctx context.Context, tx *sqldb.Tx) error {
		return func(ctx context.Context, tx *sqldb.Tx) error {
			for _, s := range statements {
				if _, err := tx.Exec(ctx, s[0].(string), s[1:]...); err != nil {
					return err
				}
			}
			return nil
		}
	}
	ledger := []any{"UPDATE ledgers SET finished = finished + 1 WHERE account_id = ?", u.account}
	switch what := u.rng.IntN(10); {
	case what < 2 && len(ids) < 4:
		id := drive.NewID[drive.UserID]().String()
		slot := fmt.Sprintf("%s %d", u.account, u.n)
		after.Rows[id] = userRow{slot, u.n}
		after.Ledger++
		return exec([]any{"INSERT INTO users (id, account_id, name, slot, password, admin, state, link_epoch, created_at, updated_at) " +
			"VALUES (?, ?, '', ?, '', 0, 'active', ?, 1, 1)", id, u.account, slot, u.n}, ledger), after
	case what < 3 && len(ids) > 1:
		last := ids[len(ids)-1] // the first one has a session that refers to it
		delete(after.Rows, last)
		return exec([]any{"DELETE FROM users WHERE id = ?", last}), after
	case what < 6 && len(ids) > 1: // exchange a unique key
		a, b := after.Rows[ids[0]], after.Rows[ids[1]]
		const set = "UPDATE users SET slot = ? WHERE id = ?"
		after.Rows[ids[0]], after.Rows[ids[1]] = userRow{b.Slot, a.Value}, userRow{a.Slot, b.Value}
		return exec([]any{set, "between " + ids[0], ids[0]}, []any{set, a.Slot, ids[1]}, []any{set, b.Slot, ids[0]}), after
	case what < 9 && len(ids) > 0:
		id := ids[u.rng.IntN(len(ids))]
		after.Rows[id] = userRow{after.Rows[id].Slot, u.n}
		after.Ledger++
		return exec([]any{"UPDATE users SET link_epoch = ? WHERE id = ?", u.n, id}, ledger), after
	}
	after.Ledger++
	return exec(ledger), after
}

// act writes, or reads and compares.
func (u *user) act() {
	s := u.c.stands[u.rng.IntN(2)]
	u.c.ops.Add(1)
	if u.rng.IntN(3) == 0 {
		u.look(s)
		return
	}
	do, after := u.change()
	s.mu.RLock()
	err := s.p.db.Write(context.Background(), do)
	phase := s.p.m.State().Phase
	s.mu.RUnlock()
	if err == nil {
		u.rows, u.ledger = after.Rows, after.Ledger
		u.c.seen[phase].Add(1)
		return
	}
	u.c.fails.Add(1)
	u.settle(after)
}

func (u *user) look(s *stand) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	got, err := u.read(context.Background(), s.p.db.For(u.account))
	u.c.reads.Add(1)
	if err != nil {
		u.c.fails.Add(1)
	} else if diff := cmp.Diff(u.know(), got); diff != "" {
		u.fail(s, "a read", diff)
	}
}

// settle determines the outcome of a write that returned an error.
func (u *user) settle(after known) {
	for {
		s := u.c.stands[u.rng.IntN(2)]
		got, err := u.ask(s)
		switch {
		case err != nil && u.c.stop.Load():
			u.unsure = &after
			return
		case err != nil: // this process is crashing: the other one may know
			u.c.lost.Add(1)
			continue
		case cmp.Equal(got, after):
			u.rows, u.ledger = after.Rows, after.Ledger
		case !cmp.Equal(got, u.know()):
			u.fail(s, "after an error", cmp.Diff(u.know(), got))
		}
		return
	}
}

// ask reads inside a transaction.
func (u *user) ask(s *stand) (got known, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	err = s.p.db.Write(context.Background(), func(ctx context.Context, tx *sqldb.Tx) (err error) {
		got, err = u.read(ctx, tx)
		return err
	})
	return got, err
}

func (u *user) fail(s *stand, what, diff string) {
	u.c.t.Errorf("%s of account %s at %+v (-known +got):\n%s", what, u.account, s.p.m.State(), diff)
	u.c.stop.Store(true)
}

// TestChaos is C1: no acknowledged write is lost or reverted, in any phase, across switches in both
// directions, under any fault. A read through any process sees what its user has written.
func TestChaos(t *testing.T) {
	t.Parallel()
	for _, pair := range pairs[:2] {
		t.Run(pair.name, func(t *testing.T) {
			t.Parallel()
			runChaos(t, pair.from(t), pair.to(t))
		})
	}
}

func runChaos(t *testing.T, from, to *place) {
	goal, limit := int64(depth.Pick(500, 2_000, 20_000)), time.Duration(depth.Pick(5, 15, 80))*time.Second
	if os.Getenv("SMARTDRIVE_SOAK") != "" {
		goal, limit = 1_000_000, 3*time.Hour
	}
	c := &chaos{t: t, site: newSite(t, from, to), moves: map[string]int{}, goal: WriteNew}
	for i := range c.stands {
		c.stands[i] = &stand{c: c}
		c.stands[i].start()
	}
	var work sync.WaitGroup
	users := c.hire(24)
	for _, u := range users {
		work.Go(func() {
			for !c.stop.Load() {
				u.act()
			}
		})
	}
	for _, s := range c.stands {
		work.Go(s.poll)
	}
	for end := time.Now().Add(limit); (c.ops.Load() < goal || c.moves["advance from 3"] < 4) && time.Now().Before(end) && !c.stop.Load(); {
		c.move()
	}
	c.stop.Store(true)
	work.Wait()
	c.finish(users)
	if os.Getenv("SMARTDRIVE_SOAK") != "" && !t.Failed() {
		c.wantAll(goal)
	}
	var by []int64
	for i := range c.seen {
		by = append(by, c.seen[i].Load())
	}
	t.Logf("%d operations (%d reads, %d failed, %d unknown), writes by phase %v, %d crashes, %v", c.ops.Load(), c.reads.Load(), c.fails.Load(), c.lost.Load(), by, c.crash, c.moves)
}

// wantAll checks that a run was long enough and reached all phases.
func (c *chaos) wantAll(goal int64) {
	c.t.Helper()
	if did := c.ops.Load(); did < goal {
		c.t.Errorf("%d operations of %d in the time that there is", did, goal)
	}
	for phase := Fill; phase <= WriteNew; phase++ {
		if c.seen[phase].Load() == 0 || c.moves["roll back from "+phase.String()] == 0 {
			c.t.Errorf("phase %d: %d writes, and %d times back from it", phase, c.seen[phase].Load(), c.moves["roll back from "+phase.String()])
		}
	}
}

func (c *chaos) hire(n int) (users []*user) {
	ids := seed(c.t, c.stands[0].p.db, n)
	for i, id := range ids {
		u := &user{c: c, account: id, rng: rand.New(rand.NewPCG(uint64(i), 1))}
		k, err := u.read(context.Background(), c.stands[0].p.db)
		must(c.t, err)
		u.rows, u.ledger = k.Rows, k.Ledger
		users = append(users, u)
	}
	return users
}

// poll does what Run does at its own times, so processes are up to one phase apart.
func (s *stand) poll() {
	for !s.c.stop.Load() {
		s.mu.RLock()
		err := errors.Join(s.p.m.participant.runOnce(context.Background()), s.p.m.participant.leadOnce(context.Background()))
		_ = err // caused by faults
		if s.p.m.apply.lost.Load() {
			s.c.t.Error("a side is said to have lost changes, and none has")
			s.c.stop.Store(true)
		}
		s.mu.RUnlock()
		_ = wait(context.Background(), time.Duration(rand.N(60))*time.Millisecond)
	}
}

// move changes the migration or the processes.
func (c *chaos) move() {
	s := c.stands[rand.N(2)]
	s.mu.RLock()
	m := s.p.m
	ctx := context.Background()
	var what string
	var err error
	at := m.State()
	switch n := rand.N(20); {
	case n < 2:
		what = "fault"
		c.fault(s.p)
	case n == 2:
		s.mu.RUnlock()
		s.kill()
		return
	case at.ID == "":
		what = "start"
		_, err = m.Start(ctx, Request{ToDB: c.site.new.at})
	case at.Phase == c.goal:
		c.goal = DualWrite + Phase(rand.N(3))
		if rand.N(12) == 0 {
			c.goal = Freeze
		}
	case at.Phase == Freeze && n < 8: // an interrupted rollback can only be repeated
		what = "roll back from " + at.Phase.String()
		_, err = m.Rollback(ctx, at.Phase)
	case n < 6 && at.Phase == ReadNew:
		what = "percent"
		err = m.Percent(ctx, rand.N(101), nil)
	case at.Phase > c.goal:
		what = "roll back from " + at.Phase.String()
		if at.Phase == WriteNew {
			c.ready(m)
		}
		_, err = m.Rollback(ctx, at.Phase)
	default:
		what = "advance from " + at.Phase.String()
		c.ready(m)
		_, err = m.Advance(ctx, at.Phase)
	}
	if err != nil && os.Getenv("CHAOS_LOG") != "" {
		c.t.Logf("%s: %v", what, err)
	}
	if err == nil {
		c.moves[what]++
	}
	died := s.died.Load()
	s.mu.RUnlock()
	if died {
		s.kill()
	}
	_ = wait(ctx, time.Duration(rand.N(40))*time.Millisecond)
}

// ready waits a little for the conditions of the gate, which decides itself.
func (c *chaos) ready(m *Migration) {
	ctx := context.Background()
	for end := time.Now().Add(time.Second); time.Now().Before(end); _ = wait(ctx, 10*time.Millisecond) {
		v, err := m.refresh(ctx)
		if err != nil || v == nil || v.primary == nil {
			continue
		}
		if g, err := m.checkInstances(ctx, v, ready); err != nil || !g.OK {
			continue
		}
		if g, err := m.checkEvidence(ctx, v); v.Phase < DualWrite || err == nil && g.OK {
			return
		}
		_ = m.Verify(ctx)
	}
}

// fault makes a call of a process fail before or after it takes effect, on either side.
func (c *chaos) fault(p *process) {
	f := p.faults[c.site.old.at]
	if rand.N(2) == 0 {
		f = p.faults[c.site.new.at]
	}
	calls := []sqldbtest.Call{sqldbtest.Begin, sqldbtest.Commit, sqldbtest.Exec, sqldbtest.Query}
	call := calls[rand.N(len(calls))]
	if rand.N(2) == 0 {
		f.Fail(call, 1+rand.N(20), nil)
	} else {
		f.LoseReply(call, 1+rand.N(20), nil)
	}
}

// finish waits for completion and compares the users' knowledge with both sides.
func (c *chaos) finish(users []*user) {
	for _, s := range c.stands {
		for _, f := range s.p.faults {
			f.Clear()
		}
	}
	c.stands[1].p.stop(c.t) // its applier would disturb the comparison
	p := c.stands[0].p
	defer p.stop(c.t)
	deadline := time.Now().Add(2 * time.Minute)
	for p.m.currentSnapshot() != nil {
		err := p.m.participant.runOnce(c.t.Context())
		if v := p.m.currentSnapshot(); err == nil && (v == nil || v.primary != nil) {
			break
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("nobody becomes the primary: %v", err)
		}
		must(c.t, wait(c.t.Context(), 20*time.Millisecond))
	}
	for _, u := range users {
		must(c.t, p.db.Write(c.t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			got, err := u.read(ctx, tx)
			if diff := cmp.Diff(u.know(), got); err == nil && diff != "" && (u.unsure == nil || !cmp.Equal(*u.unsure, got)) {
				c.t.Errorf("at the end, account %s (-known +got):\n%s", u.account, diff)
			}
			return err
		}))
	}
	v := p.m.currentSnapshot()
	if v == nil || v.Phase < DualWrite || v.other == nil {
		return
	}
	must(c.t, p.m.apply.applyPending(c.t.Context()))
	if diff := cmp.Diff(dump(c.t, p.m, v.primary), dump(c.t, p.m, v.other)); diff != "" {
		c.t.Errorf("at the end, in phase %d, the sides differ (-primary +secondary):\n%s", v.Phase, diff)
	}
}
