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

	"smartdrive/client"
	"smartdrive/internal/base/drive"
	"smartdrive/internal/intake/bundle"
)

// Options say what an agent watches and where it sends. Dir, To and Client are needed.
type Options struct {
	Dir    string
	To     string // "/intake/SOURCE", absolute
	Client *client.Client
	// Renew returns a client with the login that there is now; it is asked when the server has
	// refused that of Client. nil: there is no other.
	Renew func() (*client.Client, error)
	Log   *slog.Logger // default: nowhere

	Every    time.Duration // how long a complete file may wait for others to go with it; default 5 minutes
	Settle   time.Duration // how long a file must have stayed as it is; default 10 seconds
	MaxSize  int64         // bytes of a bundle; default 32 MiB; a single group of files may be larger
	MaxFiles int           // members of a bundle; default 1000, at most 5000
	Parallel int           // members on their way at once; default 8
	GiveUp   time.Duration // how long one try to send goes on while nothing succeeds; default 1 minute. There is always another.

	// Outcomes is how long Once waits until the server has said what became of all bundles; zero:
	// not at all.
	Outcomes time.Duration

	Marker string   // where it is set, such as ".ok", a file is complete when NAME.ok or STEM.ok is there, and not before
	Ignore []string // patterns of names that are not taken, as path.Match has them, besides those of temporary files
}

// Limits and pauses.
const (
	mostFiles  = 5000                   // members: their names and digests fit a manifest, whatever they are
	leastLook  = 100 * time.Millisecond // between two looks: a settle time of zero is no busy loop
	firstPause = 5 * time.Second        // after the first try that failed; it doubles
	mostPause  = 5 * time.Minute        // a server that is back is found within that
	longPause  = 15 * time.Minute       // where a person has to do something first: make room, renew a token
)

// Agent is one agent. Its methods are for one goroutine.
type Agent struct {
	opt    Options
	source string
	up     *client.Uploader
	log    *slog.Logger
	root   *os.Root
	lock   *os.File

	state    *state
	seen     map[string]*seen  // by path below DIR
	held     map[string]string // paths that are not taken, and why; made again by each look
	anew     bool              // files were given back, to be looked at again
	draining bool              // everything that is complete goes, without waiting for more

	failedNow int             // files that this run has put away
	fails     int             // tries of the current bundle that failed in a row
	nextTry   time.Time       // by the monotonic clock; zero: now
	trouble   error           // why nothing moves: of the last try, nil when it went well
	broken    error           // what is wrong with this computer, as of the last look
	moveErr   error           // why files stay where they are
	nextMove  time.Time       // when those of stuck are tried again
	stuck     map[string]bool // moves that failed, by where they go
	asks      int             // how often the server was asked since the last bundle was sent
	nextAsk   time.Time

	live live
	step func(string) error // tests crash here; nil otherwise
}

// BusyError says that another agent has the directory.
type BusyError struct {
	Dir string
	PID int // 0: not known
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("%s is watched by another agent, process %d", e.Dir, e.PID)
}

// errWhere is a place that is none for bundles.
var errWhere = fmt.Errorf("want /%s/SOURCE", bundle.Root)

// sourceOf reads "/intake/SOURCE".
func sourceOf(to string) (string, error) {
	p, err := drive.ParsePath(to)
	if err != nil || len(p) != 2 || p[0] != bundle.Root {
		return "", fmt.Errorf("%q is not a place for bundles: %w", to, errWhere)
	}
	return string(p[1]), bundle.CheckSource(string(p[1]))
}

