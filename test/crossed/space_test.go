package crossed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/account"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/testkit/depth"
	"example.org/smartdrive/internal/usecase/space"
	"example.org/smartdrive/internal/usecase/upload"
)

// Members of one space begin a thousand uploads concurrently, through two instances on MySQL and
// one on SQLite. Some uploads are completed or canceled, some files are deleted, some parts break
// off, and an administrator changes the total. The history is linearizable, and the versions of the
// ledger's row follow that order.
func TestLedgerOfASpaceIsLinearizable(t *testing.T) {
	t.Parallel()
	for range depth.Pick(1, 1, 5) {
		c := newCrowd(t, depth.Pick(60, 1000, 1000))
		var all sync.WaitGroup
		for i := range c.sent {
			all.Go(func() { c.live(t, i) })
		}
		all.Wait()
		c.setTotal(t, 2*c.total) // a total that was set below what is there makes no row wrong
		check(t, c.in[0].db)
		history := c.history(t)
		if got := porcupine.CheckOperationsTimeout(spaceLedger(c.total), history, time.Minute); got != porcupine.Ok {
			t.Errorf("no ledger would have answered so: %s", got)
		}
	}
}

// crowd holds the members of a space and the replies they got.
type crowd struct {
	in      []*instance
	spaces  *space.Spaces
	admin   drive.Who
	members []drive.Who // the first one manages it
	space   space.View
	total   drive.ByteSize // at first
	start   time.Time
	sent    []sent
	begun   atomic.Int64
	mu      sync.Mutex
	acked   map[deed]during
}

// sent is a begin. No two begins have the same size.
type sent struct {
	size drive.ByteSize
	out  answer
	at   during
}

// deed is a change of the ledger. It is identified by its kind and by the size or the total.
type deed struct {
	what string
	of   drive.ByteSize
}

const (
	begun     = "begin"
	completed = "complete"
	cancelled = "cancel" // the reservation goes, and what has arrived is held
	cleared   = "clear"  // what was held is off the disk
	deleted   = "delete"
	set       = "set the total"
)

// during is between a request and its reply, in nanoseconds since the start.
type during struct{ call, end int64 }

func newCrowd(t *testing.T, begins int) *crowd {
	t.Helper()
	instances, source := 1, ""
	if sqldbtest.OnMySQL() {
		instances = 2
		source, _ = sqldbtest.Empty(t) // others do not get one with a trigger
	}
	_, in := openSome(t, instances, source)
	db := in[0].db
	cheap := account.Options{Cost: account.Cost{MemoryKiB: 64, Passes: 1, Threads: 1}}
	users := account.NewUsers(db, account.NewAuth(db, cheap), cheap)
	c := &crowd{
		in: in, total: drive.ByteSize(500 * begins), start: time.Now(), sent: make([]sent, begins), acked: map[deed]during{},
		spaces: space.New(space.Parts{DB: db, Access: access.New(access.Options{DB: db}), Users: users, Tree: in[0].tree}, space.Options{}),
	}
	for i := range c.sent {
		c.sent[i].size = drive.ByteSize(1000 + 2*i)
	}
	for i := range 20 {
		d, err := users.Draft(t.Context(), fmt.Sprintf("person %d", i), "correct horse battery", false)
		if err == nil {
			err = db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
				_, err := users.Create(ctx, tx, d)
				return err
			})
		}
		if err != nil {
			t.Fatal(err)
		}
		c.members = append(c.members, drive.Who{User: d.User().ID, Account: d.Account()})
	}
	c.admin = c.members[0]
	c.admin.Admin = true
	c.found(t)
	chronicle(t, db)
	return c
}

