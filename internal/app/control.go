package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/head/problem"
	"smartdrive/internal/head/rest"
	"smartdrive/internal/usecase/admin"
)

// The control socket is where "smartdrive admin" speaks to a running server: the native API with the rights of an
// administrator, and what only the machine's administrator may do. Whoever can open the socket (0600, in a directory of 0700)
// is that administrator.
type control struct {
	listener net.Listener
	handler  http.Handler
	log      *slog.Logger
}

// Control routes beside those of the API.
const (
	RouteReset  = "/control/reset"
	RouteFsck   = "/control/fsck"
	RoutePurge  = "/control/quarantine/purge"
	RouteBackup = "/control/backup"
	RouteRotate = "/control/secrets/rotate"
)

// controlDrain is how long a command may go on when the server stops; only fsck and backup take longer, and they can be repeated.
const controlDrain = 5 * time.Second

func (a *App) listenControl(ctx context.Context, api *rest.API) (*control, error) {
	path := a.socket()
	// The lock is ours, so a socket that is there belongs to a process that is gone.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove the old control socket: %w", err)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		// A path that is too long for a socket, or a file system without sockets: everything else works.
		a.log.Warn("no control socket: admin commands must wait until the server stops", "error", err)
		return &control{}, nil
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("protect the control socket: %w", err), l.Close())
	}
	return &control{listener: l, handler: a.Control(api), log: a.log}, nil
}

// Control is what the socket answers. Without a running server the admin commands use it directly.
func (a *App) Control(api *rest.API) http.Handler {
	mux := http.NewServeMux()
	api.Local(admin.Local()).Register(mux)
	mux.HandleFunc("POST "+RouteReset, answer(a.reset))
	mux.HandleFunc("POST "+RouteFsck, answer(a.fsck))
	mux.HandleFunc("POST "+RouteBackup, answer(a.backup))
	mux.HandleFunc("POST "+RouteRotate, answer(a.rotateSecrets))
	mux.HandleFunc("POST "+RoutePurge, answer(a.purgeQuarantine))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mux.ServeHTTP(&noted{w, r, a.log}, r)
	})
}

// noted logs the errors that the client is only told of in words.
type noted struct {
	http.ResponseWriter
	r   *http.Request
	log *slog.Logger
}

// NoteError implements problem.Noter.
func (n *noted) NoteError(err error) {
	if drive.IsKind(err, drive.Internal) {
		n.log.ErrorContext(n.r.Context(), "control", "path", n.r.URL.Path, "error", err)
	}
}

func (n *noted) Unwrap() http.ResponseWriter { return n.ResponseWriter }

func (c *control) run(ctx context.Context) error {
	if c.listener == nil {
		<-ctx.Done()
		return nil
	}
	hs := &http.Server{Handler: c.handler, ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(c.log.Handler(), slog.LevelWarn)}
	stopped := make(chan error, 1)
	go func() { stopped <- hs.Serve(c.listener) }()
	select {
	case err := <-stopped:
		return fmt.Errorf("serve the control socket: %w", err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), controlDrain)
	defer cancel()
	err := hs.Shutdown(drain)
	if errors.Is(err, context.DeadlineExceeded) {
		err = hs.Close()
	}
	<-stopped //nolint:errcheck // http.ErrServerClosed
	return err
}

// answer is a handler that takes and gives JSON.
func answer[In, Out any](act func(ctx context.Context, in In) (Out, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in In
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			problem.Write(w, r, drive.Wrap(err, drive.BadRequest, "field", "body", "reason", string(drive.Malformed)))
			return
		}
		out, err := act(r.Context(), in)
		if err != nil {
			problem.Write(w, r, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(out) // fails only when the asker is gone
	}
}

// ResetRequest names the user whose open uploads are reclaimed; empty: all users.
type ResetRequest struct {
	User string `json:"user"`
}

// ResetAnswer says how many uploads were reclaimed.
type ResetAnswer struct {
	Reclaimed int `json:"reclaimed"`
}

func (a *App) reset(ctx context.Context, in ResetRequest) (ResetAnswer, error) {
	var account drive.AccountID
	if in.User != "" {
		u, err := a.users.FindByName(ctx, a.db, in.User)
		if err != nil {
			return ResetAnswer{}, err
		}
		account = u.Account
	}
	n, err := a.uploads.Reset(ctx, account)
	return ResetAnswer{Reclaimed: n}, err
}
