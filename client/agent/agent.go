package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"time"

	"example.org/smartdrive/client"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/intake/bundle"
)

// Options configure an Agent. Dir, To and Client are required.
type Options struct {
	Dir    string
	To     string // "/intake/SOURCE", absolute
	Client *client.Client
	// Renew returns a client with the current login. The agent calls it when the server has
	// refused the token of Client. nil: no renewal.
	Renew func() (*client.Client, error)
	Log   *slog.Logger // default: discards everything

	Every    time.Duration // maximum wait of a complete file for a fuller bundle; default 5 minutes
	Settle   time.Duration // how long a file must be unchanged to be complete; default 10 seconds
	MaxSize  int64         // maximum bytes of a bundle, unless a single group is larger; default 32 MiB
	MaxFiles int           // maximum members of a bundle; default 1000, at most 5000
	Parallel int           // members sent concurrently; default 8
	RetryFor time.Duration // how long one attempt to send retries without progress; default 1 minute. Attempts are repeated forever

	// VerdictTimeout bounds how long RunOnce waits for the server's verdicts on the bundles; 0: it
	// does not wait.
	VerdictTimeout time.Duration

	Marker string   // if not empty, such as ".ok", a file is complete once NAME.ok or STEM.ok exists, whatever Settle says
	Ignore []string // path.Match patterns of file names to ignore, besides temporary files
}

// Limits and pauses.
const (
	maxMembers      = 5000                   // members of a bundle; a manifest has room for any names
	minScanInterval = 100 * time.Millisecond // between scans, so that a settle time of 0 does not spin
	minBackoff      = 5 * time.Second        // after the first failed attempt; doubles
	maxBackoff      = 5 * time.Minute        // a recovered server is noticed within that time
	manualBackoff   = 15 * time.Minute       // for errors that need a person: quota, disk, permission, login
)

// Agent watches one directory. One goroutine calls its methods.
type Agent struct {
	opt      Options
	source   string
	uploader *client.Uploader
	log      *slog.Logger
	root     *os.Root
	lock     *os.File

	state    *state
	observed map[string]*observation // by path relative to DIR
	skipped  map[string]string       // path -> reason why it is not taken; replaced by each scan
	rescan   bool                    // a bundle was refrozen, so its files need a new scan
	draining bool                    // send complete files at once, without waiting for a fuller bundle

	failedFiles int             // files moved to failed/ by this run
	failures    int             // consecutive failed attempts to send the current bundle
	nextTry     time.Time       // time of the next attempt; zero: now
	sendErr     error           // error of the last attempt to send; nil: it succeeded
	localErr    error           // error of the last turn on this computer; nil: none
	moveErr     error           // error of the last failed move; nil: none
	nextMove    time.Time       // when failedMoves are retried
	failedMoves map[string]bool // failed moves, by target
	polls       int             // verdict polls since the last bundle was sent
	nextPoll    time.Time

	live     liveStatus
	testHook func(string) error // called at each step; tests return errCrash from it; nil: none
}

// BusyError reports that another agent holds the directory's lock.
type BusyError struct {
	Dir string
	PID int // 0: unknown
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("%s is watched by another agent, process %d", e.Dir, e.PID)
}

// errNotIntake reports that the target is not /intake/SOURCE.
var errNotIntake = fmt.Errorf("want /%s/SOURCE", bundle.Root)

// parseSource returns SOURCE of a target "/intake/SOURCE". It fails for other paths and invalid
// sources.
func parseSource(to string) (string, error) {
	p, err := drive.ParsePath(to)
	if err != nil || len(p) != 2 || p[0] != bundle.Root {
		return "", fmt.Errorf("%q is not a place for bundles: %w", to, errNotIntake)
	}
	return string(p[1]), bundle.CheckSource(string(p[1]))
}

// Check replaces zero fields of o by their defaults, in place, and returns an error for the first
// invalid one.
func (o *Options) Check() error {
	if _, err := parseSource(o.To); err != nil {
		return err
	}
	o.Every, o.Settle = cmp.Or(o.Every, 5*time.Minute), cmp.Or(o.Settle, 10*time.Second)
	o.MaxSize, o.MaxFiles = cmp.Or(o.MaxSize, 32<<20), cmp.Or(o.MaxFiles, 1000)
	o.Parallel, o.RetryFor = cmp.Or(o.Parallel, 8), cmp.Or(o.RetryFor, time.Minute)
	if o.Every < 0 || o.Settle < 0 || o.RetryFor < 0 || o.MaxSize < 1 || o.Parallel < 1 {
		return errors.New("times, sizes and numbers must be greater than 0")
	}
	if o.MaxFiles < 1 || o.MaxFiles > maxMembers {
		return fmt.Errorf("%d files in a bundle: want 1 to %d", o.MaxFiles, maxMembers)
	}
	for _, pattern := range o.Ignore {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("%q is not a pattern of names: %w", pattern, err)
		}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

// Open locks the directory and loads the state of the previous agent. It fails with a *BusyError if
// another agent holds the lock. The caller closes the Agent.
func Open(o Options) (*Agent, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	source, err := parseSource(o.To)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("open the directory to watch: %w", err)
	}
	a := &Agent{
		opt: o, source: source, log: o.Log.With("source", source), root: root,
		observed: map[string]*observation{}, skipped: map[string]string{}, failedMoves: map[string]bool{},
	}
	if err := a.setClient(o.Client); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	if a.lock, err = acquireLock(root, o.Dir); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	if a.state, err = loadState(root); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	a.live.Status = Status{Dir: o.Dir, To: o.To, Server: o.Client.BaseURL(), Contact: lastContact(root)}
	return a, nil
}

