package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"example.org/smartdrive/client"
)

// newVerifyCommand returns the command `verify LOCAL REMOTE`: compare local files with those on the
// server by digest.
func newVerifyCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "verify LOCAL REMOTE",
		Short: "Compare local files with those on the server by digest",
		Long: `Compare local files with those on the server by their BLAKE3 digests; nothing is downloaded. Folders are compared
recursively: "missing" means only here, "extra" only on the server. The command fails if anything differs.`,
		Example: `  smartdrive verify disk.img /images/disk.img
  smartdrive verify ~/photos /photos`,
		Args: cobra.ExactArgs(2),
		RunE: c.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			p, _ := remotePath(args[1])
			n, err := api.NodeAt(ctx, p)
			if err != nil {
				return fmt.Errorf("%s: %w", p, err)
			}
			v := &verification{c: c, api: api}
			if err := v.compare(ctx, args[0], n); err != nil {
				return err
			}
			return v.result()
		}),
	}
}

// verification compares local files with the server and counts the results.
type verification struct {
	c            *cli
	api          *client.Client
	same, differ int
}

// errDiffers reports that local and remote files differ; what differs was printed.
var errDiffers = errors.New("differs")

// record counts and prints the result of one file; every state but "same" counts as a difference.
// It fails with a write error.
func (v *verification) record(state, local, remote string) error {
	if state == "same" {
		v.same++
	} else {
		v.differ++
	}
	return v.c.show(map[string]string{"state": state, "local": local, "path": remote}, "%-7s  %s", state, remote)
}

// result returns nil if everything is the same, errDiffers if the only file differs, and else an
// error with exitPartial and the counts.
func (v *verification) result() error {
	switch {
	case v.differ == 0:
		return nil
	case v.same == 0 && v.differ == 1:
		return errDiffers
	}
	return withCode(exitPartial, fmt.Errorf("%d of %d differ", v.differ, v.same+v.differ))
}

// compare compares a local file or directory with a node and records the result. A difference is no
// error; an unreadable file is.
func (v *verification) compare(ctx context.Context, local string, n client.Node) error {
	info, err := os.Stat(local)
	if err != nil {
		return err
	}
	switch {
	case info.IsDir() != (n.Type == client.Folder):
		return v.record("differs", local, n.Path)
	case info.IsDir():
		return v.compareFolder(ctx, local, n)
	case info.Size() != n.Size:
		return v.record("differs", local, n.Path)
	}
	sum, err := client.FileDigest(local)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if sum != n.Digest() {
		return v.record("differs", local, n.Path)
	}
	return v.record("same", local, n.Path)
}

// compareFolder compares a local directory with a remote folder, recursively, and records each
// file, also those that only one side has. A difference is no error. It fails if a side cannot be
// read or a result cannot be printed.
func (v *verification) compareFolder(ctx context.Context, local string, folder client.Node) error {
	entries, err := os.ReadDir(local)
	if err != nil {
		return err
	}
	there := make(map[string]client.Node)
	for n, err := range v.api.AllChildren(ctx, folder.ID) {
		if err != nil {
			return err
		}
		name, err := client.LocalName(n.Name)
		if err != nil {
			return err
		}
		there[name] = n
	}
	for _, entry := range entries {
		if !entry.IsDir() && !entry.Type().IsRegular() {
			continue // put skips it, too
		}
		n, ok := there[entry.Name()]
		delete(there, entry.Name())
		from := filepath.Join(local, entry.Name())
		if !ok {
			err = v.record("missing", from, client.JoinPath(folder.Path, entry.Name()))
		} else {
			err = v.compare(ctx, from, n)
		}
		if err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(there)) {
		if err := v.record("extra", filepath.Join(local, name), there[name].Path); err != nil {
			return err
		}
	}
	return nil
}
