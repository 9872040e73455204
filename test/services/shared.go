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

// Shared is the set of services that all tests of a checkout share, in a directory of the checkout.
type Shared struct {
	Dir   string
	Tools *Tools
}

// State is what there is of a service.
type State struct {
	Name string // as SMARTDRIVE_TEST_<NAME> spells it, in lower case
	URL  string // empty where there is none
	How  string // such as "in 1.2 s"
	Err  error  // why there is none
}

// Kfake in place of the address of a broker asks for a Kafka inside the test process; see
// internal/testkit/servicetest.
const Kfake = "kfake"

type service interface {
	Start(ctx context.Context) error
	URL() string
}

var names = []string{"mysql", "redis", "redis_cluster", "kafka", "s3"}

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

// Up starts what does not run, all at once, and writes the file "env" with the address of each.
// What the environment names is taken as it is. A service that cannot be had is not an error of Up:
// its State says why.
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

// guard is held by whoever starts or stops services here.
func (s *Shared) guard() (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(s.Dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	return f, waitLock(f)
}

// up: ours is what the last Up has written. An environment that says the same has read it there.
func (s *Shared) up(ctx context.Context, name, ours string) State {
	if url := os.Getenv(variable(name)); url != "" && url != ours {
		return State{Name: name, URL: url, How: given}
	}
	began := time.Now()
	it, err := s.find(ctx, name)
	if err == nil {
		err = it.Start(ctx)
	}
	if err != nil {
		return State{Name: name, Err: err}
	}
	return State{Name: name, URL: it.URL(), How: fmt.Sprintf("in %.1f s", time.Since(began).Seconds())}
}

// given marks what the environment has named. In the file it is a comment behind the line.
const given = "as the environment says"

func variable(name string) string { return "SMARTDRIVE_TEST_" + strings.ToUpper(name) }

// EnvFile names the file that Up writes, for a shell: set -a; . FILE; set +a.
func (s *Shared) EnvFile() string { return filepath.Join(s.Dir, "env") }

// MissingFile names the file that Up writes with a line for each service that cannot be had.
func (s *Shared) MissingFile() string { return filepath.Join(s.Dir, "missing") }

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
		case state.How == given:
			fmt.Fprintf(&env, "%s='%s' # %s\n", variable(state.Name), url, given)
		case url != "":
			fmt.Fprintf(&env, "%s='%s'\n", variable(state.Name), url)
		}
	}
	return errors.Join(replace(s.EnvFile(), env.String()), replace(s.MissingFile(), missing.String()))
}

// Missing is the line that says why there is none.
func (s State) Missing() string {
	line := fmt.Sprintf("%s: %v", s.Name, s.Err)
	if s.Name == "kafka" {
		line += " (tests run against kfake, inside their own process)"
	}
	return line
}

// replace writes a file in one step: a shell may be reading it.
func replace(path, text string) error {
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// env reads the addresses of our own services that the last Up has written.
func (s *Shared) env() map[string]string {
	env := map[string]string{}
	text, err := os.ReadFile(s.EnvFile())
	if err != nil {
		return env // the first time
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasSuffix(value, given) {
			env[name] = strings.Trim(value, "'")
		}
	}
	return env
}

// Process is a process of the set.
type Process struct {
	Name string // "kafka", "redis_cluster/2"
	PID  int    // 0: it does not run
	dir  string
}

// Processes are those that have been started here at any time.
func (s *Shared) Processes() ([]Process, error) {
	var all []Process
	err := filepath.WalkDir(s.Dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // nothing was ever started, or a service is at work on its data
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

// Down stops them all, each at once, and removes their data: tests leave gigabytes in the object
// store. Their logs and their ports stay.
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

// removeData leaves of the directory of a service its log and its ports.
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
