package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"example.org/smartdrive/client"
)

// newUsageCommand returns the command `usage`: show who you are and how much space is used.
func newUsageCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "usage",
		Short:   "Show who you are and how much space is used",
		Example: "  smartdrive usage --json",
		Args:    cobra.NoArgs,
		RunE: c.withClient(func(ctx context.Context, api *client.Client, _ []string) error {
			me, err := api.Me(ctx)
			if err != nil {
				return err
			}
			used, owed := me.Usage.Used, ""
			if me.Usage.Owed > 0 {
				owed = fmt.Sprintf("; %s deleted and still on the disk", sizeText(me.Usage.Owed))
			}
			if me.Usage.Total == nil {
				return c.show(me, "%s: %s used, no limit%s", me.User.Name, sizeText(used), owed)
			}
			total := *me.Usage.Total
			free := max(0, total-used-max(0, me.Usage.Owed-total)) // deleted bytes still on disk may add up to the total without reducing the free space
			return c.show(me, "%s: %s of %s used, %s free%s", me.User.Name, sizeText(used), sizeText(total), sizeText(free), owed)
		}),
	}
}
