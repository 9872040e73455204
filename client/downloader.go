package client

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Downloader fetches files: in parallel ranges into a partial file beside the target, which goes on
// after any interruption, is compared with the file's digest, and only then takes the target's
// name. It is safe for concurrent use. Of two downloads to one target, by whichever processes, the
// second fails.
type Downloader struct {
	c   *Client
	opt DownloadOptions
}

// DownloadOptions tune a Downloader. The zero value is the default.
type DownloadOptions struct {
	Parallel int           // ranges of one file at once; default 4
	PartSize int64         // bytes of a range; default 8 MiB
	GiveUp   time.Duration // how long to go on while nothing succeeds; default 15 minutes
	Files    int           // connections that a tree may use at once; default 16
	Single   bool          // small files of a tree come one by one, and not many in one stream

	// NoSync gives the small files of a tree their names before they are durable. With the power
	// goes what was written in the last half minute or so; it is missing then or too short, and the
	// same download fetches it once more. It is nothing to a tree with Keep.
	NoSync bool
}

// Downloader returns a Downloader of c.
func (c *Client) Downloader(o DownloadOptions) (*Downloader, error) {
	o.Parallel = orElse(o.Parallel, 4)
	o.PartSize = orElse(o.PartSize, defaultPart)
	o.GiveUp = orElse(o.GiveUp, 15*time.Minute)
	o.Files = orElse(o.Files, maxConns)
	if o.Parallel < 1 || o.Files < 1 || o.PartSize < 1 {
		return nil, errors.New("download: numbers at once and part size must be positive")
	}
	return &Downloader{c, o}, nil
}

// GetOptions say how one file is fetched.
type GetOptions struct {
	SkipSame bool // skip a local file of equal size and mtime, or equal content
	Keep     bool // never replace a local file
	Progress Progress
}

// errNotFile is a remote folder where a file is needed.
var errNotFile = errors.New("is a folder")

// Get fetches the remote file to the local path, whose folder must exist.
func (d *Downloader) Get(ctx context.Context, remote, local string, o GetOptions) (Result, error) {
	n, err := d.c.NodeAt(ctx, remote)
	if err != nil {
		return Result{}, err
	}
	if n.Type != File {
		return Result{}, fmt.Errorf("%s: %w", remote, errNotFile)
	}
	if err := notOwn(filepath.Base(local)); err != nil {
		return Result{}, err
	}
	root, err := os.OpenRoot(filepath.Dir(local))
	if err != nil {
		return Result{}, err
	}
	defer letGo(root)
	res, err := d.get(ctx, root, filepath.Base(local), n, o)
	if err == nil {
		err = staysAt(filepath.Dir(local), root)
	}
	return res, err
}

// get fetches n to a name below root, which nothing that it does can leave.
func (d *Downloader) get(ctx context.Context, root *os.Root, name string, n Node, o GetOptions) (Result, error) {
	m := newMeter(o.Progress, Event{Path: n.Path, Local: filepath.Join(root.Name(), name), State: StateReceiving, Total: n.Size})
	res, err := d.getMetered(ctx, root, name, n, o, m)
	if err != nil {
		m.end(StateFailed, err)
		return res, err
	}
	m.end(res.State, nil)
	return res, nil
}

func (d *Downloader) getMetered(ctx context.Context, root *os.Root, name string, n Node, o GetOptions, m *meter) (Result, error) {
	if note, err := d.present(root, name, n, o, m); err != nil || note != "" {
		if err == nil && !o.Keep {
			sweepPart(root, name)
		}
		return Result{Node: n, State: StateSkipped, Note: note}, err
	}
	p := newPatience(d.opt.GiveUp)
	p.notify = func(err error, _ time.Duration) { m.waiting(err) }
	for round := 1; ; round++ {
		g := &fetching{d: d, root: root, name: name, node: n, patience: p, meter: m}
		m.has(0)
		m.state(StateReceiving)
		err := g.run(ctx)
		switch {
		case err == nil:
			return Result{Node: n, State: StateReceived, Moved: g.moved.Load()}, nil
		case round == mostRounds || !errors.Is(err, ErrChanged) && !errors.Is(err, errDamaged):
			return Result{}, err
		}
		if n, err = d.c.Node(ctx, n.ID); err != nil {
			return Result{}, err
		}
		m.resize(n.Size)
	}
}

// present says why the local file need not be fetched; empty is: fetch it.
func (d *Downloader) present(root *os.Root, name string, n Node, o GetOptions, m *meter) (string, error) {
	info, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	switch {
	case err != nil:
		return "", err
	case info.IsDir():
		return "", fmt.Errorf("%s: a folder of that name is in the way", filepath.Join(root.Name(), name))
	case o.Keep:
		return "it is there", nil
	case !o.SkipSame || !info.Mode().IsRegular() || info.Size() != n.Size:
		return "", nil
	case stamp(info.ModTime()) == stamp(n.Mtime):
		return "same size and time", nil
	}
	m.state(StateHashing)
	f, err := root.Open(name)
	if err != nil {
		return "", err
	}
	defer letGo(f)
	if sum, err := sumFile(f, n.Size, nil); err != nil || sum != n.Digests[blake3Name] {
		return "", nil // an unreadable or shrinking file is not a reason not to fetch
	}
	return "same content", nil
}
