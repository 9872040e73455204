package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"smartdrive/client"
)

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
			return c.each(cmd.Context(), args, func(arg string) error {
				found, err := findTrashed(cmd.Context(), api, arg)
				if err != nil {
					return err
				}
				n, err := api.RestoreNode(cmd.Context(), found.ID, policy)
				if err != nil {
					return err
				}
				if n.ID == "" { // an operation of its own, which says no node
					if n, err = api.Node(cmd.Context(), found.ID); err != nil {
						return err
					}
				}
				return c.show(n, "%s", n.Path)
			})
		},
	}
	conflictFlag(cmd, &conflict, "rename")
	return cmd
}

// findTrashed returns what was last deleted of the things that arg may mean.
func findTrashed(ctx context.Context, api *client.Client, arg string) (found client.Node, err error) {
	p, _ := remotePath(arg)
	for n, err := range api.AllTrash(ctx) {
		if err != nil {
			return found, err
		}
		if n.ID == arg {
			return n, nil
		}
		if n.Path == p && (found.ID == "" || n.TrashedAt != nil && n.TrashedAt.After(*found.TrashedAt)) {
			found = n
		}
	}
	if found.ID == "" {
		return found, withCode(exitNotFound, fmt.Errorf("%s is not in the trash: see smartdrive ls --trash", arg))
	}
	return found, nil
}
