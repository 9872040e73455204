package main

import (
	"github.com/spf13/cobra"
)

func newUsageCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "usage",
		Short:   "Show who you are and how much space is used",
		Example: "  smartdrive usage --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			api, err := c.connect()
			if err != nil {
				return err
			}
			me, err := api.Me(cmd.Context())
			if err != nil {
				return err
			}
			if me.Usage.Total == nil {
				return c.show(me, "%s: %s used, no limit", me.User.Name, sizeText(me.Usage.Used))
			}
			total := *me.Usage.Total
			return c.show(me, "%s: %s of %s used, %s free", me.User.Name, sizeText(me.Usage.Used), sizeText(total),
				sizeText(max(0, total-me.Usage.Used)))
		},
	}
}
