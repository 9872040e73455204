package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"example.org/smartdrive/client"
)

// newStarCommand returns `smartdrive star PATH...`.
func newStarCommand(c *cli) *cobra.Command {
	return c.starCommand("star", "Star files and folders, so that \"ls --starred\" lists them", client.Stars.Star)
}

// newUnstarCommand returns `smartdrive unstar PATH...`.
func newUnstarCommand(c *cli) *cobra.Command {
	return c.starCommand("unstar", "Take stars away", client.Stars.Unstar)
}

// starCommand returns the command name, star or unstar, which calls do for the node at each path.
func (c *cli) starCommand(name, short string, do func(client.Stars, context.Context, string) error) *cobra.Command {
	return &cobra.Command{
		Use:               name + " PATH...",
		Short:             short,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: c.completeRemote,
		RunE: c.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			return c.each(ctx, args, func(arg string) error {
				p, _ := remotePath(arg)
				n, err := api.NodeAt(ctx, p)
				if err != nil {
					return fmt.Errorf("%s: %w", p, err)
				}
				if err := do(client.NewStars(api), ctx, n.ID); err != nil {
					return fmt.Errorf("%s: %w", p, err)
				}
				return c.show(map[string]any{"path": n.Path, "starred": name == "star"}, "%s: %sred", n.Path, name)
			})
		}),
	}
}
