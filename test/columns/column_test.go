package columns

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/spf13/pflag"

	"example.org/smartdrive/internal/app"
	"example.org/smartdrive/internal/base/config"
	"example.org/smartdrive/internal/testkit/servicetest"
	"example.org/smartdrive/internal/usecase/fsck"
	"example.org/smartdrive/test/backing"
)

const password = "correct horse battery"

// column is an installation that runs in this process.
type column struct {
	name  string
	sites []site // its instances
	admin string // token
	http  *http.Client
	s3    bool
}

// several reports whether requests go to more than one instance.
func (c *column) several() bool { return len(c.sites) > 1 }

type site struct {
	cfg config.Config
	url string
}

// makeup describes the engines of a column.
type makeup struct {
	name      string
	needs     []servicetest.Service
	instances int
}

// makeups are the columns. The others are compared with the first one.
var makeups = []makeup{
	{"embedded", nil, 1},
	{"mysql+directory", []servicetest.Service{servicetest.MySQL}, 1},
	{"mysql+redis+s3", []servicetest.Service{servicetest.MySQL, servicetest.Redis, servicetest.S3}, 1},
	{"cluster", backing.Cluster(), 1},
	{"cluster of two", backing.Cluster(), 2},
}

// start starts all columns, each with args.
func start(t *testing.T, of []makeup, args ...string) []*column {
	t.Helper()
	columns := make([]*column, len(of))
	settings := make([][]string, len(of))
	for i, m := range of { // services are asked for first: a test without them is skipped before anything runs
		settings[i] = slices.Concat(backing.Flags(t, m.needs...), args)
	}
	var all sync.WaitGroup
	errs := make([]error, len(of))
	for i, m := range of {
		columns[i] = &column{name: m.name, http: newClient(t), s3: slices.Contains(m.needs, servicetest.S3)}
		for n := range m.instances {
			columns[i].sites = append(columns[i].sites, site{cfg: load(t, settings[i], fmt.Sprint(n))})
		}
		all.Go(func() { errs[i] = columns[i].start(t) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return columns
}

func newClient(t *testing.T) *http.Client {
	transport := &http.Transport{MaxIdleConnsPerHost: 4, DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func load(t *testing.T, args []string, name string) config.Config {
	t.Helper()
	dir, err := os.MkdirTemp("", "sd-"+name+"-") //nolint:usetesting // its path would be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	config.AddFlags(flags)
	own := []string{"--data", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0", "--part-size", "8MiB", "--trusted-proxies", "127.0.0.1"}
	if err := flags.Parse(append(own, args...)); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(flags, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func (c *column) start(t *testing.T) error {
	for i := range c.sites {
		if err := c.sites[i].run(t, c.name); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	token, err := c.login("admin")
	c.admin = token
	return err
}

// run serves until the test ends.
func (s *site) run(t *testing.T, name string) error {
	log := &words{name: name}
	a, err := app.Open(t.Context(), s.cfg, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn})))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan string, 1), make(chan error, 1)
	go func() { done <- a.Run(ctx, "test", nil, func(url string) { ready <- url }) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-done, a.Close()); err != nil {
			t.Errorf("stop %s: %v", name, err)
		}
		if t.Failed() {
			t.Logf("the log of %s:\n%s", name, log)
		}
	})
	select {
	case s.url = <-ready:
		return nil
	case err := <-done:
		done <- nil
		return fmt.Errorf("it does not run: %w", err)
	}
}

// words is a log in memory: its last 64 KiB.
type words struct {
	name string
	mu   sync.Mutex
	text []byte
}

// Write implements io.Writer.
func (w *words) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, p...)
	w.text = w.text[max(0, len(w.text)-64<<10):]
	return len(p), nil
}

func (w *words) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.text)
}

// login returns a token, outside of any script.
func (c *column) login(name string) (string, error) {
	var granted struct{ Token string }
	err := c.ask(c.http, "POST", c.sites[0].url+"/api/v1/sessions", map[string]string{"name": name, "password": password}, &granted)
	return granted.Token, err
}

// ask sends a request that must succeed and is not part of a script.
func (c *column) ask(client *http.Client, method, url string, in, out any) error {
	raw, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(context.Background(), method, url, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if c.admin != "" {
		req.Header.Set("Authorization", "Bearer "+c.admin)
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s: %s %s is answered with %d", c.name, method, url, resp.StatusCode)
	}
	return json.NewDecoder(resp.Body).Decode(out)
}

// fsck returns the findings of a check as an error, nil if there are none.
func (c *column) fsck(ctx context.Context) error {
	last := c.sites[len(c.sites)-1]
	client, done, err := app.ConnectControl(ctx, last.cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	var found app.FsckResult
	err = c.ask(client, "POST", "http://localhost"+app.RouteFsck, fsck.Scope{Deep: true}, &found)
	client.CloseIdleConnections()
	if err = errors.Join(err, done()); err != nil {
		return err
	}
	if !found.Clean() || !found.Complete || found.Checked.Nodes == 0 {
		return fmt.Errorf("%s: fsck: %+v", c.name, found.Report)
	}
	return nil
}
