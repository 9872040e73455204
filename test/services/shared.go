package services

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Shared is the set of services shared by all tests of a checkout, in a directory of the checkout.
type Shared struct {
	Dir   string
	Tools *Tools
}

// State is the result of starting a service.
type State struct {
	Name string // as in SMARTDRIVE_TEST_<NAME>, in lower case
	URL  string // empty if unavailable
	Note string // such as "in 1.2 s"
	Err  error  // reason why it is unavailable
}

// Kfake as the address of a broker requests a Kafka inside the test process; see
// internal/testkit/servicetest.
const Kfake = "kfake"

// service is a server or a cluster.
type service interface {
	Start(ctx context.Context) error
	URL() string
}

// names lists the services of the set.
var names = []string{"mysql", "redis", "redis_cluster", "kafka", "s3"}

// find returns a service of the set.
func (s *Shared) find(ctx context.Context, name string) (service, error) {
	dir := filepath.Join(s.Dir, name)
	switch name {
	case "mysql":
		return s.Tools.MySQL(ctx, dir, Options{})
	case "redis":
		return s.Tools.Redis(ctx, dir, Options{})
	case "redis_cluster":
		return s.Tools.RedisCluster(ctx, dir, Options{})
	case "kafka":
		return s.Tools.Kafka(ctx, dir, Options{})
	default:
		return s.Tools.S3(ctx, dir, Options{})
	}
}

// Up starts the services that do not run, in parallel, and writes their addresses to the file
// "env". Services with an address in the environment are not started. An unavailable service is not
// an error of Up; its State has the reason.
func (s *Shared) Up(ctx context.Context) ([]State, error) {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of the services: %w", err)
	}
	guard, err := s.guard()
	if err != nil {
		return nil, err
	}
	defer guard.Close()
	before := s.env()
	states := make([]State, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() { states[i] = s.up(ctx, name, before[variable(name)]) })
	}
	all.Wait()
	return states, s.write(states)
}

// guard locks the set against concurrent starts and stops; the caller must close the file.
func (s *Shared) guard() (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(s.Dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	return f, waitLock(f)
}

// up starts one service unless the environment has an address other than ours, the one that the
// last Up wrote.
func (s *Shared) up(ctx context.Context, name, ours string) State {
	if url := os.Getenv(variable(name)); url != "" && url != ours {
		return State{Name: name, URL: url, Note: fromEnvironment}
	}
	began := time.Now()
	it, err := s.find(ctx, name)
	if err == nil {
		err = it.Start(ctx)
	}
	if err != nil {
		return State{Name: name, Err: err}
	}
	return State{Name: name, URL: it.URL(), Note: fmt.Sprintf("in %.1f s", time.Since(began).Seconds())}
}

// fromEnvironment marks an address from the environment. In the file it is a comment after the
// line.
const fromEnvironment = "as the environment says"

// variable returns the environment variable of a service.
func variable(name string) string { return "SMARTDRIVE_TEST_" + strings.ToUpper(name) }

// EnvFile returns the path of the file with the addresses, for a shell: set -a; . FILE; set +a.
func (s *Shared) EnvFile() string { return filepath.Join(s.Dir, "env") }

// MissingFile returns the path of the file with a line per unavailable service.
func (s *Shared) MissingFile() string { return filepath.Join(s.Dir, "missing") }

// write writes EnvFile and MissingFile.
func (s *Shared) write(states []State) error {
	var env, missing strings.Builder
	for _, state := range states {
		url := state.URL
		if state.Err != nil {
			fmt.Fprintln(&missing, state.Missing())
			if state.Name == "kafka" {
				url = Kfake
			}
		}
		switch {
		case state.Note == fromEnvironment:
			fmt.Fprintf(&env, "%s='%s' # %s\n", variable(state.Name), url, fromEnvironment)
		case url != "":
			fmt.Fprintf(&env, "%s='%s'\n", variable(state.Name), url)
		}
	}
	return errors.Join(replace(s.EnvFile(), env.String()), replace(s.MissingFile(), missing.String()))
}

// Missing returns the line that explains why the service is unavailable.
func (s State) Missing() string {
	line := fmt.Sprintf("%s: %v", s.Name, s.Err)
	if s.Name == "kafka" {
		line += " (tests run against kfake, inside their own process)"
	}
	return line
}

// replace writes a file atomically, because a shell may be reading it.
func replace(path, text string) error {
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// env reads the addresses of our own services from EnvFile.
func (s *Shared) env() map[string]string {
	env := map[string]string{}
	text, err := os.ReadFile(s.EnvFile())
	if err != nil {
		return env // no earlier run
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasSuffix(value, fromEnvironment) {
			env[name] = strings.Trim(value, "'")
		}
	}
	return env
}

// Process is a process of the set.
type Process struct {
	Name string // "kafka", "redis_cluster/2"
	PID  int    // 0: not running
	dir  string
}

// Processes returns all processes ever started in the directory.
func (s *Shared) Processes() ([]Process, error) {
	var all []Process
	err := filepath.WalkDir(s.Dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // nothing was started, or a service is changing its data
		}
		if err != nil || d.Name() != "pid" {
			if err == nil && d.IsDir() && d.Name() == "data" {
				return fs.SkipDir
			}
			return err
		}
		dir := filepath.Dir(path)
		name, err := filepath.Rel(s.Dir, dir)
		all = append(all, Process{Name: filepath.ToSlash(name), PID: (&Server{Dir: dir}).PID(), dir: dir})
		return err
	})
	return all, err
}

// Down stops all processes in parallel and deletes their data, because tests leave gigabytes in the
// object store. Logs and ports remain.
func (s *Shared) Down(ctx context.Context) error {
	all, err := s.Processes()
	if err != nil || len(all) == 0 {
		return err
	}
	guard, err := s.guard()
	if err != nil {
		return err
	}
	defer guard.Close()
	errs := make([]error, len(all))
	var wait sync.WaitGroup
	for i, p := range all {
		wait.Go(func() {
			if errs[i] = (&Server{Dir: p.dir}).Stop(ctx); errs[i] == nil {
				errs[i] = removeData(p.dir)
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

// removeData deletes everything in the directory of a service except its log and its ports.
func removeData(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() != "log" && e.Name() != "ports" {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return err
}
