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

	"smartdrive/internal/base/config"
	"smartdrive/internal/base/drive"
	"smartdrive/internal/head/server"
)

// Reach returns a client for the control of a data directory: of the server that has it, or, when
// none runs, of the installation opened for this call alone. The URL's host does not matter. done
// ends it.
//
// Whoever has the directory and does not answer is a server that starts or stops, or another such
// call, which is soon done: it is waited for.
func Reach(ctx context.Context, cfg config.Config, log *slog.Logger) (c *http.Client, done func() error, err error) {
	return reachWithin(ctx, reachPatience, cfg, log)
}

func reachWithin(ctx context.Context, patience time.Duration, cfg config.Config, log *slog.Logger) (c *http.Client, done func() error, err error) {
	if _, err := os.Stat(filepath.Join(cfg.Data, databaseFile)); errors.Is(err, fs.ErrNotExist) && cfg.MySQL == nil {
		// The server that has the directory may have been told of a database elsewhere.
		if c, done, err := reachRunning(ctx, cfg, &LockedError{Dir: cfg.Data}); err == nil {
			return c, done, nil
		}
		return nil, nil, noInstallation("in "+cfg.Data, "--data")
	}
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		a, err := open(ctx, cfg, log, existing)
		if err == nil {
			c, done = a.reachInside(ctx)
			return c, done, nil
		}
		locked, ok := errors.AsType[*LockedError](err)
		if !ok {
			return nil, nil, explainDamage(err, cfg.Data)
		}
		if c, done, err = reachRunning(ctx, cfg, locked); err == nil {
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

func noInstallation(where, flag string) error {
	return fmt.Errorf("there is no installation %s: name its place with %s, or start one with \"smartdrive serve\"", where, flag)
}

// existing refuses a database without an installation, where a start would make one.
func existing(ctx context.Context, g *ground) error {
	in, err := readInstallation(ctx, g.db)
	if err == nil && in.ID == "" && g.cfg.MySQL != nil {
		err = noInstallation("in the database "+g.cfg.MySQL.Name, "--db")
	}
	return err
}

// reachPatience is longer than a server takes to start, and shorter than people wait for a command.
const reachPatience = 10 * time.Second

// reachInside answers the client within this process: to others the directory is just in use for a
// moment. A socket would let them in, and cut them off when this call is done.
func (a *App) reachInside(ctx context.Context) (*http.Client, func() error) {
	l := &inside{conns: make(chan net.Conn), closed: make(chan struct{})}
	c := &control{listener: l, handler: a.console().handler(a.api("", server.NewGate[drive.UserID](1))), log: a.ground.log}
	runCtx, stop := context.WithCancel(ctx)
	var running errgroup.Group
	running.Go(func() error { return c.run(runCtx) })
	for _, keep := range append(a.ground.shared.loops(), a.ground.member.Run) { // a long command must not look dead to the others
		running.Go(func() error { return keep(runCtx) })
	}
	return controlClient(l.dial), func() error {
		stop()
		return errors.Join(running.Wait(), a.Close())
	}
}

func reachRunning(ctx context.Context, cfg config.Config, locked *LockedError) (*http.Client, func() error, error) {
	path := socket(cfg.Data)
	dial := func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "unix", path) }
	conn, err := dial(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("%w, and it does not answer on its control socket: %w", locked, err)
	}
	return controlClient(dial), func() error { return nil }, conn.Close()
}

func controlClient(dial func(context.Context) (net.Conn, error)) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext:           func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		ResponseHeaderTimeout: 24 * time.Hour, // fsck --deep answers when it is done
	}}
}

// inside is a listener that only this process can reach.
type inside struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *inside) dial(ctx context.Context) (net.Conn, error) {
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

// Accept implements net.Listener.
func (l *inside) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *inside) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *inside) Addr() net.Addr { return &net.UnixAddr{Net: "unix", Name: "inside"} }
