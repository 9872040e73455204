package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"example.org/smartdrive/client"
)

// newRestoreCommand returns the command `restore PATH|ID...`: restore files and folders from the
// trash.
func newRestoreCommand(c *cli) *cobra.Command {
	var conflict string
	cmd := &cobra.Command{
		Use:   "restore PATH|ID...",
		Short: "Restore files and folders from the trash",
		Long: `Restore files and folders from the trash, by their former path or by id. If several had the same
path, the one that was deleted last is restored.`,
		Example: "  smartdrive restore /inbox/scan.pdf",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			policy, err := conflictOf(cmd, conflict)
			if err != nil {
				return err
			}
			api, err := c.connect()
			if err != nil {
				return err
			}
			return c.restore(cmd.Context(), api, args, policy)
		},
	}
	conflictFlag(cmd, &conflict, "rename")
	return cmd
}

// restore restores the arguments, ids or former paths of nodes in the trash, to their folders, and
// prints the new paths. It restores one node directly and several by an operation of the server,
// whose end it waits for.
func (c *cli) restore(ctx context.Context, api *client.Client, args []string, policy client.Conflict) error {
	var trash []client.Node
	for _, space := range spacesOf(args) {
		for n, err := range client.NewSharing(api).AllTrash(ctx, space) {
			if err != nil {
				return err
			}
			trash = append(trash, n)
		}
	}
	found, lost, err := c.findNodes(ctx, args, func(arg string) (client.Node, error) { return findTrashed(trash, arg) })
	if err != nil {
		return err
	}
	tell := func(it namedNode) error {
		n, err := api.Node(ctx, it.node.ID)
		if err != nil {
			return err
		}
		return c.show(n, "%s", n.Path)
	}
	if len(args) == 1 {
		if _, err := api.RestoreNode(ctx, found[0].node.ID, policy); err != nil {
			return err
		}
		return tell(found[0])
	}
	return c.applyToMany(ctx, api, client.NewOperation{Kind: client.OperationRestore, Conflict: policy}, found, lost, tell)
}

// findTrashed returns the node of trash whose id arg is, else the most recently deleted one at the
// path arg. It fails with exitNotFound.
func findTrashed(trash []client.Node, arg string) (found client.Node, err error) {
	p, _ := remotePath(arg)
	for _, n := range trash {
		if n.ID == arg {
			return n, nil
		}
		if n.Path == p && (found.ID == "" || n.TrashedAt != nil && n.TrashedAt.After(found.TrashedAt.Time)) {
			found = n
		}
	}
	if found.ID == "" {
		return found, withCode(exitNotFound, fmt.Errorf("%s is not in the trash: see smartdrive ls --trash", arg))
	}
	return found, nil
}
