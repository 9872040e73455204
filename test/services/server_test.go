package services_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.org/smartdrive/internal/testkit/servicetest"
	"example.org/smartdrive/test/services"
)

func newRedis(t *testing.T) *services.Server {
	t.Helper()
	root, err := services.Checkout()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "redis")
	s, err := services.Open(root, nil).Redis(t.Context(), dir, services.Options{Bound: true})
	if err != nil {
		servicetest.Missing(t, servicetest.Redis, err.Error())
	}
	t.Cleanup(func() {
		if err := s.Kill(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

func must(t *testing.T, do func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := do(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestSecondStartDoesNothing(t *testing.T) {
	t.Parallel()
	s := newRedis(t)
	must(t, s.Start)
	pid, addr := s.PID(), s.Addr()
	must(t, s.Start)
	if s.PID() != pid || pid == 0 {
		t.Errorf("process %d, then %d", pid, s.PID())
	}
	must(t, s.Kill)
	if s.PID() != 0 {
		t.Error("a killed process has an id")
	}
	must(t, s.Start)
	if s.PID() == pid || s.Addr() != addr {
		t.Errorf("after a kill it is process %d at %s; before it was %d at %s", s.PID(), s.Addr(), pid, addr)
	}
}

func TestManyStartersStartOneProcess(t *testing.T) {
	t.Parallel()
	first := newRedis(t)
	must(t, first.Start)
	must(t, first.Stop)
	var all sync.WaitGroup
	pids := make([]int, 8)
	for i := range pids {
		all.Go(func() {
			other := *first // as another process would have it
			if err := other.Start(t.Context()); err != nil {
				t.Error(err)
			}
			pids[i] = other.PID()
		})
	}
	all.Wait()
	for _, pid := range pids {
		if pid == 0 || pid != pids[0] {
			t.Fatalf("several processes: %v", pids)
		}
	}
}

func TestDataOutlivesTheProcessButNotAWipe(t *testing.T) {
	t.Parallel()
	s := newRedis(t)
	must(t, s.Start)
	get := func() error {
		db := redis.NewClient(&redis.Options{Addr: s.Addr()})
		defer db.Close()
		return db.Get(t.Context(), "k").Err()
	}
	db := redis.NewClient(&redis.Options{Addr: s.Addr()})
	defer db.Close()
	if err := db.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	must(t, s.Stop)
	must(t, s.Start)
	if err := get(); err != nil {
		t.Errorf("after a restart: %v", err)
	}
	must(t, s.Wipe)
	must(t, s.Start)
	if err := get(); err != redis.Nil {
		t.Errorf("after a wipe: %v", err)
	}
}

// TestOtherProcessesAreNotSignalled: a process id in a file is ignored if its process does not hold
// the lock, because another program may have the id.
func TestOtherProcessesAreNotSignalled(t *testing.T) {
	t.Parallel()
	s := newRedis(t)
	stranger := exec.Command("sleep", "60")
	if err := stranger.Start(); err != nil {
		t.Skip("there is no sleep: ", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- stranger.Wait() }()
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.Dir, "pid"), []byte(strconv.Itoa(stranger.Process.Pid)), 0o600); err != nil {
		t.Fatal(err)
	}
	if s.PID() != 0 {
		t.Error("a stranger is taken for the service")
	}
	must(t, s.Stop)
	must(t, s.Kill)
	if err := stranger.Process.Kill(); err != nil {
		t.Errorf("the stranger was ended: %v", err)
	}
	<-ended
}

func TestFailedServiceStartSaysWhy(t *testing.T) {
	t.Parallel()
	s := newRedis(t)
	must(t, s.Start)
	must(t, s.Stop)
	broken := filepath.Join(s.Dir, "data", "appendonlydir")
	if err := os.RemoveAll(broken); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(broken, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err == nil {
		t.Error("it started with a file in the place of its directory")
	}
}
