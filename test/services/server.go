package services

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// kind is what a service has to say about itself.
type kind interface {
	// ports is how many it listens at. The first is the one that clients use.
	ports() int
	// create fills data, which is there and empty. It runs again when it did not come to its end.
	create(ctx context.Context, s *Server) error
	// command is the program in the foreground.
	command(s *Server) (*exec.Cmd, error)
	// ready is nil when clients are served.
	ready(ctx context.Context, s *Server) error
	// url is what SMARTDRIVE_TEST_<NAME> says; see internal/testkit/servicetest.
	url(s *Server) string
}

// Server is one process of a service. Its methods are not for concurrent use, but for URL and Addr
// after Start.
type Server struct {
	Dir string
	// Bound ends the process together with the thread that has started it, where the system can do
	// that. For tests, so that they leave nothing behind when they are killed.
	Bound bool

	kind  kind
	taken []int // ports
}

// URL is where clients find it, once it has been started.
func (s *Server) URL() string { return s.kind.url(s) }

// Addr is the host and the port that clients use, once it has been started.
func (s *Server) Addr() string { return s.addr(0) }

func (s *Server) addr(i int) string { return loopback + ":" + s.port(i) }

func (s *Server) port(i int) string { return strconv.Itoa(s.taken[i]) }

func (s *Server) path(name string) string { return filepath.Join(s.Dir, name) }

// Start starts the process unless it runs, on the data that is there, and waits until it serves
// clients.
func (s *Server) Start(ctx context.Context) error {
	for {
		started, err := s.Launch(ctx)
		if err != nil {
			return err
		}
		err = s.Await(ctx)
		if started || !errors.Is(err, errEnded) {
			return err
		} // it was on its way out when we came
	}
}

// Launch starts the process unless it runs, and does not wait until it serves clients. It returns
// whether it was this call that has started it.
func (s *Server) Launch(ctx context.Context) (bool, error) {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return false, fmt.Errorf("make the directory of a service: %w", err)
	}
	pid, err := lock(s.path("pid"))
	if errors.Is(err, errLocked) {
		s.taken, err = readPorts(s.path("ports"))
		return false, err
	}
	if err != nil {
		return false, err
	}
	defer pid.Close() // the process has it too: the lock stays
	// The last process's id is nobody's.
	if err := pid.Truncate(0); err != nil {
		return false, fmt.Errorf("forget the process id: %w", err)
	}
	ports, err := reserve(s.path("ports"), s.kind.ports())
	if err != nil {
		return false, err
	}
	defer ports.release()
	s.taken = ports.numbers
	if err := s.create(ctx); err != nil {
		return false, fmt.Errorf("make its data directory: %w", err)
	}
	ports.release() // it is the service's turn
	return true, s.spawn(pid)
}

// create makes the data directory again unless it is complete.
func (s *Server) create(ctx context.Context) error {
	if _, err := os.Stat(s.path("made")); err == nil {
		return nil
	}
	if err := os.RemoveAll(s.path("data")); err != nil {
		return err
	}
	if err := os.Mkdir(s.path("data"), 0o700); err != nil {
		return err
	}
	if err := s.kind.create(ctx, s); err != nil {
		return err
	}
	return os.WriteFile(s.path("made"), nil, 0o600)
}

func (s *Server) spawn(pid *os.File) error {
	log, err := s.log()
	if err != nil {
		return err
	}
	defer log.Close()
	cmd, err := s.kind.command(s)
	if err != nil {
		return err
	}
	if cmd.Dir == "" {
		cmd.Dir = s.path("data")
	}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{pid}
	cmd.SysProcAttr = detached(s.Bound)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", filepath.Base(cmd.Path), err)
	}
	go cmd.Wait() //nolint:errcheck // reaps it; whether it is gone is asked of the lock
	return writePID(pid, cmd.Process.Pid)
}

func (s *Server) log() (*os.File, error) {
	return os.OpenFile(s.path("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}

// run runs a command that prepares data and puts what it says into the log.
func (s *Server) run(cmd *exec.Cmd) error {
	out, err := cmd.CombinedOutput()
	if log, e := s.log(); e == nil {
		_, _ = log.Write(out) // the error is what counts
		log.Close()
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), err, lastLine(string(out)))
	}
	return nil
}

var errEnded = errors.New("the service has ended")

// Await waits until it serves clients, and fails with the end of its log when it has ended instead.
func (s *Server) Await(ctx context.Context) error {
	var last error
	err := poll(ctx, func() (bool, error) {
		try, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		last = s.kind.ready(try, s)
		pid, runs := s.process()
		if !runs {
			return false, fmt.Errorf("%w: %s", errEnded, s.lastWords())
		}
		return last == nil && pid != 0, nil // it may serve before its starter has written its id
	})
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("it is not ready: %w: %w", err, last)
	}
	return err
}

func (s *Server) lastWords() string {
	text, err := os.ReadFile(s.path("log"))
	if err != nil {
		return err.Error()
	}
	return lastLine(string(text))
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// PID is the id of its process, 0 when it does not run.
func (s *Server) PID() int {
	pid, _ := s.process()
	return pid
}

// process returns the id of its process, and whether there is one: while it is being started it has
// no id yet.
func (s *Server) process() (pid int, runs bool) {
	f, err := lock(s.path("pid"))
	if err == nil {
		closeNow(f)
		return 0, false
	}
	if !errors.Is(err, errLocked) {
		return 0, false
	}
	return readPID(s.path("pid")), true
}

// Kill ends the process at once and waits until it is gone. The data stays as it is at that moment.
func (s *Server) Kill(ctx context.Context) error { return s.end(ctx, syscall.SIGKILL) }

// Wipe kills the process and forgets its data: the next Start begins with nothing, at the same
// ports.
func (s *Server) Wipe(ctx context.Context) error {
	if err := s.Kill(ctx); err != nil {
		return err
	}
	return os.Remove(s.path("made"))
}

// patience is how long a service gets to stop in an orderly way.
const patience = 20 * time.Second

// Stop asks the process to end and waits until it is gone; after 20 s it is killed.
func (s *Server) Stop(ctx context.Context) error {
	orderly, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if s.end(orderly, syscall.SIGTERM) == nil {
		return nil
	}
	return s.Kill(ctx)
}

func (s *Server) end(ctx context.Context, signal syscall.Signal) error {
	if err := errors.Join(s.signal(signal), s.Resume()); err != nil { // a paused one hears nothing but SIGKILL
		return err
	}
	return poll(ctx, func() (bool, error) {
		_, runs := s.process()
		return !runs, nil
	})
}

// Pause stops the process without ending it and waits until it stands still: its connections stay
// open and nothing answers. Resume ends that.
func (s *Server) Pause(ctx context.Context) error {
	if err := s.signal(pauseSignal); err != nil {
		return err
	}
	return AwaitPaused(ctx, s.PID())
}

// AwaitPaused waits until a process that was told to stop stands still: some of its threads go on
// for a while.
func AwaitPaused(ctx context.Context, pid int) error {
	return poll(ctx, func() (bool, error) { return paused(pid) })
}

// Resume lets a paused process go on.
func (s *Server) Resume() error { return s.signal(resumeSignal) }

func (s *Server) signal(signal syscall.Signal) error {
	pid := s.PID()
	if pid == 0 {
		return nil // gone already
	}
	return kill(pid, signal)
}

// poll asks every 10 ms until it is done or fails, or the context ends.
func poll(ctx context.Context, done func() (bool, error)) error {
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
