package main

import (
	"net/http"

	"github.com/spf13/cobra"

	"example.org/smartdrive/internal/app"
)

// secretsCommand returns the command `admin secrets`: manage the secrets that links are signed
// with.
func (a *adminCLI) secretsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "secrets",
		Short: "Manage the secrets that links are signed with",
		Args:  usageArgs(cobra.NoArgs),
		RunE:  showHelp,
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "rotate",
		Short: "Invalidate all signed links by creating a new secret",
		Long: `Replace the secret that links are signed with. Signed links to files and zips become invalid, visitors of a share have to open
it again, and senders of a collect link start over. Shares, collect links, their codes, logins and tokens stay valid and are
encrypted with a new secret. Every link is read once; other instances follow within five seconds.

Do this if somebody may have seen the database and its key, or a database of an older version.`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withConnection(cmd.Context(), func(c *connection) error {
				var out app.RotateResult
				if err := c.call(cmd.Context(), http.MethodPost, app.RouteRotate, app.RotateRequest{}, &out); err != nil {
					return err
				}
				return a.printDone(out, "a new secret; all signed links are void")
			})
		},
	})
	return cmd
}
