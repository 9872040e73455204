package demo

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"example.org/smartdrive/client"
)

// server is a child process that runs "smartdrive serve" on a loopback address.
type server struct {
	binary, data, address string
	idle                  time.Duration
	env                   []string // additional settings, such as a cluster's
	cmd                   *exec.Cmd
	log                   *bytes.Buffer // standard error of the process
	ended                 chan struct{} // closed when the process has ended
}

// readyWithin bounds the start of a server. The first instance of a cluster creates the tables,
// which takes long.
const readyWithin = 3 * time.Minute

// newServer returns a server with a free address; start runs it. An upload without activity for
// idle is parked (--upload-idle). On an error the server is not usable.
func newServer(ctx context.Context, binary, data string, idle time.Duration) (*server, error) {
	address, err := freeAddress(ctx)
	return &server{binary: binary, data: data, address: address, idle: idle}, err
}

// start runs the server and waits until it prints that it is ready. It fails if the process ends
// before.
func (s *server) start(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, s.binary, "serve", "--data", s.data, "--listen", s.address, //nolint:gosec // this program
		"--upload-idle", s.idle.String(), "--min-free", "0", "--log-level", "error")
	cmd.Env = append(withoutSettings(os.Environ()), s.env...)
	s.log = &bytes.Buffer{}
	cmd.Stderr = s.log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	ended, ready := make(chan struct{}), make(chan bool, 1)
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "SmartDrive is ready") {
				ready <- true
			}
		}
		_ = cmd.Wait() // the exit status of a killed process does not matter
	}()
	s.cmd, s.ended = cmd, ended
	select {
	case <-ready:
		return nil
	case <-ended:
		return fmt.Errorf("the server ended before it was ready:\n%s", s.log)
	case <-time.After(readyWithin):
		s.kill()
		return fmt.Errorf("the server is not ready after %s:\n%s", readyWithin, s.log)
	case <-ctx.Done():
		s.kill()
		return ctx.Err()
	}
}

// withoutSettings removes the environment variables that configure the server or a client.
func withoutSettings(env []string) []string {
	var kept []string
	for _, v := range env {
		if !strings.HasPrefix(v, "SMARTDRIVE_") {
			kept = append(kept, v)
		}
	}
	return kept
}

// kill kills the process (SIGKILL) and waits for its end. nil and a server that never started are
// allowed.
func (s *server) kill() {
	if s == nil || s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill() // fails only when the process has ended
	<-s.ended
}

// url returns the server's base URL.
func (s *server) url() string { return "http://" + s.address }

// logInAdmin returns a client of the initial administrator, whose password it reads from the data
// directory.
func (s *server) logInAdmin(ctx context.Context) (*client.Client, error) {
	password, err := os.ReadFile(filepath.Join(s.data, "initial-password"))
	if err != nil {
		return nil, fmt.Errorf("read the first password: %w", err)
	}
	return s.logInAs(ctx, "admin", strings.TrimSpace(string(password)))
}

// withToken returns a client that uses a session token, which another instance may have issued.
func (s *server) withToken(token string) (*client.Client, error) {
	api, err := client.New(client.Options{BaseURL: s.url(), UserAgent: "smartdrive-demo"})
	if err != nil {
		return nil, err
	}
	return api.WithToken(token), nil
}

// logInAs logs a user in and returns a client with the token.
func (s *server) logInAs(ctx context.Context, name, password string) (*client.Client, error) {
	api, err := s.withToken("")
	if err != nil {
		return nil, err
	}
	session, err := api.Login(ctx, name, password)
	if err != nil {
		return nil, fmt.Errorf("log in as %s: %w", name, err)
	}
	return api.WithToken(session.Token), nil
}
