package main

import (
	"github.com/spf13/cobra"

	"smartdrive/client"
)

func newMkdirCommand(c *cli) *cobra.Command {
	var parents bool
	cmd := &cobra.Command{
		Use:               "mkdir PATH...",
		Short:             "Create folders",
		Example:           "  smartdrive mkdir -p /photos/2026/summer",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: c.completeRemote,
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.connect()
			if err != nil {
				return err
			}
			return c.each(cmd.Context(), args, func(arg string) error {
				p, _ := remotePath(arg)
				var n client.Node
				if parents {
					n, _, err = api.MakeFolder(cmd.Context(), p)
				} else {
					n, err = api.CreateFolder(cmd.Context(), client.NewFolder{Path: p})
				}
				if err != nil {
					return err
				}
				return c.show(n, "%s", n.Path)
			})
		},
	}
	cmd.Flags().BoolVarP(&parents, "parents", "p", false, "create parent folders too; an existing folder is not an error")
	return cmd
}
