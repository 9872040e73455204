package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"example.org/smartdrive/client"
)

// tokenCommands are the commands about access tokens and app passwords.
type tokenCommands struct{ *cli }

// newTokenCommand returns the command `token`: work with access tokens and app passwords.
func newTokenCommand(of *cli) *cobra.Command {
	c := tokenCommands{of}
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Work with access tokens and app passwords",
		Long: `List, make and revoke access tokens. A token for the protocols dav or nextcloud is an app password: a program
that only knows a name and a password sends it as the password, with your user name.`,
		Args: cobra.NoArgs,
		RunE: showHelp,
	}
	c.addCommands(cmd, c.ls(), c.create(), c.rm())
	return cmd
}

// line prints an access token as one line, without its secret.
func (c tokenCommands) line(t client.AccessToken) error {
	return c.show(t, "%s  %s  %s  %s  last used %s", t.ID, t.Name, strings.Join(t.Scopes, ","), strings.Join(t.Heads, ","),
		t.SeenAt.Local().Format("2006-01-02 15:04"))
}

// ls returns the command `ls`: list your tokens, the newest first.
func (c tokenCommands) ls() *cobra.Command {
	return &cobra.Command{
		Use:   "ls",
		Short: "List your tokens, the newest first",
		Args:  cobra.NoArgs,
		RunE: c.withClient(func(ctx context.Context, api *client.Client, _ []string) error {
			return c.each(ctx, api, c.line)
		}),
	}
}

// each calls act for every access token, page by page. It stops at the first error of a page or of
// act.
func (c tokenCommands) each(ctx context.Context, api *client.Client, act func(client.AccessToken) error) error {
	for page := (client.Page{}); ; {
		list, err := api.Tokens(ctx, page)
		if err != nil {
			return err
		}
		for _, t := range list.Items {
			if err := act(t); err != nil {
				return err
			}
		}
		if list.NextCursor == nil {
			return nil
		}
		page.Cursor = *list.NextCursor
	}
}

// create returns the command `create NAME`: create a token and print it once.
func (c tokenCommands) create() *cobra.Command {
	var scopes, heads []string
	var life durationFlag
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a token and print it once",
		Example: `  smartdrive token create "my phone" --heads nextcloud
  smartdrive token create backup --scopes read --expires 90d`,
		Args: cobra.ExactArgs(1),
		RunE: c.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			t, err := api.CreateToken(ctx, client.NewToken{
				Name: args[0], Scopes: scopes, Heads: heads, ExpiresIn: life.seconds(),
			})
			if err != nil {
				return err
			}
			return c.show(t, "%s", t.Token)
		}),
	}
	cmd.Flags().StringSliceVar(&scopes, "scopes", []string{"read", "write"}, "what it may do: read, write, admin")
	cmd.Flags().StringSliceVar(&heads, "heads", []string{"native"}, "the protocols that it is good for: native, dav, nextcloud")
	cmd.Flags().Var(&life, "expires", "expire after this time, such as 90d or 12h (default: when it is revoked)")
	return cmd
}

// rm returns the command `rm ID...`: revoke tokens.
func (c tokenCommands) rm() *cobra.Command {
	return &cobra.Command{
		Use:   "rm ID...",
		Short: "Revoke tokens",
		Args:  cobra.MinimumNArgs(1),
		RunE: c.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			for _, id := range slices.Compact(args) {
				if err := api.DeleteToken(ctx, id); err != nil {
					return err
				}
			}
			return nil
		}),
	}
}
