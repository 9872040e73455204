package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"example.org/smartdrive/client"
)

// newRmCommand returns the command `rm PATH...`: move files and folders to the trash.
func newRmCommand(c *cli) *cobra.Command {
	var recursive, permanent, empty bool
	cmd := &cobra.Command{
		Use:   "rm PATH...",
		Short: "Move files and folders to the trash",
		Long:  "Move files and folders to the trash. \"ls --trash\" lists them and \"restore\" brings them back. The trash counts as used space.",
		Example: `  smartdrive rm /inbox/scan.pdf
  smartdrive rm -r --permanent /old
  smartdrive rm --empty-trash
  smartdrive rm --empty-trash //Design`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: c.completeRemote,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !empty && len(args) == 0 || empty && len(args) > 1 {
				return usageError(cmd, errors.New("name what to delete, or give --empty-trash, alone or with a space"))
			}
			api, err := c.connect()
			if err != nil {
				return err
			}
			if empty {
				space, err := spaceOf(args)
				if err != nil {
					return usageError(cmd, err)
				}
				if err := client.NewSharing(api).EmptyTrash(cmd.Context(), space); err != nil {
					return err
				}
				return c.show(map[string]bool{"emptied": true}, "The trash is empty.")
			}
			return c.remove(cmd.Context(), api, args, recursive, permanent)
		},
	}
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "delete folders recursively")
	cmd.Flags().BoolVar(&permanent, "permanent", false, "delete permanently, without the trash")
	cmd.Flags().BoolVar(&empty, "empty-trash", false, "permanently delete everything in the trash")
	return cmd
}

// remove moves the arguments to the trash, or deletes them if permanent is set. It handles one node
// directly and several by an operation of the server, whose end it waits for. Without recursive, a
// folder fails with errIsFolder.
func (c *cli) remove(ctx context.Context, api *client.Client, args []string, recursive, permanent bool) error {
	found, lost, err := c.findNodes(ctx, args, func(arg string) (client.Node, error) {
		p, _ := remotePath(arg)
		n, err := api.NodeAt(ctx, p)
		if err != nil {
			return n, fmt.Errorf("%s: %w", p, err)
		}
		if n.Type == client.Folder && !recursive {
			return n, fmt.Errorf("%s %w", p, errIsFolder)
		}
		return n, nil
	})
	if err != nil {
		return err
	}
	kind, what := client.OperationTrash, "in the trash"
	if permanent {
		kind, what = client.OperationDelete, "deleted"
	}
	tell := func(it namedNode) error {
		p, _ := remotePath(it.arg)
		return c.show(map[string]any{"id": it.node.ID, "path": p, "permanent": permanent}, "%s: %s", p, what)
	}
	if len(args) == 1 {
		if err := api.DeleteNode(ctx, found[0].node.ID, permanent); err != nil {
			return err
		}
		return tell(found[0])
	}
	return c.applyToMany(ctx, api, client.NewOperation{Kind: kind}, found, lost, tell)
}
