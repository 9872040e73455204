// Package rig provides helpers for tests of the real binary: an installation in its own directory,
// servers, and users who send raw HTTP requests. It asserts only what a test requests.
package rig

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"example.org/smartdrive/test/process"
)

// Password is the password of every user in a test.
const Password = process.Password

// Patience bounds waits that normally take well under a second; the machine may be busy.
const Patience = 3 * time.Minute

// Site is an installation: a data directory and its settings.
type Site struct {
	Data string
	Args []string // further flags of every server and command
	Env  []string // further environment variables
}

// New returns an installation that was not started yet.
func New(t testing.TB, args ...string) *Site {
	t.Helper()
	return &Site{Data: filepath.Join(Dir(t), "data"), Args: args}
}

// Dir is t.TempDir with a shorter path, because the path of a Unix socket is limited.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sd-") //nolint:usetesting // path too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove the test's directory: %v", err)
		}
	})
	return dir
}

// Server is a running server of a site. URL is set once it is ready.
type Server struct {
	*process.Server
	URL string
	Log *Log
}

// Start starts a server and waits until it is ready. The server is killed when the test ends.
func (s *Site) Start(t testing.TB, args ...string) *Server {
	t.Helper()
	return s.StartEnv(t, nil, args...)
}

// StartEnv starts a server with further environment variables and waits until it is ready. The
// server is killed when the test ends.
func (s *Site) StartEnv(t testing.TB, env []string, args ...string) *Server {
	t.Helper()
	srv := s.Launch(t, env, args...)
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	var err error
	if srv.URL, err = srv.Ready(ctx); err != nil {
		t.Fatalf("%v\n%s", err, srv.Log)
	}
	return srv
}

// Launch starts a server without waiting until it is ready; URL stays empty. The server is killed
// when the test ends.
func (s *Site) Launch(t testing.TB, env []string, args ...string) *Server {
	t.Helper()
	log := new(Log)
	p, err := process.Start(process.Options{
		Binary: process.Binary(t), Data: s.Data, Listen: "127.0.0.1:0", Args: append(slices.Clip(s.Args), args...),
		Env: append(append([]string{"SMARTDRIVE_ADMIN_PASSWORD=" + Password}, s.Env...), env...), Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("the log of server %d:\n%s", p.PID(), log)
		}
	})
	return &Server{Server: p, Log: log}
}

// End stops a server with SIGTERM and fails the test unless it exits with 0.
func (s *Server) End(t testing.TB) {
	t.Helper()
	code, err := s.Stop(Patience)
	if err != nil || code != 0 {
		t.Fatalf("the server ended with %d, %v\n%s", code, err, s.Log)
	}
}

// Refused starts a server and fails the test unless it exits with 1, without output, and with all
// the words on standard error.
func (s *Site) Refused(t testing.TB, words ...string) {
	t.Helper()
	if r := s.Run(t, "", append([]string{"serve", "--listen", "127.0.0.1:0"}, s.Args...)...); r.Code != 1 || r.Out != "" {
		t.Fatalf("serve: %s; expected is a refusal with exit code 1", r)
	} else {
		r.Says(t, words...)
	}
}

// Admin runs "smartdrive admin" on the installation, with input on standard input.
func (s *Site) Admin(t testing.TB, input string, args ...string) Result {
	t.Helper()
	return s.Run(t, input, append([]string{"admin"}, args...)...)
}

// Run runs the binary with --data, waits for its end and returns the result.
func (s *Site) Run(t testing.TB, input string, args ...string) Result {
	t.Helper()
	return run(t, s.Env, input, append(args, "--data", s.Data))
}

// Client runs a client command whose settings are below home, and waits for its end.
func (s *Site) Client(t testing.TB, home, input string, args ...string) Result {
	t.Helper()
	return run(t, []string{"XDG_CONFIG_HOME=" + home}, input, args)
}

func run(t testing.TB, env []string, input string, args []string) Result {
	t.Helper()
	binary := process.Binary(t) // not counted in the timeout
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	var out, errs bytes.Buffer
	cmd.Env = append(process.Environ(), env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &errs
	code, err := process.Exit(cmd.Run())
	if err != nil {
		t.Fatalf("run %v: %v", args, err)
	}
	return Result{code, out.String(), errs.String()}
}

// Result is the exit code and the output of a command.
type Result struct {
	Code     int
	Out, Err string
}

func (r Result) String() string {
	return fmt.Sprintf("exit code %d\nstdout: %s\nstderr: %s", r.Code, r.Out, r.Err)
}

// OK fails the test unless the exit code is 0, and returns r.
func (r Result) OK(t testing.TB) Result {
	t.Helper()
	if r.Code != 0 {
		t.Fatal(r)
	}
	return r
}

// Says fails the test unless standard error contains all the words.
func (r Result) Says(t testing.TB, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(r.Err, w) {
			t.Errorf("%q is not said: %s", w, r)
		}
	}
}

// Log collects a server's log output. It is safe for concurrent use.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
