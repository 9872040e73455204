package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"example.org/smartdrive/client"
)

// newNoticesCommand returns `smartdrive notifications`, which lists the caller's notifications.
func newNoticesCommand(of *cli) *cobra.Command {
	c := peopleCommands{of}
	var unread bool
	limit := 50
	cmd := &cobra.Command{
		Use:     "notifications",
		Aliases: []string{"notices"},
		Short:   "List your notifications",
		Long: `List your notifications, the newest first: what was shared with you, roles that changed or end, exports that are ready, files that came by a collect link.
Unread notifications begin with a *.`,
		Example: `  smartdrive notifications --unread
  smartdrive notifications read --all
  smartdrive notifications settings --mail ann@example.org --channel collect=page`,
		Args: cobra.NoArgs,
		RunE: c.withClient(func(ctx context.Context, api *client.Client, _ []string) error {
			left := limit
			for n, err := range client.NewNotifications(api).List(ctx, unread) {
				if err != nil {
					return err
				}
				if err := c.showNotice(n); err != nil {
					return err
				}
				if left--; left == 0 {
					break
				}
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&unread, "unread", false, "only unread notifications")
	cmd.Flags().IntVarP(&limit, "limit", "n", limit, "how many at most; 0 = all")
	c.addCommands(cmd, c.noticesRead(), c.noticesSettings(), c.noticesConfirm())
	return cmd
}

// showNotice prints a notification; a * marks an unread one.
func (c peopleCommands) showNotice(n client.Notification) error {
	mark, who, about := "*", n.By, n.Path
	if n.Read != nil {
		mark = " "
	}
	if who == "" {
		who = "-"
	}
	if about == "" {
		about = n.Name
	}
	if n.Gone {
		about = "(not visible any more)"
	}
	if n.Role != "" {
		about += "  " + n.Role
	}
	if n.Expires != nil {
		about += "  until " + timeText(*n.Expires)
	}
	return c.show(n, "%s %s  %-16s  %s  %s  %s", mark, timeText(n.At), n.Kind+"."+n.What, who, about, n.ID)
}

// noticesRead returns `smartdrive notifications read [ID...]`, which marks the named notifications
// or, with --all, all as read.
func (c peopleCommands) noticesRead() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use: "read [ID...]", Short: "Mark notifications as read",
		RunE: c.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			notices := client.NewNotifications(api)
			if len(args) > 0 && !all {
				return notices.MarkRead(ctx, args...)
			}
			if !all || len(args) > 0 {
				return withCode(exitUsage, errors.New("name notifications, or say --all"))
			}
			for n, err := range notices.List(ctx, true) {
				if err != nil {
					return err
				}
				return notices.MarkReadUpTo(ctx, n.ID) // the newest
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&all, "all", false, "mark all current notifications")
	return cmd
}

// showNoticeSettings prints mail address, language and the channel of each kind.
func (c peopleCommands) showNoticeSettings(s client.NotificationSettings) error {
	var channels []string
	for _, kind := range slices.Sorted(maps.Keys(s.Channels)) {
		channels = append(channels, kind+"="+s.Channels[kind])
	}
	address := s.Address
	switch {
	case !s.MailPossible:
		address = "(this server sends no mail)"
	case address == "":
		address = "(no address)"
	}
	return c.show(s, "mail: %s  %s  %s\n%s", address, s.State, s.Language, strings.Join(channels, "  "))
}

// noticesSettings returns `smartdrive notifications settings`, which changes what its flags name
// and shows the settings.
func (c peopleCommands) noticesSettings() *cobra.Command {
	var address, language string
	var channels map[string]string
	cmd := &cobra.Command{
		Use:   "settings",
		Short: "Show and change notification settings",
		Long: `Show and change notification settings. A channel is off, page (on the web page), or mail (on the web page and by mail). A new address receives a code:
"smartdrive notifications confirm CODE".`,
		Args: cobra.NoArgs,
	}
	cmd.RunE = c.withClient(func(ctx context.Context, api *client.Client, _ []string) error {
		notices, in := client.NewNotifications(api), client.NotificationSettingsChange{Channels: channels}
		if cmd.Flags().Changed("mail") {
			in.Address = &address
		}
		if language != "" {
			in.Language = &language
		}
		var s client.NotificationSettings
		var err error
		if in.Address == nil && in.Language == nil && len(channels) == 0 {
			s, err = notices.Settings(ctx)
		} else {
			s, err = notices.Change(ctx, in)
		}
		if err != nil {
			return err
		}
		if err := c.showNoticeSettings(s); err != nil || in.Address == nil || s.State != "asked" || c.json {
			return err
		}
		_, err = fmt.Fprintln(c.out, "A code is on its way to that address: smartdrive notifications confirm CODE")
		return err
	})
	cmd.Flags().StringVar(&address, "mail", "", "address for mail; empty for none")
	cmd.Flags().StringVar(&language, "language", "", "of the mails: en or zh-CN")
	cmd.Flags().StringToStringVar(&channels, "channel", nil, "how you are told of a kind, such as share=mail,collect=off")
	return cmd
}

// noticesConfirm returns the command `confirm CODE`: confirm your address with the code that was
// sent there.
func (c peopleCommands) noticesConfirm() *cobra.Command {
	return &cobra.Command{
		Use: "confirm CODE", Short: "Confirm your address with the code that was sent there", Args: cobra.ExactArgs(1),
		RunE: c.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			s, err := client.NewNotifications(api).Confirm(ctx, args[0])
			if err != nil {
				return err
			}
			return c.showNoticeSettings(s)
		}),
	}
}
