package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/blobtest"
)

// errDead is the error of every call of a dead process.
var errDead = errors.New("process is dead")

// crasher makes a process die at its n-th call of a service: the call or its reply is lost, and all
// later calls fail. The zero value never does.
type crasher struct {
	mu     sync.Mutex
	at     int  // which call; 0: none
	served bool // the call itself is made
	calls  int
	dead   bool
	die    func() // called once
}

// call counts a call and reports whether it is made and whether its reply arrives.
func (g *crasher) call() (make, reply bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls++
	if g.dead {
		return false, false
	}
	if g.calls == g.at {
		g.dead = true
		g.die()
		return g.served, false
	}
	return true, true
}

// count returns the number of calls, and whether the process has died.
func (g *crasher) count() (calls int, dead bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.calls, g.dead
}

// crashingTransport is the HTTP transport of a process that may die.
type crashingTransport struct {
	*crasher
	next http.RoundTripper
}

func (m crashingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	may, reply := m.call()
	if !may {
		return nil, errDead
	}
	resp, err := m.next.RoundTrip(r)
	if err == nil && !reply {
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		return nil, errDead
	}
	return resp, err
}

// crashingRedis is the Redis hook of a process that may die.
type crashingRedis struct{ *crasher }

func (m crashingRedis) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (m crashingRedis) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		may, reply := m.call()
		var err error
		if may {
			err = next(ctx, cmds)
		}
		if !reply {
			err = errDead
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
		}
		return err
	}
}

func (m crashingRedis) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		may, reply := m.call()
		if !may {
			cmd.SetErr(errDead)
			return errDead
		}
		err := next(ctx, cmd)
		if !reply {
			err = errDead
			cmd.SetErr(err)
		}
		return err
	}
}

// uploadDriver runs one upload to its end like package upload does, repeating steps with unknown
// results. A new life continues where a dead one stopped.
type uploadDriver struct {
	ref   blob.Ref
	file  []byte
	other []byte // what part 1 becomes after the unseal
	stage int
}

func (l *uploadDriver) run(ctx context.Context, b *Bucket) error {
	s := b.Staging
	for stages := l.stages(s); l.stage < len(stages); l.stage++ {
		if err := stages[l.stage](ctx); err != nil {
			return err
		}
	}
	return nil
}

func (l *uploadDriver) stages(s *Staging) []func(context.Context) error {
	first, last := l.file[:l.ref.PartSize], l.file[l.ref.PartSize:]
	return []func(context.Context) error{
		func(ctx context.Context) error { return s.Create(ctx, l.ref) },
		func(ctx context.Context) error { return l.send(ctx, s, 1, 1, last) },
		func(ctx context.Context) error { return l.send(ctx, s, 1, 0, first) },
		func(ctx context.Context) error { return second(s.Fence(ctx, l.ref, 1)) },
		func(ctx context.Context) error { return s.Seal(ctx, l.ref, l.ref.Size) },
		func(ctx context.Context) error { return s.Unseal(ctx, l.ref) },
		func(ctx context.Context) error { return s.Drop(ctx, l.ref, 2, 1) },
		func(ctx context.Context) error { return l.send(ctx, s, 2, 1, l.other) },
		func(ctx context.Context) error { return second(s.Fence(ctx, l.ref, 2)) },
		func(ctx context.Context) error { return s.Seal(ctx, l.ref, l.ref.Size) },
		func(ctx context.Context) error { return s.Remove(ctx, l.ref) },
	}
}

// send sends a part like package upload does: it compares a part that exists, and fences a rebuilt
// journal.
func (l *uploadDriver) send(ctx context.Context, s *Staging, gen int64, n int, b []byte) error {
	_, err := blobtest.Send(ctx, s, l.ref, gen, n, b)
	if there, ok := errors.AsType[*blob.PartExistsError](err); ok {
		if there.Part.Size != drive.ByteSize(len(b)) {
			return err
		}
		return nil
	}
	if drive.IsKind(err, drive.WrongState) {
		return errors.Join(err, second(s.Fence(ctx, l.ref, gen-1)))
	}
	return err
}

func second[T any](_ T, err error) error { return err }

// TestCrashAtEveryCallLosesNothing lets a process die before each of its calls, and before each
// reply. The next process must finish the upload with the right bytes and leave nothing behind.
func TestCrashAtEveryCallLosesNothing(t *testing.T) {
	t.Parallel()
	calls := crashAndFinish(t, &crasher{})
	if calls < 30 {
		t.Fatalf("the upload made only %d calls: what is tested?", calls)
	}
	for name, served := range map[string]bool{"before it is made": false, "before the reply": true} {
		for at := 1; at <= calls; at++ {
			t.Run(fmt.Sprintf("call %d %s", at, name), func(t *testing.T) {
				t.Parallel()
				crashAndFinish(t, &crasher{at: at, served: served})
			})
		}
	}
}

// crashAndFinish lets one process die as g says and another finish its work. It returns the number
// of calls of the first.
func crashAndFinish(t *testing.T, g *crasher) (calls int) {
	t.Helper()
	o := testOptions(t)
	size := testPart + 5000
	l := &uploadDriver{file: blobtest.Bytes(1, size), other: blobtest.Bytes(99, 5000), ref: newRef(size)}
	ctx, die := context.WithCancel(t.Context())
	defer die()
	g.die = die
	doomed := o
	if g.at > 0 {
		doomed.Lease = testLease / 10 // for the heir waits until what it has left is over
	}
	doomed.Transport = crashingTransport{g, sharedTransport}
	doomed.Redis = redisAt(t)
	doomed.Redis.AddHook(crashingRedis{g})
	err := l.run(ctx, bucketAt(t, doomed))
	calls, died := g.count()
	if died != (err != nil) && g.at == 0 {
		t.Fatalf("died: %v, error: %v", died, err)
	}
	heir := bucketAt(t, o)
	eventually(t, func() error { return l.run(t.Context(), heir) })
	wantContent(t, heir, l.ref, append(append([]byte{}, l.file[:testPart]...), l.other...))
	wantNothingStaged(t, heir)
	return calls
}
