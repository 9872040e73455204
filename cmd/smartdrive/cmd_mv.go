package main

import (
	"context"
	"fmt"
	"path"

	"github.com/spf13/cobra"

	"example.org/smartdrive/client"
)

// newMvCommand returns the command `mv REMOTE... TARGET`: move or rename files and folders on the
// server.
func newMvCommand(c *cli) *cobra.Command {
	return c.relocateCommand(client.OperationMove, cobra.Command{
		Use:   "mv REMOTE... TARGET",
		Short: "Move or rename files and folders on the server",
		Example: `  smartdrive mv /inbox/scan.pdf /documents/
  smartdrive mv /old-name /new-name`,
	}, func(ctx context.Context, api *client.Client, n client.Node, parent, name string, conflict client.Conflict) (client.Node, error) {
		return api.ChangeNode(ctx, n.ID, client.Change{Parent: parent, Name: name, Conflict: conflict})
	})
}

// relocation moves or copies n to parent under name and returns the new node.
type relocation func(ctx context.Context, api *client.Client, n client.Node, parent, name string, conflict client.Conflict) (client.Node, error)

// relocateCommand returns cmd completed to the command mv or cp, by kind; do moves or copies one
// node.
func (c *cli) relocateCommand(kind client.OperationKind, cmd cobra.Command, do relocation) *cobra.Command {
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
		if len(sources) > 1 && kind == client.OperationMove {
			return c.moveMany(ctx, api, sources, to, policy)
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

// relocate moves or copies the node at a path to the target and returns the resulting node.
func relocate(ctx context.Context, api *client.Client, from string, to target, policy client.Conflict, do relocation) (client.Node, error) {
	n, err := api.NodeAt(ctx, from)
	if err != nil {
		return n, fmt.Errorf("%s: %w", from, err)
	}
	dest := to.join(n.Name)
	parent, err := api.NodeAt(ctx, client.DirPath(dest))
	if err != nil {
		return n, fmt.Errorf("%s: %w", client.DirPath(dest), err)
	}
	moved, err := do(ctx, api, n, parent.ID, path.Base(dest), policy)
	if err == nil && moved.ID == "" { // finished in the background, without a node in the reply
		return api.NodeAt(ctx, dest)
	}
	return moved, err
}

// moveMany moves several nodes into one folder by an operation of the server, waits for it and
// prints each result. Sources that do not exist are reported and do not stop the others; the
// command then fails.
func (c *cli) moveMany(ctx context.Context, api *client.Client, sources []string, to target, policy client.Conflict) error {
	parent, err := api.NodeAt(ctx, to.path)
	if err != nil {
		return fmt.Errorf("%s: %w", to.path, err)
	}
	found, lost, err := c.findNodes(ctx, sources, func(arg string) (client.Node, error) {
		from, _ := remotePath(arg)
		n, err := api.NodeAt(ctx, from)
		if err != nil {
			err = fmt.Errorf("%s: %w", from, err)
		}
		return n, err
	})
	if err != nil {
		return err
	}
	what := client.NewOperation{Kind: client.OperationMove, Parent: parent.ID, Conflict: policy}
	return c.applyToMany(ctx, api, what, found, lost, func(it namedNode) error {
		n, err := api.Node(ctx, it.node.ID)
		if err != nil {
			return err
		}
		from, _ := remotePath(it.arg)
		return c.show(n, "%s -> %s", from, n.Path)
	})
}
