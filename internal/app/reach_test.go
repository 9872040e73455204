package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"example.org/smartdrive/internal/base/config"
)

// testConfig returns the default configuration with a temporary data directory, changed by args.
func testConfig(t *testing.T, args ...string) config.Config {
	t.Helper()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	config.AddFlags(flags)
	dir := filepath.Join(t.TempDir(), "data")
	if err := flags.Parse(append([]string{"--data", dir, "--listen", "127.0.0.1:0"}, args...)); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(flags, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

var silent = slog.New(slog.DiscardHandler)

// ask sends one request through the control socket and decodes the reply.
func ask(t *testing.T, c *http.Client, method, path string, in any) (out map[string]any, err error) {
	t.Helper()
	raw, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, "http://localhost"+path, bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if raw, err = io.ReadAll(resp.Body); err != nil {
		return nil, err
	}
	if resp.StatusCode >= http.StatusBadRequest {
		return nil, fmt.Errorf("%s: %s", resp.Status, raw)
	}
	if len(raw) == 0 {
		return nil, nil
	}
	return out, json.Unmarshal(raw, &out)
}

// install makes an installation and leaves it.
func install(t *testing.T, cfg config.Config) {
	t.Helper()
	a, err := Open(t.Context(), cfg, silent)
	if err == nil {
		err = a.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestCommandsNeedAnInstallation(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	if _, _, err := ConnectControl(t.Context(), cfg, silent); err == nil || !strings.Contains(err.Error(), cfg.Data) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(filepath.Join(cfg.Data, databaseFile)); err == nil {
		t.Error("asking made one")
	}
}

// Concurrent commands on a stopped server wait for each other, and all succeed.
func TestCommandsAtTheSameTime(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	install(t, cfg)
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			c, done, err := connectWithin(t.Context(), 5*time.Minute, cfg, silent) // the last one waits for five others
			if err != nil {
				t.Error(err)
				return
			}
			_, err = ask(t, c, http.MethodPost, "/api/v1/admin/users", map[string]any{"name": fmt.Sprintf("user-%d", i), "password": "correct horse"})
			if err := errors.Join(err, done()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	c, done, err := ConnectControl(t.Context(), cfg, silent)
	if err != nil {
		t.Fatal(err)
	}
	list, err := ask(t, c, http.MethodGet, "/api/v1/admin/users", nil)
	if err := errors.Join(err, done()); err != nil {
		t.Fatal(err)
	}
	if users := list["items"].([]any); len(users) != 7 { // with the first one
		t.Errorf("there are %d users", len(users))
	}
}

// A command reaches a server that is running, and afterwards the directory.
func TestReach(t *testing.T) { // a short name: it is a part of the path of the socket
	t.Parallel()
	cfg := testConfig(t)
	a, err := Open(t.Context(), cfg, silent)
	if err != nil {
		t.Fatal(err)
	}
	if len(socket(a.platform.cfg.Data)) > 100 { // the limit is 108 bytes on Linux, 104 elsewhere
		t.Fatalf("the path of the socket is too long for this test: %s", socket(a.platform.cfg.Data))
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- a.Run(ctx, "test", nil, func(url string) { ready <- url }) }()
	if url := <-ready; !strings.HasPrefix(url, "http://127.0.0.1:") {
		t.Errorf("the URL is %s", url)
	}
	findAdmin(t, cfg)
	stop()
	if err := errors.Join(<-ended, a.Close()); err != nil {
		t.Fatal(err)
	}
	findAdmin(t, cfg)
}

func findAdmin(t *testing.T, cfg config.Config) {
	t.Helper()
	c, done, err := ConnectControl(t.Context(), cfg, silent)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ask(t, c, http.MethodGet, "/api/v1/admin/users?name=admin", nil)
	if err := errors.Join(err, done()); err != nil || len(got["items"].([]any)) != 1 {
		t.Fatalf("got %v, %v", got, err)
	}
}
