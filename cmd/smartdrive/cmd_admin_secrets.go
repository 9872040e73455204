package main

import (
	"net/http"

	"github.com/spf13/cobra"

	"smartdrive/internal/app"
)

func (a *adminCLI) secretsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "secrets",
		Short: "Care for what links are signed with",
		Args:  usageArgs(cobra.NoArgs),
		RunE:  help,
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "rotate",
		Short: "Void all signed links by a new secret",
		Long: `Put a new secret in the place of the one that links are signed with. Signed links to files and zips are void, who has opened a
share opens it again, and senders of a collect link begin again. Shares and collect links themselves, their codes, logins and tokens stay; what
is kept of them is sealed with a new secret. Other instances hear of it within five seconds. It reads every link once. Do it when somebody may have seen the database and its key, or a database of an older version.`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), func(c *connection) error {
				var out app.RotateAnswer
				if err := c.call(cmd.Context(), http.MethodPost, app.RouteRotate, app.RotateRequest{}, &out); err != nil {
					return err
				}
				return a.done(out, "a new secret; all signed links are void")
			})
		},
	})
	return cmd
}
