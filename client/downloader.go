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

// Downloader downloads files. It fetches ranges in parallel into a partial file beside the target,
// resumes after interruptions, verifies the digest, and then renames the file to the target. It is
// safe for concurrent use. While a target is being downloaded, a second download to the same target
// fails, also in another process.
type Downloader struct {
	c   *Client
	opt DownloadOptions
}

// DownloadOptions configure a Downloader. Zero fields mean the defaults.
type DownloadOptions struct {
	Parallel   int           // concurrent ranges of one file; default 4
	PartSize   int64         // size of a range in bytes; default 8 MiB
	RetryFor   time.Duration // how long to retry without progress; default 15 minutes
	Files      int           // concurrent connections of a tree; default 16
	NoBatching bool          // download each small file of a tree on its own instead of many per request

	// NoSync renames small files of a tree before they are durable. A power failure may then
	// leave files of the last half minute missing or truncated; downloading the tree again
	// repairs them. NoSync has no effect together with TreeOptions.Keep.
	NoSync bool
}

// Downloader returns a Downloader that uses c. It fails if an option is negative.
func (c *Client) Downloader(o DownloadOptions) (*Downloader, error) {
	o.Parallel = orDefault(o.Parallel, 4)
	o.PartSize = orDefault(o.PartSize, defaultPartSize)
	o.RetryFor = orDefault(o.RetryFor, 15*time.Minute)
	o.Files = orDefault(o.Files, maxConns)
	if o.Parallel < 1 || o.Files < 1 || o.PartSize < 1 {
		return nil, errors.New("download: numbers at once and part size must be positive")
	}
	return &Downloader{c, o}, nil
}

// GetOptions configure the download of one file.
type GetOptions struct {
	SkipSame bool // skip if the local file has equal size and mtime, or equal content
	Keep     bool // never replace a local file
	Progress Progress
}

// errNotFile reports that a remote path is a folder and not a file.
var errNotFile = errors.New("is a folder")

// Get downloads the file at the path remote to the path local, whose directory must exist. It fails
// if the remote path is a folder.
func (d *Downloader) Get(ctx context.Context, remote, local string, o GetOptions) (Result, error) {
	n, err := d.c.NodeAt(ctx, remote)
	if err != nil {
		return Result{}, err
	}
	if n.Type != File {
		return Result{}, fmt.Errorf("%s: %w", remote, errNotFile)
	}
	if err := checkNotTempName(filepath.Base(local)); err != nil {
		return Result{}, err
	}
	root, err := os.OpenRoot(filepath.Dir(local))
	if err != nil {
		return Result{}, err
	}
	defer closeQuietly(root)
	res, err := d.get(ctx, root, filepath.Base(local), n, o)
	if err == nil {
		err = checkPathInPlace(filepath.Dir(local), root)
	}
	return res, err
}

// get downloads node n to name, a path below root. It cannot write outside of root. It emits the
// final event. It fails with ErrChanged or errDamaged only after several rounds.
func (d *Downloader) get(ctx context.Context, root *os.Root, name string, n Node, o GetOptions) (Result, error) {
	m := newMeter(o.Progress, Event{Path: n.Path, Local: filepath.Join(root.Name(), name), State: StateReceiving, Total: n.Size})
	res, err := d.getMetered(ctx, root, name, n, o, m)
	if err != nil {
		m.finish(StateFailed, err)
		return res, err
	}
	m.finish(res.State, nil)
	return res, nil
}

// getMetered downloads node n to name, a path below root, and reports its progress to m. If the
// content changes or is damaged meanwhile, it starts again, up to maxRounds times.
func (d *Downloader) getMetered(ctx context.Context, root *os.Root, name string, n Node, o GetOptions, m *meter) (Result, error) {
	if note, err := d.present(root, name, n, o, m); err != nil || note != "" {
		if err == nil && !o.Keep {
			removeStalePart(root, name)
		}
		return Result{Node: n, State: StateSkipped, Note: note}, err
	}
	p := newRetryBudget(d.opt.RetryFor)
	p.notify = func(err error, _ time.Duration) { m.retrying(err) }
	for round := 1; ; round++ {
		g := &fileDownload{downloader: d, root: root, name: name, node: n, budget: p, meter: m}
		m.setBytes(0)
		m.setState(StateReceiving)
		err := g.run(ctx)
		switch {
		case err == nil:
			return Result{Node: n, State: StateReceived, Moved: g.moved.Load()}, nil
		case round == maxRounds || !errors.Is(err, ErrChanged) && !errors.Is(err, errDamaged):
			return Result{}, err
		}
		if n, err = d.c.Node(ctx, n.ID); err != nil {
			return Result{}, err
		}
		m.restart(n.Size)
	}
}

// present returns a note why the local file need not be downloaded, or "" if it must be. It fails
// if the target is a directory.
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
	case mtimeMillis(info.ModTime()) == mtimeMillis(n.Mtime.Time):
		return "same size and time", nil
	}
	m.setState(StateHashing)
	f, err := root.Open(name)
	if err != nil {
		return "", err
	}
	defer closeQuietly(f)
	if sum, err := sumFile(f, n.Size, nil); err != nil || sum != n.Digests[blake3Name] {
		return "", nil // if the local file cannot be compared, download it
	}
	return "same content", nil
}
