package redis_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"example.org/smartdrive/internal/engine/timer/redis"
	"example.org/smartdrive/internal/testkit/servicetest"
)

// server is a redis-server of the test's own, to be killed and started again. Its log is written
// before each reply, so a kill of the process loses nothing that was acknowledged; to sync it would
// only make the test wait for the disk. It listens at a socket in the file system: a port could be
// somebody else's while it is down.
type server struct {
	t    *testing.T
	addr string // the path of its socket
	dir  string
	run  *exec.Cmd
}

func startServer(t *testing.T) *server {
	t.Helper()
	short, err := os.MkdirTemp("", "redis") // the path of a socket has about 100 bytes, and the test's name can be long
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	s := &server{t: t, addr: filepath.Join(short, "socket"), dir: t.TempDir()}
	s.start()
	t.Cleanup(s.kill)
	return s
}

// start starts the server on what its directory holds.
func (s *server) start() {
	s.t.Helper()
	path, env := redisServer(s.t)
	s.run = exec.Command(path, "--port", "0", "--unixsocket", s.addr, "--dir", s.dir, "--appendonly", "yes", "--appendfsync", "no", "--save", "")
	s.run.Env = append(os.Environ(), env...)
	if err := s.run.Start(); err != nil {
		s.t.Fatal(err)
	}
	eventually(s.t, "redis-server listens", func() error {
		conn, err := net.Dial("unix", s.addr)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
	c := s.client()
	eventually(s.t, "redis-server answers", func() error { return c.Ping(s.t.Context()).Err() })
}

func (s *server) kill() {
	if s.run != nil {
		_ = s.run.Process.Kill()
		_ = s.run.Wait() // it was killed
		s.run = nil
	}
}

func (s *server) client() *goredis.Client {
	c := goredis.NewClient(&goredis.Options{Addr: s.addr, DialerRetries: 1, MaxRetries: -1, DialTimeout: patience, ReadTimeout: patience, WriteTimeout: patience})
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

func (s *server) options() redis.Options {
	return redis.Options{Addrs: []string{s.addr}, Namespace: servicetest.Unique()}
}

// redisServer returns the redis-server to run, and what its environment needs: the one on the PATH,
// or the one that the shared service runs from.
func redisServer(t *testing.T) (string, []string) {
	t.Helper()
	if path, err := exec.LookPath("redis-server"); err == nil {
		return path, nil
	}
	opt := at(t, servicetest.Redis)
	c := goredis.NewClient(&goredis.Options{Addr: opt.Addrs[0]})
	defer func() { _ = c.Close() }()
	pid := c.InfoMap(t.Context(), "server").Val()["Server"]["process_id"]
	exe, err := os.Readlink(filepath.Join("/proc", pid, "exe"))
	path := filepath.Join(filepath.Dir(exe), "redis-server") // exe may be what that is a link to
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		servicetest.Missing(t, servicetest.Redis, "no redis-server on the PATH, and the shared one is not of this machine")
	}
	// Unpacked from packages, it has its libraries beside it.
	libs, _ := filepath.Glob(filepath.Join(filepath.Dir(exe), "..", "lib", "*-linux-gnu*"))
	return path, []string{"LD_LIBRARY_PATH=" + strings.Join(libs, ":")}
}

// eventually polls until agrees returns nil, for state of other processes.
func eventually(t testing.TB, what string, agrees func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		err := agrees()
		if err == nil {
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, errors.Join(err, fmt.Errorf("not within three minutes")))
		}
	}
}
