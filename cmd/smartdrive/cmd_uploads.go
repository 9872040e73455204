package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"example.org/smartdrive/client"
)

// newUploadsCommand returns `smartdrive uploads`, which lists open uploads, with the subcommand
// cancel.
func newUploadsCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "uploads",
		Short: "List open uploads, or cancel one",
		Long:  "List unfinished uploads. To resume one, put the same file to the same place again.",
		Example: `  smartdrive uploads
  smartdrive uploads cancel 01890a5d-ac96-774b-bcce-b302099a8057`,
		Args: cobra.NoArgs,
		RunE: c.withClient(func(ctx context.Context, api *client.Client, _ []string) error {
			return showAll(api.AllUploads(ctx), func(u client.Upload) error {
				if full, err := api.Upload(ctx, u.ID); err == nil { // the list does not contain the received parts
					u = full
				}
				return c.show(u, "%s  %-7s  %s  %s  until %s", u.ID, u.State, receivedText(u), u.Path, timeText(u.ExpiresAt.Time))
			})
		}),
	}
	cancel := &cobra.Command{
		Use:     "cancel ID...",
		Short:   "Cancel uploads and delete what has arrived",
		Example: "  smartdrive uploads cancel 01890a5d-ac96-774b-bcce-b302099a8057",
		Args:    cobra.MinimumNArgs(1),
		RunE: c.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			return c.each(ctx, args, func(id string) error {
				if err := api.CancelUpload(ctx, id); err != nil {
					return err
				}
				return c.show(map[string]string{"id": id, "state": "cancelled"}, "%s: cancelled", id)
			})
		}),
	}
	c.addCommands(cmd, cancel)
	return cmd
}

// receivedText formats how much of an upload has been received.
func receivedText(u client.Upload) string {
	var parts int64
	for _, s := range u.Received {
		parts += s[1] - s[0] + 1
	}
	if u.Size == nil {
		return fmt.Sprintf("%d parts", parts)
	}
	return fmt.Sprintf("%s of %s", sizeText(min(parts*u.PartSize, *u.Size)), sizeText(*u.Size))
}
