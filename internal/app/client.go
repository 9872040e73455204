package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"example.org/smartdrive/internal/base/config"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/head/server"
)

// ConnectControl returns a client for the control routes of a data directory: of the running
// server, or, if none runs, of the installation opened in this process. The URL's host does not
// matter. The caller calls done.
//
// If another process holds the directory and does not respond, it is starting, stopping or another
// such call. Then ConnectControl retries for connectTimeout and fails with *LockedError.
func ConnectControl(ctx context.Context, cfg config.Config, log *slog.Logger) (c *http.Client, done func() error, err error) {
	return connectWithin(ctx, connectTimeout, cfg, log)
}

// connectWithin returns a client for the control interface: of the running server, or of this
// process if no server runs. While the directory is locked and no server answers, it retries every
// 50 ms for up to patience, and then fails with LockedError. Without a database file it fails at
// once. The caller must call done once.
func connectWithin(ctx context.Context, patience time.Duration, cfg config.Config, log *slog.Logger) (c *http.Client, done func() error, err error) {
	if _, err := os.Stat(filepath.Join(cfg.Data, databaseFile)); errors.Is(err, fs.ErrNotExist) && cfg.MySQL == nil {
		// A running server may use a database elsewhere.
		if c, done, err := dialServer(ctx, cfg, &LockedError{Dir: cfg.Data}); err == nil {
			return c, done, nil
		}
		return nil, nil, noInstallation("in "+cfg.Data, "--data")
	}
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		a, err := open(ctx, cfg, log, requireInstallation)
		if err == nil {
			c, done = a.serveInProcess(ctx)
			return c, done, nil
		}
		locked, ok := errors.AsType[*LockedError](err)
		if !ok {
			return nil, nil, explainDamage(err, cfg.Data)
		}
		if c, done, err = dialServer(ctx, cfg, locked); err == nil {
			return c, done, nil
		}
		select {
		case <-again.C:
		case <-late.C:
			return nil, nil, err
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
}

// noInstallation returns the error for a place without an installation; flag names the place.
func noInstallation(where, flag string) error {
	return fmt.Errorf("there is no installation %s: name its place with %s, or start one with \"smartdrive serve\"", where, flag)
}

// requireInstallation fails if the database has no installation, where a start would create one.
func requireInstallation(ctx context.Context, p *platform) error {
	in, err := readInstallation(ctx, p.db)
	if err == nil && in.ID == "" && p.cfg.MySQL != nil {
		err = noInstallation("in the database "+p.cfg.MySQL.Name, "--db")
	}
	return err
}

// connectTimeout is longer than a server's start and shorter than people wait for a command.
const connectTimeout = 10 * time.Second

// serveInProcess serves the control routes to this process only. A socket would admit other
// processes and disconnect them at the end of this call.
func (a *App) serveInProcess(ctx context.Context) (*http.Client, func() error) {
	l := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	c := &control{listener: l, handler: a.console().handler(a.api("", server.NewLimiter[drive.UserID](1))), log: a.platform.log}
	runCtx, stop := context.WithCancel(ctx)
	var running errgroup.Group
	running.Go(func() error { return c.run(runCtx) })
	for _, keep := range append(a.platform.shared.loops(), a.platform.member.Run) { // otherwise other instances would declare this one dead during a long command
		running.Go(func() error { return keep(runCtx) })
	}
	return controlClient(l.dial), func() error {
		stop()
		return errors.Join(running.Wait(), a.Close())
	}
}

// dialServer returns a client for the control socket of a running server. It fails if the server
// does not accept connections; locked is part of the error.
func dialServer(ctx context.Context, cfg config.Config, locked *LockedError) (*http.Client, func() error, error) {
	path := socket(cfg.Data)
	dial := func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "unix", path) }
	conn, err := dial(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("%w, and it does not answer on its control socket: %w", locked, err)
	}
	return controlClient(dial), func() error { return nil }, conn.Close()
}

// controlClient returns an HTTP client that connects by dial.
func controlClient(dial func(context.Context) (net.Conn, error)) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext:           func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		ResponseHeaderTimeout: 24 * time.Hour, // fsck --deep responds when it is done
	}}
}

// pipeListener is a net.Listener that only this process can dial.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// dial connects to the listener and waits for Accept. It fails with net.ErrClosed after Close, and
// with the context's cause.
func (l *pipeListener) dial(ctx context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Accept returns the server's end of the next connection. It fails with net.ErrClosed after Close.
func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and dial. It may be called repeatedly and always returns nil.
func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr returns a constant that no client can dial.
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Net: "unix", Name: "inside"} }
