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

	"smartdrive/client"
)

// server is a child process that runs "smartdrive serve" on a loopback address.
type server struct {
	binary, data, address string
	idle                  time.Duration
	env                   []string // settings besides the flags, such as those of a cluster
	cmd                   *exec.Cmd
	log                   *bytes.Buffer // what the process wrote to standard error
	ended                 chan struct{} // closed when the process has ended
}

// readyWithin bounds the wait for a server's ready line; the first instance of a cluster creates
// the tables on a database server.
const readyWithin = 3 * time.Minute

// newServer chooses an address for a server; start runs it.
func newServer(ctx context.Context, binary, data string, idle time.Duration) (*server, error) {
	address, err := freeAddress(ctx)
	return &server{binary: binary, data: data, address: address, idle: idle}, err
}

// start runs the server on its data directory and waits until it is ready.
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
		_ = cmd.Wait() // how a killed process ended is not of interest
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

// withoutSettings drops the variables that would configure the server or a client.
func withoutSettings(env []string) []string {
	var kept []string
	for _, v := range env {
		if !strings.HasPrefix(v, "SMARTDRIVE_") {
			kept = append(kept, v)
		}
	}
	return kept
}

// kill ends the process as kill -9 does and waits for its end.
func (s *server) kill() {
	if s == nil || s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill() // fails only when the process has ended
	<-s.ended
}

func (s *server) url() string { return "http://" + s.address }

// logIn returns a client of the first administrator.
func (s *server) logIn(ctx context.Context) (*client.Client, error) {
	password, err := os.ReadFile(filepath.Join(s.data, "initial-password"))
	if err != nil {
		return nil, fmt.Errorf("read the first password: %w", err)
	}
	return s.client(ctx, "admin", strings.TrimSpace(string(password)))
}

// as returns a client of a session that another instance may have begun.
func (s *server) as(token string) (*client.Client, error) {
	api, err := client.New(client.Options{BaseURL: s.url(), UserAgent: "smartdrive-demo"})
	if err != nil {
		return nil, err
	}
	return api.WithToken(token), nil
}

// client logs a user in.
func (s *server) client(ctx context.Context, name, password string) (*client.Client, error) {
	api, err := s.as("")
	if err != nil {
		return nil, err
	}
	session, err := api.Login(ctx, name, password)
	if err != nil {
		return nil, fmt.Errorf("log in as %s: %w", name, err)
	}
	return api.WithToken(session.Token), nil
}
