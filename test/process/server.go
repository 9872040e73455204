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

// Password is the password of users in tests and benchmarks. It satisfies the password rules.
const Password = "correct horse battery"

// Options configure Start.
type Options struct {
	Binary string
	Data   string    // value of --data
	Listen string    // value of --listen
	Args   []string  // further flags
	Env    []string  // added to the environment
	Log    io.Writer // receives standard error
}

// Server is a running "smartdrive serve".
type Server struct {
	cmd   *exec.Cmd
	url   string
	ready chan struct{} // closed when the ready line was read
	ended chan struct{} // closed when the process has ended
	err   error         // of Wait; valid after ended

	mu   sync.Mutex
	said []string // lines on standard output
}

// Start starts a server without waiting until it is ready. The caller must call Kill or Stop.
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

// Environ returns the environment without SmartDrive's variables, which must not leak into tests.
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

// listen records standard output and closes ready at the ready line, which must be the first.
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

// Said returns the lines that the server has written to standard output.
func (s *Server) Said() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.said...)
}

// PID returns the process id.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Ended is closed when the process has ended.
func (s *Server) Ended() <-chan struct{} { return s.ended }

// Ready waits until the server is ready and returns its URL. It fails if the process ends first or
// ctx is done.
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

// Kill sends SIGKILL and waits for the end of the process. It may be called more than once.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill() // the process may have ended already
	<-s.ended
}

// Stop sends SIGTERM and returns the exit code. If the process takes longer than within, Stop kills
// the process and fails.
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

// Exit waits for the end of the process and returns its exit code.
func (s *Server) Exit() (int, error) {
	<-s.ended
	return Exit(s.err)
}
