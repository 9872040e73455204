package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"smartdrive/client"
)

func newRmCommand(c *cli) *cobra.Command {
	var recursive, permanent, empty bool
	cmd := &cobra.Command{
		Use:   "rm PATH...",
		Short: "Move files and folders to the trash",
		Long:  "Move files and folders to the trash. \"ls --trash\" lists them and \"restore\" brings them back. The trash counts as used space.",
		Example: `  smartdrive rm /inbox/scan.pdf
  smartdrive rm -r --permanent /old
  smartdrive rm --empty-trash`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: c.completeRemote,
		RunE: func(cmd *cobra.Command, args []string) error {
			if empty == (len(args) > 0) {
				return usage(cmd, errors.New("name what to delete, or give --empty-trash alone"))
			}
			api, err := c.connect()
			if err != nil {
				return err
			}
			if empty {
				if err := api.EmptyTrash(cmd.Context()); err != nil {
					return err
				}
				return c.show(map[string]bool{"emptied": true}, "The trash is empty.")
			}
			return c.each(cmd.Context(), args, func(arg string) error { return c.remove(cmd, api, arg, recursive, permanent) })
		},
	}
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "delete folders recursively")
	cmd.Flags().BoolVar(&permanent, "permanent", false, "delete permanently, without the trash")
	cmd.Flags().BoolVar(&empty, "empty-trash", false, "permanently delete everything in the trash")
	return cmd
}

func (c *cli) remove(cmd *cobra.Command, api *client.Client, arg string, recursive, permanent bool) error {
	p, _ := remotePath(arg)
	n, err := api.NodeAt(cmd.Context(), p)
	if err != nil {
		return fmt.Errorf("%s: %w", p, err)
	}
	if n.Type == client.Folder && !recursive {
		return fmt.Errorf("%s %w", p, errIsFolder)
	}
	if err := api.DeleteNode(cmd.Context(), n.ID, permanent); err != nil {
		return err
	}
	what := "in the trash"
	if permanent {
		what = "deleted"
	}
	return c.show(map[string]any{"id": n.ID, "path": p, "permanent": permanent}, "%s: %s", p, what)
}
