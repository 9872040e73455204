package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Password is that of users of tests and benchmarks: long enough, and not guessable.
const Password = "correct horse battery"

// Options say how a server is started.
type Options struct {
	Binary string
	Data   string    // --data
	Listen string    // --listen
	Args   []string  // more flags
	Env    []string  // added to this process's
	Log    io.Writer // gets its standard error
}

// Server is a running "smartdrive serve".
type Server struct {
	cmd   *exec.Cmd
	url   string
	ready chan struct{} // closed when it has said its line
	ended chan struct{} // closed when it is gone
	err   error         // of Wait, after ended

	mu   sync.Mutex
	said []string // all lines on standard output
}

// Start starts a server and does not wait for it to be ready.
func Start(o Options) (*Server, error) {
	s := &Server{ready: make(chan struct{}), ended: make(chan struct{})}
	s.cmd = exec.Command(o.Binary, append([]string{"serve", "--data", o.Data, "--listen", o.Listen}, o.Args...)...)
	s.cmd.Env = append(Environ(), o.Env...)
	s.cmd.Stderr = o.Log
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	go func() {
		defer close(s.ended)
		s.listen(out)
		s.err = s.cmd.Wait()
	}()
	return s, nil
}

// Environ is this process's environment without settings of SmartDrive: they must not leak into a
// test.
func Environ() []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "SMARTDRIVE_") {
			env = append(env, v)
		}
	}
	return env
}

const readyLine = "SmartDrive is ready at "

func (s *Server) listen(out io.Reader) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		line := lines.Text()
		s.mu.Lock()
		s.said = append(s.said, line)
		first := len(s.said) == 1
		s.mu.Unlock()
		if url, ok := strings.CutPrefix(line, readyLine); ok && first {
			s.url = url
			close(s.ready)
		}
	}
}

// Said returns what it wrote to standard output so far.
func (s *Server) Said() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.said...)
}

// PID returns its process id.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Ended is closed when the process is gone.
func (s *Server) Ended() <-chan struct{} { return s.ended }

// Ready waits until it answers and returns its URL. An error says that it ended instead, or took
// too long.
func (s *Server) Ready(ctx context.Context) (string, error) {
	select {
	case <-s.ready:
		return s.url, nil
	case <-s.ended:
		return "", fmt.Errorf("the server ended before it was ready: %w", errors.Join(s.err, errEnded))
	case <-ctx.Done():
		return "", fmt.Errorf("the server is not ready: %w", ctx.Err())
	}
}

var errEnded = errors.New("ended")

// Kill ends it at once, with SIGKILL, and waits until it is gone. It may be called more than once.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill() // it may have ended by itself
	<-s.ended
}

// Stop asks it to end, with SIGTERM, and returns its exit code. After the time it is killed.
func (s *Server) Stop(within time.Duration) (int, error) {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return 0, fmt.Errorf("stop the server: %w", err)
	}
	late := time.NewTimer(within)
	defer late.Stop()
	select {
	case <-s.ended:
		return Exit(s.err)
	case <-late.C:
		s.Kill()
		return 0, fmt.Errorf("the server did not stop within %s", within)
	}
}

// Exit returns the exit code of a server that has ended.
func (s *Server) Exit() (int, error) {
	<-s.ended
	return Exit(s.err)
}
