package main

import (
	"context"

	"github.com/spf13/cobra"

	"example.org/smartdrive/client"
)

// newCpCommand returns the command `cp REMOTE... TARGET`: copy files and folders on the server
// without transferring data.
func newCpCommand(c *cli) *cobra.Command {
	return c.relocateCommand(client.OperationCopy, cobra.Command{
		Use:   "cp REMOTE... TARGET",
		Short: "Copy files and folders on the server without transferring data",
		Example: `  smartdrive cp /templates/letter.odt /documents/
  smartdrive cp /project /project-backup`,
	}, func(ctx context.Context, api *client.Client, n client.Node, parent, name string, conflict client.Conflict) (client.Node, error) {
		return api.CopyNode(ctx, n.ID, parent, name, conflict)
	})
}
