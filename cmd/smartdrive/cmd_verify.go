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

	"smartdrive/client"
)

func newVerifyCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "verify LOCAL REMOTE",
		Short: "Compare local files with those on the server by digest",
		Long: `Compare local files with those on the server by their BLAKE3 digests; nothing is downloaded. Folders are compared
recursively: "missing" means only here, "extra" only on the server. The command fails if anything differs.`,
		Example: `  smartdrive verify disk.img /images/disk.img
  smartdrive verify ~/photos /photos`,
		Args: cobra.ExactArgs(2),
		RunE: c.calls(func(ctx context.Context, api *client.Client, args []string) error {
			p, _ := remotePath(args[1])
			n, err := api.NodeAt(ctx, p)
			if err != nil {
				return fmt.Errorf("%s: %w", p, err)
			}
			v := &verification{c: c, api: api}
			if err := v.compare(ctx, args[0], n); err != nil {
				return err
			}
			return v.end()
		}),
	}
}

// verification counts what was compared.
type verification struct {
	c            *cli
	api          *client.Client
	same, differ int
}

var errDiffers = errors.New("differs")

func (v *verification) note(state, local, remote string) error {
	if state == "same" {
		v.same++
	} else {
		v.differ++
	}
	return v.c.show(map[string]string{"state": state, "local": local, "path": remote}, "%-7s  %s", state, remote)
}

func (v *verification) end() error {
	switch {
	case v.differ == 0:
		return nil
	case v.same == 0 && v.differ == 1:
		return errDiffers
	}
	return withCode(exitSome, fmt.Errorf("%d of %d differ", v.differ, v.same+v.differ))
}

func (v *verification) compare(ctx context.Context, local string, n client.Node) error {
	info, err := os.Stat(local)
	if err != nil {
		return err
	}
	switch {
	case info.IsDir() != (n.Type == client.Folder):
		return v.note("differs", local, n.Path)
	case info.IsDir():
		return v.folder(ctx, local, n)
	case info.Size() != n.Size:
		return v.note("differs", local, n.Path)
	}
	sum, err := client.Sum(local)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if sum != n.Digest() {
		return v.note("differs", local, n.Path)
	}
	return v.note("same", local, n.Path)
}

func (v *verification) folder(ctx context.Context, local string, folder client.Node) error {
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
			continue // put leaves it out too
		}
		n, ok := there[entry.Name()]
		delete(there, entry.Name())
		from := filepath.Join(local, entry.Name())
		if !ok {
			err = v.note("missing", from, client.JoinPath(folder.Path, entry.Name()))
		} else {
			err = v.compare(ctx, from, n)
		}
		if err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(there)) {
		if err := v.note("extra", filepath.Join(local, name), there[name].Path); err != nil {
			return err
		}
	}
	return nil
}
