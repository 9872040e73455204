package main

import (
	"context"
	"fmt"
	"path"

	"github.com/spf13/cobra"

	"smartdrive/client"
)

func newMvCommand(c *cli) *cobra.Command {
	return c.relocateCommand(cobra.Command{
		Use:   "mv REMOTE... TARGET",
		Short: "Move or rename files and folders on the server",
		Example: `  smartdrive mv /inbox/scan.pdf /documents/
  smartdrive mv /old-name /new-name`,
	}, func(ctx context.Context, api *client.Client, n client.Node, parent, name string, conflict client.Conflict) (client.Node, error) {
		return api.ChangeNode(ctx, n.ID, client.Change{Parent: parent, Name: name, Conflict: conflict})
	})
}

type relocation func(ctx context.Context, api *client.Client, n client.Node, parent, name string, conflict client.Conflict) (client.Node, error)

// relocateCommand makes mv and cp, which differ in one call.
func (c *cli) relocateCommand(cmd cobra.Command, do relocation) *cobra.Command {
	var conflict string
	cmd.Args = cobra.MinimumNArgs(2)
	cmd.ValidArgsFunction = c.completeRemote
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		policy, err := conflictOf(cmd, conflict)
		if err != nil {
			return err
		}
		api, err := c.connect()
		if err != nil {
			return err
		}
		ctx, sources := cmd.Context(), args[:len(args)-1]
		to, err := remoteTarget(ctx, api, args[len(args)-1], len(sources) > 1)
		if err != nil {
			return err
		}
		return c.each(ctx, sources, func(arg string) error {
			from, _ := remotePath(arg)
			n, err := relocate(ctx, api, from, to, policy, do)
			if err != nil {
				return err
			}
			return c.show(n, "%s -> %s", from, n.Path)
		})
	}
	conflictFlag(&cmd, &conflict, "fail")
	return &cmd
}

func relocate(ctx context.Context, api *client.Client, from string, to target, policy client.Conflict, do relocation) (client.Node, error) {
	n, err := api.NodeAt(ctx, from)
	if err != nil {
		return n, fmt.Errorf("%s: %w", from, err)
	}
	dest := to.join(n.Name)
	parent, err := api.NodeAt(ctx, path.Dir(dest))
	if err != nil {
		return n, fmt.Errorf("%s: %w", path.Dir(dest), err)
	}
	moved, err := do(ctx, api, n, parent.ID, path.Base(dest), policy)
	if err == nil && moved.ID == "" { // it was an operation of its own, which says no node
		return api.NodeAt(ctx, dest)
	}
	return moved, err
}
