package main

import (
	"context"

	"github.com/spf13/cobra"

	"example.org/smartdrive/client"
)

// newMkdirCommand returns `smartdrive mkdir PATH...`, which creates folders, with -p also the
// missing ones above.
func newMkdirCommand(c *cli) *cobra.Command {
	var parents bool
	cmd := &cobra.Command{
		Use:               "mkdir PATH...",
		Short:             "Create folders",
		Example:           "  smartdrive mkdir -p /photos/2026/summer",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: c.completeRemote,
		RunE: c.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			return c.each(ctx, args, func(arg string) error {
				p, _ := remotePath(arg)
				var n client.Node
				var err error
				if parents {
					n, _, err = api.MakeFolder(ctx, p)
				} else {
					n, err = api.CreateFolder(ctx, client.NewFolder{Path: p})
				}
				if err != nil {
					return err
				}
				return c.show(n, "%s", n.Path)
			})
		}),
	}
	cmd.Flags().BoolVarP(&parents, "parents", "p", false, "create parent folders too; an existing folder is not an error")
	return cmd
}
