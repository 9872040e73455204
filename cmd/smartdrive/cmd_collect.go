package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"example.org/smartdrive/client"
	"example.org/smartdrive/internal/base/drive"
)

// newCollectCommand returns the command `collect`: create links for uploading files into a folder.
func newCollectCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "collect",
		Short: "Create links for uploading files into a folder",
		Long:  "Create, list and delete links by which anybody can send files into a folder. The files count towards your quota; senders do not see\nwhat is in the folder.",
		Args:  cobra.NoArgs,
		RunE:  showHelp,
	}
	c.addCommands(cmd, c.collectCreate(), c.collectLs(), c.collectRm())
	return cmd
}

// collectCreate returns the command `create FOLDER`: create a link into a folder.
func (c *cli) collectCreate() *cobra.Command {
	var in client.NewCollect
	var expires durationFlag
	var most, file string
	cmd := &cobra.Command{
		Use:               "create FOLDER",
		Short:             "Create a link into a folder",
		Example:           `  smartdrive collect create /homework --title "Homework, class 3" --expires 7d --max 5GiB --max-file 200MiB`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.completeRemote,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if in.MaxBytes, err = bytesFlag(cmd, "max", most); err != nil {
				return err
			}
			if in.MaxFile, err = bytesFlag(cmd, "max-file", file); err != nil {
				return err
			}
			api, n, err := c.nodeAt(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if in.Folder, in.ExpiresIn = n.ID, expires.seconds(); in.Title == "" {
				in.Title = n.Name
			}
			made, err := api.CreateCollect(cmd.Context(), in)
			if err != nil {
				return err
			}
			return c.show(made, "%s  %s%s", made.URL, made.Title, ending(made.ExpiresAt))
		},
	}
	cmd.Flags().StringVar(&in.Title, "title", "", "title that senders see (default: the folder's name)")
	cmd.Flags().StringVar(&in.Message, "message", "", "message that senders see")
	cmd.Flags().Var(&expires, "expires", "expire after this time, such as 7d or 12h (default never)")
	cmd.Flags().StringVar(&most, "max", "", "maximum size of all files together, such as 5GiB (default: what the account has room for)")
	cmd.Flags().StringVar(&file, "max-file", "", "maximum size of one file (default: any)")
	return cmd
}

// bytesFlag parses a flag that is a size in bytes; "" is 0.
func bytesFlag(cmd *cobra.Command, name, text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	size, err := drive.ParseByteSize(text)
	switch {
	case err != nil:
		return 0, usageError(cmd, fmt.Errorf("--%s: %w", name, err))
	case size == 0: // the API treats 0 as no limit
		return 0, usageError(cmd, fmt.Errorf("--%s: at least 1B", name))
	}
	return int64(size), nil
}

// collectLs returns the command `ls`: list links and how much was received through them.
func (c *cli) collectLs() *cobra.Command {
	return &cobra.Command{
		Use:   "ls",
		Short: "List links and how much was received through them",
		Args:  cobra.NoArgs,
		RunE: c.withClient(func(ctx context.Context, api *client.Client, _ []string) error {
			return showAll(api.AllCollects(ctx), func(l client.Collect) error {
				return c.show(l, "%s  %-7s  %s  %d files, %s  %s%s", l.ID, l.State, l.Title, l.Files, sizeText(l.Received), l.URL, ending(l.ExpiresAt))
			})
		}),
	}
}

// collectRm returns the command `rm LINK...`: delete links by id or URL; received files stay.
func (c *cli) collectRm() *cobra.Command {
	return &cobra.Command{
		Use:   "rm LINK...",
		Short: "Delete links by id or URL; received files stay",
		Args:  cobra.MinimumNArgs(1),
		RunE: c.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			return c.each(ctx, args, func(arg string) error {
				id, err := linkID(arg, api.AllCollects(ctx), func(l client.Collect) (id, token string) { return l.ID, l.Token })
				if err == nil {
					err = api.DeleteCollect(ctx, id)
				}
				if err != nil {
					return err
				}
				return c.show(map[string]string{"id": id, "state": "ended"}, "%s: ended", arg)
			})
		}),
	}
}
