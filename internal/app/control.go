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

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/account"
	"example.org/smartdrive/internal/head/problem"
	"example.org/smartdrive/internal/head/rest"
	"example.org/smartdrive/internal/usecase/admin"
	"example.org/smartdrive/internal/usecase/fsck"
	"example.org/smartdrive/internal/usecase/upload"
)

// control serves the control socket, by which "smartdrive admin" commands a running server: the
// native API with the rights of an administrator, and the routes of console. Access to the socket
// (0600, in a directory of 0700) is the only authentication.
type control struct {
	listener net.Listener
	handler  http.Handler
	log      *slog.Logger
}

// Routes of the control socket besides the API.
const (
	RouteReset  = "/control/reset"
	RouteFsck   = "/control/fsck"
	RoutePurge  = "/control/quarantine/purge"
	RouteBackup = "/control/backup"
	RouteRotate = "/control/secrets/rotate"
)

// controlDrain is how long commands may continue when the server stops. Only fsck and backup take
// longer, and they can be repeated.
const controlDrain = 5 * time.Second

// socket returns the path of a data directory's control socket.
func socket(data string) string { return filepath.Join(data, socketFile) }

// listenControl opens the control socket of a data directory. If the system cannot provide a socket
// there, it logs a warning and returns a control without a listener. It fails only if a dead
// process's socket cannot be removed or the new one not be protected.
func listenControl(ctx context.Context, data string, handler http.Handler, log *slog.Logger) (*control, error) {
	path := socket(data)
	// The caller holds the lock, so an existing socket belongs to a dead process.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove the old control socket: %w", err)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		// The path is too long for a socket, or the file system has no sockets. Everything else
		// works.
		log.Warn("no control socket: admin commands must wait until the server stops", "error", err)
		return &control{}, nil
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("protect the control socket: %w", err), l.Close())
	}
	return &control{listener: l, handler: handler, log: log}, nil
}

// console serves commands of the local administrator besides the API.
type console struct {
	platform *platform
	users    *account.Users
	uploads  *upload.Sessions
	auditor  *fsck.Checker
	links    links
	moving   func() bool // a migration to other engines is running
}

// handler returns the handler of the control socket. Without a running server, admin commands call
// it in their own process.
func (c *console) handler(api *rest.API) http.Handler {
	mux := http.NewServeMux()
	api.Local(admin.Local()).Register(mux)
	mux.HandleFunc("POST "+RouteReset, jsonHandler(c.reset))
	mux.HandleFunc("POST "+RouteFsck, jsonHandler(c.fsck))
	mux.HandleFunc("POST "+RouteBackup, jsonHandler(c.backup))
	mux.HandleFunc("POST "+RouteRotate, jsonHandler(c.links.rotate))
	mux.HandleFunc("POST "+RoutePurge, jsonHandler(c.purgeQuarantine))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mux.ServeHTTP(&errorLogger{w, r, c.platform.log}, r)
	})
}

// errorLogger logs internal errors, of which the client gets only a description.
type errorLogger struct {
	http.ResponseWriter
	r   *http.Request
	log *slog.Logger
}

// NoteError logs err if it is of the kind drive.Internal, because the client sees only the kind. It
// ignores other errors.
func (n *errorLogger) NoteError(err error) {
	if drive.IsKind(err, drive.Internal) {
		n.log.ErrorContext(n.r.Context(), "a request on the control socket failed", "path", n.r.URL.Path, "error", err)
	}
}

// Unwrap returns the wrapped writer for http.ResponseController.
func (n *errorLogger) Unwrap() http.ResponseWriter { return n.ResponseWriter }

// run serves the control socket until ctx is done, and then returns nil after the running commands
// have ended, but at most controlDrain later. It fails if the socket cannot be served. Without a
// listener it only waits for ctx.
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

// jsonHandler returns a handler that decodes the body as JSON, calls act and sends its result as
// JSON. Invalid JSON is a BadRequest; an error of act is sent as a problem document.
func jsonHandler[In, Out any](act func(ctx context.Context, in In) (Out, error)) http.HandlerFunc {
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
		_ = json.NewEncoder(w).Encode(out) // fails only if the client is disconnected
	}
}

// ResetRequest names the user whose open uploads are reclaimed; empty means all users.
type ResetRequest struct {
	User string `json:"user"`
}

// ResetResult reports how many uploads were reclaimed.
type ResetResult struct {
	Reclaimed int `json:"reclaimed"`
}

// reset cancels and reclaims the open uploads of a user, or of all users. It fails with
// drive.NotFound for an unknown user.
func (c *console) reset(ctx context.Context, in ResetRequest) (ResetResult, error) {
	var account drive.AccountID
	if in.User != "" {
		u, err := c.users.FindByName(ctx, c.platform.db, in.User)
		if err != nil {
			return ResetResult{}, err
		}
		account = u.Account
	}
	n, err := c.uploads.ReclaimAll(ctx, account)
	return ResetResult{Reclaimed: n}, err
}
