package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"example.org/smartdrive/client"
)

// newKeyConflictsCommand returns the command `key-conflicts`: resolve creations whose
// Idempotency-Key was reused for another request.
func newKeyConflictsCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "key-conflicts",
		Short: "Resolve creations whose Idempotency-Key was reused for another request",
		Args:  cobra.NoArgs,
		RunE:  showHelp,
	}
	c.addCommands(cmd, &cobra.Command{
		Use: "ls", Short: "List unresolved conflicts, the oldest first", Args: cobra.NoArgs,
		RunE: c.withClient(func(ctx context.Context, api *client.Client, _ []string) error {
			return showAll(api.AllKeyConflicts(ctx), func(x client.KeyConflict) error {
				return c.show(x, "%s  %s  %s %s  key %s  refusals: %d  %s", x.ID, x.LastAt.Format(time.RFC3339), x.Method, x.Route, x.Key, x.Times, x.Request)
			})
		}),
	}, &cobra.Command{
		Use: "settle ID...", Short: "Remove conflicts from the list; nothing is created", Args: cobra.MinimumNArgs(1),
		RunE: c.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			return c.each(ctx, args, func(id string) error {
				if err := api.SettleKeyConflict(ctx, id); err != nil {
					return err
				}
				return c.show(map[string]string{"settled": id}, "%s: settled", id)
			})
		}),
	})
	return cmd
}