// Check completes the options and says what is wrong with them.
func (o *Options) Check() error {
	if _, err := sourceOf(o.To); err != nil {
		return err
	}
	o.Every, o.Settle = cmp.Or(o.Every, 5*time.Minute), cmp.Or(o.Settle, 10*time.Second)
	o.MaxSize, o.MaxFiles = cmp.Or(o.MaxSize, 32<<20), cmp.Or(o.MaxFiles, 1000)
	o.Parallel, o.GiveUp = cmp.Or(o.Parallel, 8), cmp.Or(o.GiveUp, time.Minute)
	if o.Every < 0 || o.Settle < 0 || o.GiveUp < 0 || o.MaxSize < 1 || o.Parallel < 1 {
		return errors.New("times, sizes and numbers must be greater than 0")
	}
	if o.MaxFiles < 1 || o.MaxFiles > mostFiles {
		return fmt.Errorf("%d files in a bundle: want 1 to %d", o.MaxFiles, mostFiles)
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

// Open takes the directory for this agent and reads where the last one stopped. A *BusyError says
// that another agent has it.
func Open(o Options) (*Agent, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	source, err := sourceOf(o.To)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("open the directory to watch: %w", err)
	}
	a := &Agent{
		opt: o, source: source, log: o.Log.With("source", source), root: root,
		seen: map[string]*seen{}, held: map[string]string{}, stuck: map[string]bool{},
	}
	if err := a.use(o.Client); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	if a.lock, err = takeLock(root, o.Dir); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	if a.state, err = loadState(root); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	a.live.Status = Status{Dir: o.Dir, To: o.To, Server: o.Client.BaseURL(), Contact: lastContact(root)}
	return a, nil
}

// Close lets go of the directory. What is on its way goes on with the next agent.
func (a *Agent) Close() error { return errors.Join(a.lock.Close(), a.root.Close()) }

// Run watches and sends until ctx ends; that is not an error. What goes wrong is logged, shown by
// ReadStatus, and tried again.
func (a *Agent) Run(ctx context.Context) error {
	a.log.Info("watching", "dir", a.opt.Dir, "server", a.opt.Client.BaseURL(), "every", a.opt.Every, "settle", a.opt.Settle)
	look := max(a.opt.Settle/2, leastLook)
	for {
		more, err := a.turn(ctx)
		if errors.Is(err, errCrash) {
			return err
		}
		a.broken = nil
		if ctx.Err() == nil && err != nil {
			a.log.Error("cannot go on, trying again", "error", err)
			a.broken = err
		}
		a.show(true)
		if more && err == nil && ctx.Err() == nil {
			continue
		}
		if err := wait(ctx, look); err != nil {
			a.log.Info("stopped")
			return nil //nolint:nilerr // being told to stop is how it ends
		}
	}
}

// What Once ends with when somebody should look: Status says at what.
var (
	ErrSome     = errors.New("some files were not sent")
	ErrRejected = errors.New("the server has not accepted everything that was sent")
	ErrUnknown  = errors.New("the server has not said yet what became of everything that was sent")
)

// Once sends everything that is complete, waits for what becomes of it, and returns. The error is
// why something is still waiting: the server's, ErrSome, or of what was sent ErrRejected or
// ErrUnknown.
func (a *Agent) Once(ctx context.Context) error {
	defer a.show(true)
	a.live.Once = true
	sent := a.state.Totals.Bundles
	left := a.drain(ctx)
	if left != nil && !errors.Is(left, ErrSome) || a.opt.Outcomes == 0 {
		return left
	}
	return errors.Join(left, a.outcomes(ctx, a.state.Totals.Bundles-sent))
}

// drain sends everything that is complete.
func (a *Agent) drain(ctx context.Context) error {
	for looks := 0; ; {
		if a.anew {
			looks, a.anew = 0, false
		}
		if err := a.look(ctx); err != nil {
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
		case a.trouble != nil:
			return a.trouble
		case more:
			continue
		case looks > 1 || len(a.seen) == 0:
			return a.leftOver()
		}
		if err := wait(ctx, a.opt.Settle); err != nil {
			return err
		}
	}
}

// leftOver is ErrSome where there is something to be looked into.
func (a *Agent) leftOver() error {
	if a.moveErr != nil {
		return a.moveErr
	}
	if len(a.held) > 0 || a.failedNow > 0 {
		return ErrSome
	}
	return nil
}

// turn is one look and what follows from it. more says that there is more to do at once.
func (a *Agent) turn(ctx context.Context) (more bool, err error) {
	if err := a.look(ctx); err != nil {
		return false, err
	}
	return a.act(ctx)
}

// act does what is due: moves, a bundle, tidying up, asking for verdicts.
func (a *Agent) act(ctx context.Context) (more bool, err error) {
	if err := a.move(); err != nil {
		return false, err
	}
	if a.state.Current == nil {
		if err := a.bundle(ctx); err != nil {
			return false, err
		}
	}
	if a.state.Current != nil && !time.Now().Before(a.nextTry) {
		if err := a.send(ctx); err != nil {
			return false, err
		}
		if a.trouble == nil {
			return true, a.move()
		}
	}
	if a.trouble == nil {
		if err := a.tidy(ctx); err != nil {
			return false, err
		}
		return false, a.ask(ctx)
	}
	return false, nil
}

// wait waits for d or the end of ctx.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// reason is the text of an error of a file, without the path, which is said beside it.
func reason(err error) string {
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		return at.Err.Error()
	}
	return err.Error()
}