// Close unlocks the directory. Call it once, after Run has returned. The next agent continues an
// unfinished bundle.
func (a *Agent) Close() error { return errors.Join(a.lock.Close(), a.root.Close()) }

// Run scans and sends until ctx ends, and then returns nil. Errors are logged, shown by ReadStatus,
// and retried. Only tests see another result: the crash that a test hook simulates.
func (a *Agent) Run(ctx context.Context) error {
	a.log.Info("watching for files", "dir", a.opt.Dir, "server", a.opt.Client.BaseURL(), "every", a.opt.Every, "settle", a.opt.Settle)
	look := max(a.opt.Settle/2, minScanInterval)
	for {
		more, err := a.scanAndAct(ctx)
		if errors.Is(err, errCrash) {
			return err
		}
		a.localErr = nil
		if ctx.Err() == nil && err != nil {
			a.log.Error("cannot read or write the watched directory; trying again", "error", err)
			a.localErr = err
		}
		a.writeStatus(true)
		if more && err == nil && ctx.Err() == nil {
			continue
		}
		if err := sleep(ctx, look); err != nil {
			a.log.Info("agent stopped")
			return nil //nolint:nilerr // the end of ctx is not an error
		}
	}
}

// Errors of RunOnce that need a person; ReadStatus has the details.
var (
	ErrUnsent    = errors.New("some files were not sent")
	ErrRejected  = errors.New("the server has not accepted everything that was sent")
	ErrNoVerdict = errors.New("the server has not said yet what became of everything that was sent")
)

// RunOnce sends all complete files, waits for the server's verdicts on them for at most
// VerdictTimeout, and returns. The error says why files are left: the error of sending, or
// ErrUnsent. For sent bundles it also wraps ErrRejected or ErrNoVerdict.
func (a *Agent) RunOnce(ctx context.Context) error {
	defer a.writeStatus(true)
	a.live.Once = true
	sent := a.state.Totals.Bundles
	left := a.sendComplete(ctx)
	if left != nil && !errors.Is(left, ErrUnsent) || a.opt.VerdictTimeout == 0 {
		return left
	}
	return errors.Join(left, a.waitForVerdicts(ctx, a.state.Totals.Bundles-sent))
}

// sendComplete sends all complete files. It scans at least twice, Settle apart, so that files can
// become complete. It returns the first error of sending, or that of unsentError when no complete
// file is left.
func (a *Agent) sendComplete(ctx context.Context) error {
	for looks := 0; ; {
		if a.rescan {
			looks, a.rescan = 0, false
		}
		if err := a.scan(ctx); err != nil {
			return err
		}
		looks++
		a.draining = true
		more, err := a.act(ctx)
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case a.sendErr != nil:
			return a.sendErr
		case more:
			continue
		case looks > 1 || len(a.observed) == 0:
			return a.unsentError()
		}
		if err := sleep(ctx, a.opt.Settle); err != nil {
			return err
		}
	}
}

// unsentError returns the error of moving files, ErrUnsent if files were skipped or failed, and nil
// otherwise.
func (a *Agent) unsentError() error {
	if a.moveErr != nil {
		return a.moveErr
	}
	if len(a.skipped) > 0 || a.failedFiles > 0 {
		return ErrUnsent
	}
	return nil
}

// scanAndAct does one scan and the work that follows. more reports that there is more to do at
// once.
func (a *Agent) scanAndAct(ctx context.Context) (more bool, err error) {
	if err := a.scan(ctx); err != nil {
		return false, err
	}
	return a.act(ctx)
}

// act does the work that is due: pending moves, sending one bundle, deleting leftovers on the
// server, polling verdicts. more reports that a bundle was sent, so that more work may be due at
// once. The error is one of this computer; an error of sending is in a.sendErr.
func (a *Agent) act(ctx context.Context) (more bool, err error) {
	if err := a.runMoves(); err != nil {
		return false, err
	}
	if a.state.Current == nil {
		if err := a.freezeNext(ctx); err != nil {
			return false, err
		}
	}
	if a.state.Current != nil && !time.Now().Before(a.nextTry) {
		if err := a.send(ctx); err != nil {
			return false, err
		}
		if a.sendErr == nil {
			return true, a.runMoves()
		}
	}
	if a.sendErr == nil {
		if err := a.deleteLitter(ctx); err != nil {
			return false, err
		}
		return false, a.pollVerdicts(ctx)
	}
	return false, nil
}

// sleep waits for d. It returns the context's cause if ctx ends first.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// errorText returns the text of a file's error without its path, which the caller shows separately.
func errorText(err error) string {
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		return at.Err.Error()
	}
	return err.Error()
}