// found creates the space. Some users are members through a group.
func (c *crowd) found(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	v, err := c.spaces.Create(ctx, c.admin, space.NewSpace{Name: "the lot", Total: space.Total{Given: true, Bytes: &c.total}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.space = v
	team, err := c.spaces.CreateGroup(ctx, c.admin, "the many", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.spaces.Grant(ctx, c.admin, space.NewGrant{
		Node: v.Root, To: space.Principal{Kind: access.Group, ID: drive.PrincipalID(team.ID)}, Role: access.Editor,
	}, nil)
	for i, m := range c.members[1:] {
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			err = c.spaces.AddMember(ctx, c.admin, team.ID, m.User)
			continue
		}
		role := []access.Role{access.Uploader, access.Editor, access.Manager}[i/2%3]
		_, err = c.spaces.Grant(ctx, c.admin, space.NewGrant{
			Node: v.Root, To: space.Principal{Kind: access.User, ID: drive.PrincipalID(m.User)}, Role: role,
		}, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// live sends a file, or what befalls one instead.
func (c *crowd) live(t *testing.T, i int) {
	s, in, who := &c.sent[i], c.in[i%len(c.in)], c.members[i/len(c.in)%len(c.members)]
	var v upload.View
	call := c.now()
	v, s.out = beginIn(t, in, who, c.space, s.size)
	s.at = during{call, c.now()}
	if s.out.ok {
		c.ack(deed{begun, s.size}, s.at)
	}
	c.resize(t, int(c.begun.Add(1)))
	if !s.out.ok {
		return
	}
	body := bytes.Repeat([]byte(fmt.Sprintf("%08d", i)), int(s.size)/8+1)[:s.size]
	put := func(body io.Reader) error {
		return in.uploads.Put(context.Background(), who, v.ID, upload.PutPart{Size: s.size}, body)
	}
	if i%3 > 0 {
		if err := put(io.LimitReader(bytes.NewReader(body), int64(s.size/2))); err == nil {
			t.Error("a part of which half is missing was taken")
		}
	}
	if i%5 > 1 {
		if err := put(bytes.NewReader(body)); err != nil {
			t.Errorf("put: %v", err)
		}
	}
	switch i % 5 {
	case 0: // it stays open
	case 1, 2:
		c.do(t, []deed{{cancelled, s.size}, {cleared, s.size}}, func(ctx context.Context) error { return in.uploads.Cancel(ctx, who, v.ID) })
	case 3, 4:
		id := v.ID
		c.do(t, []deed{{completed, s.size}}, func(ctx context.Context) (err error) {
			for err == nil && v.Node == nil { // a seal may take longer than the server lets one wait
				v, _, err = in.uploads.Complete(ctx, who, id, upload.Complete{})
			}
			return err
		})
		if i%5 == 4 && v.Node != nil {
			c.do(t, []deed{{deleted, s.size}}, func(ctx context.Context) error {
				_, err := in.files.DeletePermanently(ctx, c.members[0], v.Node.ID, tree.Expect{})
				return err
			})
		}
	}
}

// resize sets the total after the given number of begins: first below the used bytes, then up to a
// part of the requested bytes.
func (c *crowd) resize(t *testing.T, begins int) {
	all := len(c.sent)
	total, is := map[int]drive.ByteSize{
		all / 4: drive.ByteSize(200*all + 1), all / 2: drive.ByteSize(500*all + 3), all * 3 / 4: drive.ByteSize(450*all + 7),
	}[begins]
	if is {
		c.setTotal(t, total)
	}
}

func (c *crowd) setTotal(t *testing.T, total drive.ByteSize) {
	c.do(t, []deed{{set, total}}, func(ctx context.Context) error {
		_, err := c.spaces.Set(ctx, c.admin, c.space.ID, space.Change{Total: space.Total{Given: true, Bytes: &total}})
		return err
	})
}

// do does what must succeed. On a busy machine the last of a thousand wait for longer than a
// transaction may.
func (c *crowd) do(t *testing.T, what []deed, act func(context.Context) error) {
	call := c.now()
	err := act(context.Background())
	for errors.Is(err, sqldb.ErrUnwritten) {
		err = act(context.Background())
	}
	if err != nil {
		t.Errorf("%v: %v", what, err)
	}
	for _, d := range what {
		c.ack(d, during{call, c.now()})
	}
}

func (c *crowd) now() int64 { return time.Since(c.start).Nanoseconds() }

func (c *crowd) ack(d deed, at during) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.acked[d] = at
}

// beginIn begins a file in a space, and tells the version of the space's ledger.
func beginIn(t *testing.T, in *instance, who drive.Who, to space.View, size drive.ByteSize) (v upload.View, out answer) {
	once := func(ctx context.Context, tx *sqldb.Tx, effect func(context.Context, *sqldb.Tx) (upload.View, error)) (upload.View, error) {
		v, err := effect(ctx, tx)
		b, failed := quota.Ledger{}.Get(ctx, tx, to.ID) // whose row this transaction holds
		out.version = b.Version
		return v, errors.Join(err, failed)
	}
	b := upload.Begin{Parent: to.Root, Name: drive.Name(fmt.Sprint(int64(size))), Size: size}
	v, err := in.uploads.Begin(context.Background(), who, b, once)
	for errors.Is(err, sqldb.ErrUnwritten) {
		v, err = in.uploads.Begin(context.Background(), who, b, once)
	}
	if out.ok = err == nil; out.ok {
		return v, out
	}
	fact, known := errors.AsType[*drive.Error](err)
	if !known || fact.Kind != drive.Quota {
		t.Errorf("begin: %v", err)
		return v, out
	}
	out.available = fact.Args["available"].(drive.ByteSize)
	return v, out
}
