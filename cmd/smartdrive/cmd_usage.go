package main

import (
	"context"

	"github.com/spf13/cobra"

	"smartdrive/client"
)

func newUsageCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "usage",
		Short:   "Show who you are and how much space is used",
		Example: "  smartdrive usage --json",
		Args:    cobra.NoArgs,
		RunE: c.calls(func(ctx context.Context, api *client.Client, _ []string) error {
			me, err := api.Me(ctx)
			if err != nil {
				return err
			}
			if me.Usage.Total == nil {
				return c.show(me, "%s: %s used, no limit", me.User.Name, sizeText(me.Usage.Used))
			}
			total := *me.Usage.Total
			return c.show(me, "%s: %s of %s used, %s free", me.User.Name, sizeText(me.Usage.Used), sizeText(total),
				sizeText(max(0, total-me.Usage.Used)))
		}),
	}
}
