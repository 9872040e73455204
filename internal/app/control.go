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
	"path/filepath"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/account"
	"smartdrive/internal/head/problem"
	"smartdrive/internal/head/rest"
	"smartdrive/internal/usecase/admin"
	"smartdrive/internal/usecase/fsck"
	"smartdrive/internal/usecase/upload"
)

// The control socket is where "smartdrive admin" speaks to a running server: the native API with
// the rights of an administrator, and what only the machine's administrator may do. Whoever can
// open the socket (0600, in a directory of 0700) is that administrator.
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

// controlDrain is how long a command may go on when the server stops; only fsck and backup take
// longer, and they can be repeated.
const controlDrain = 5 * time.Second

// socket is where the control socket of a data directory is.
func socket(data string) string { return filepath.Join(data, socketFile) }

// listenControl opens the socket of a data directory for what a handler answers.
func listenControl(ctx context.Context, data string, handler http.Handler, log *slog.Logger) (*control, error) {
	path := socket(data)
	// The lock is ours, so a socket that is there belongs to a process that is gone.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove the old control socket: %w", err)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		// A path that is too long for a socket, or a file system without sockets: everything else
		// works.
		log.Warn("no control socket: admin commands must wait until the server stops", "error", err)
		return &control{}, nil
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("protect the control socket: %w", err), l.Close())
	}
	return &control{listener: l, handler: handler, log: log}, nil
}

// console is what the machine's administrator may do beside what the API has.
type console struct {
	ground  *ground
	users   *account.Users
	uploads *upload.Sessions
	auditor *fsck.Checker
	links   links
	moving  func() bool // the installation is moving to other engines
}

// handler is what the socket answers. Without a running server the admin commands use it directly.
func (c *console) handler(api *rest.API) http.Handler {
	mux := http.NewServeMux()
	api.Local(admin.Local()).Register(mux)
	mux.HandleFunc("POST "+RouteReset, answer(c.reset))
	mux.HandleFunc("POST "+RouteFsck, answer(c.fsck))
	mux.HandleFunc("POST "+RouteBackup, answer(c.backup))
	mux.HandleFunc("POST "+RouteRotate, answer(c.links.rotate))
	mux.HandleFunc("POST "+RoutePurge, answer(c.purgeQuarantine))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mux.ServeHTTP(&noted{w, r, c.ground.log}, r)
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

func (c *console) reset(ctx context.Context, in ResetRequest) (ResetAnswer, error) {
	var account drive.AccountID
	if in.User != "" {
		u, err := c.users.FindByName(ctx, c.ground.db, in.User)
		if err != nil {
			return ResetAnswer{}, err
		}
		account = u.Account
	}
	n, err := c.uploads.Reset(ctx, account)
	return ResetAnswer{Reclaimed: n}, err
}
