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

// kind defines a service.
type kind interface {
	// ports returns the number of ports; the first is for clients.
	ports() int
	// create fills the empty data directory. It is repeated if it was interrupted.
	create(ctx context.Context, s *Server) error
	// command returns the command that runs the service in the foreground.
	command(s *Server) (*exec.Cmd, error)
	// ready returns nil when the service accepts clients.
	ready(ctx context.Context, s *Server) error
	// url returns the value of SMARTDRIVE_TEST_<NAME>; see internal/testkit/servicetest.
	url(s *Server) string
}

// Server is one process of a service. Its methods are not safe for concurrent use, except URL and
// Addr after Start.
type Server struct {
	Dir string
	// Bound ends the process when the thread that started it ends, if the system supports that, so
	// that killed tests leave no processes.
	Bound bool

	kind        kind
	portNumbers []int // ports, set by Launch
}

// URL returns the address for clients. The server must have been started.
func (s *Server) URL() string { return s.kind.url(s) }

// Addr returns host and port for clients. The server must have been started.
func (s *Server) Addr() string { return s.addr(0) }

// addr returns host and port of port i.
func (s *Server) addr(i int) string { return loopback + ":" + s.port(i) }

// port returns the number of port i.
func (s *Server) port(i int) string { return strconv.Itoa(s.portNumbers[i]) }

// path returns the path of a file in the server's directory.
func (s *Server) path(name string) string { return filepath.Join(s.Dir, name) }

// Start starts the process on the existing data, unless it runs, and waits until it accepts
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
		} // the running process was about to end: start it again
	}
}

// Launch starts the process unless it runs, without waiting until it accepts clients. It reports
// whether it started the process.
func (s *Server) Launch(ctx context.Context) (bool, error) {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return false, fmt.Errorf("make the directory of a service: %w", err)
	}
	pid, err := lock(s.path("pid"))
	if errors.Is(err, errLocked) {
		s.portNumbers, err = readPorts(s.path("ports"))
		return false, err
	}
	if err != nil {
		return false, err
	}
	defer pid.Close() // the process inherits the file and keeps the lock
	// The id of the previous process is no longer valid.
	if err := pid.Truncate(0); err != nil {
		return false, fmt.Errorf("forget the process id: %w", err)
	}
	ports, err := reserve(s.path("ports"), s.kind.ports())
	if err != nil {
		return false, err
	}
	defer ports.release()
	s.portNumbers = ports.numbers
	if err := s.create(ctx); err != nil {
		return false, fmt.Errorf("make its data directory: %w", err)
	}
	ports.release() // the service listens now
	return true, s.spawn(pid)
}

// create recreates the data directory unless it is complete.
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

// spawn starts the process, which inherits the locked file pid.
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
	go cmd.Wait() // reaps the process; the lock shows whether it runs
	return writePID(pid, cmd.Process.Pid)
}

// log opens the log file for appending.
func (s *Server) log() (*os.File, error) {
	return os.OpenFile(s.path("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}

// run runs a command that prepares data and appends its output to the log.
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

// errEnded reports that the process ended before it was ready.
var errEnded = errors.New("the service has ended")

// Await waits until the service accepts clients. If the process ends first, it fails with errEnded
// and the last line of the log.
func (s *Server) Await(ctx context.Context) error {
	var last error
	err := poll(ctx, func() (bool, error) {
		try, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		last = s.kind.ready(try, s)
		pid, runs := s.process()
		if !runs {
			return false, fmt.Errorf("%w: %s", errEnded, s.lastLogLine())
		}
		return last == nil && pid != 0, nil // it may be ready before the starter has written its id
	})
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("it is not ready: %w: %w", err, last)
	}
	return err
}

// lastLogLine returns the last line of the log.
func (s *Server) lastLogLine() string {
	text, err := os.ReadFile(s.path("log"))
	if err != nil {
		return err.Error()
	}
	return lastLine(string(text))
}

// lastLine returns the last line of text.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// PID returns the process id, or 0 if the process does not run.
func (s *Server) PID() int {
	pid, _ := s.process()
	return pid
}

// process returns the process id and whether the process runs. While it starts, the id is 0.
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

// Kill kills the process and waits until it has ended. The data stays as it is.
func (s *Server) Kill(ctx context.Context) error { return s.end(ctx, syscall.SIGKILL) }

// Wipe kills the process and marks its data as incomplete: the next Start begins without data, on
// the same ports.
func (s *Server) Wipe(ctx context.Context) error {
	if err := s.Kill(ctx); err != nil {
		return err
	}
	return os.Remove(s.path("made"))
}

// stopTimeout is the time for an orderly stop.
const stopTimeout = 20 * time.Second

// Stop terminates the process and waits until it has ended. After 20 s it kills the process.
func (s *Server) Stop(ctx context.Context) error {
	orderly, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	if s.end(orderly, syscall.SIGTERM) == nil {
		return nil
	}
	return s.Kill(ctx)
}

// end signals the process and waits until it has ended.
func (s *Server) end(ctx context.Context, signal syscall.Signal) error {
	if err := errors.Join(s.signal(signal), s.Resume()); err != nil { // a paused process reacts only to SIGKILL
		return err
	}
	return poll(ctx, func() (bool, error) {
		_, runs := s.process()
		return !runs, nil
	})
}

// Pause stops all threads of the process and waits until they are stopped. Its connections stay
// open without replies. Resume continues it.
func (s *Server) Pause(ctx context.Context) error {
	if err := s.signal(pauseSignal); err != nil {
		return err
	}
	return AwaitPaused(ctx, s.PID())
}

// AwaitPaused waits until all threads of a stopped process are stopped.
func AwaitPaused(ctx context.Context, pid int) error {
	return poll(ctx, func() (bool, error) { return paused(pid) })
}

// Resume continues a paused process.
func (s *Server) Resume() error { return s.signal(resumeSignal) }

// signal signals the process, if it runs.
func (s *Server) signal(signal syscall.Signal) error {
	pid := s.PID()
	if pid == 0 {
		return nil // already ended
	}
	return kill(pid, signal)
}

// poll calls done every 10 ms until it returns true or an error, or ctx ends.
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
