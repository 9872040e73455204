package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"example.org/smartdrive/client"
)

// newWebhookCommand returns the command `webhook`: manage webhooks.
func newWebhookCommand(of *cli) *cobra.Command {
	c := peopleCommands{of}
	cmd := &cobra.Command{
		Use:   "webhook",
		Short: "Manage webhooks",
		Long: `Make, list and delete webhooks: addresses that are sent what happens in your drive, or in a space that you manage. Requests are signed as Standard
Webhooks 1.0 says, with the secret that "smartdrive webhook create" shows once.`,
		Args: cobra.NoArgs,
		RunE: showHelp,
	}
	c.addCommands(cmd, c.webhookLs(), c.webhookCreate(), c.webhookEnable(true), c.webhookEnable(false), c.webhookReplay(), c.webhookRotate(), c.webhookRm())
	return cmd
}

// showWebhook prints a webhook and its last attempt.
func (c peopleCommands) showWebhook(h client.Webhook) error {
	state := h.State
	if h.Reason != "" {
		state += " (" + h.Reason + ")"
	}
	last := "nothing sent yet"
	if h.SentAt != nil {
		last = fmt.Sprintf("last %s: %d %s", timeText(h.SentAt.Time), h.Status, h.Error)
	}
	return c.show(h, "%s  %s  %s  %s  %s", h.ID, state, h.URL, strings.Join(h.Types, ","), strings.TrimSpace(last))
}

// webhookLs returns the command `ls`: list webhooks, and how the last attempt of each went.
func (c peopleCommands) webhookLs() *cobra.Command {
	var space string
	cmd := &cobra.Command{
		Use: "ls", Short: "List webhooks, and how the last attempt of each went", Args: cobra.NoArgs,
		RunE: c.withClient(func(ctx context.Context, api *client.Client, _ []string) error {
			all, err := client.NewWebhooks(api).List(ctx, space)
			for _, h := range all {
				if err := c.showWebhook(h); err != nil {
					return err
				}
			}
			return err
		}),
	}
	cmd.Flags().StringVar(&space, "space", "", "those of this space")
	return cmd
}

// webhookCreate returns `smartdrive webhook create URL`, which creates a webhook and prints its
// secret this once.
func (c peopleCommands) webhookCreate() *cobra.Command {
	var in client.NewWebhook
	cmd := &cobra.Command{
		Use:     "create URL",
		Short:   "Create a webhook",
		Example: "  smartdrive webhook create https://example.org/hook --type node,grant --space Design",
		Args:    cobra.ExactArgs(1),
		RunE: c.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			in.URL = args[0]
			h, err := client.NewWebhooks(api).Create(ctx, in)
			if err != nil {
				return err
			}
			return c.show(h, "%s\nsecret, which is not shown again: %s", h.ID, h.Secret)
		}),
	}
	cmd.Flags().StringVar(&in.Space, "space", "", "of this space (default your own drive)")
	cmd.Flags().StringVar(&in.Name, "name", "", "a name for people")
	cmd.Flags().StringSliceVar(&in.Types, "type", nil, "types of events, such as node.created, or node for all that begin with it (default all but upload)")
	return cmd
}

// webhookEnable returns `smartdrive webhook enable` if active is set, else `smartdrive webhook
// disable`.
func (c peopleCommands) webhookEnable(active bool) *cobra.Command {
	use, short := "disable ID...", "Stop sending to webhooks"
	if active {
		use, short = "enable ID...", "Send to webhooks again, from where they stopped"
	}
	return &cobra.Command{
		Use: use, Short: short, Args: cobra.MinimumNArgs(1),
		RunE: c.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			return c.each(ctx, args, func(arg string) error {
				h, err := client.NewWebhooks(api).SetActive(ctx, arg, active)
				if err != nil {
					return err
				}
				return c.showWebhook(h)
			})
		}),
	}
}

// webhookRotate returns the command `rotate ID`: rotate the secret of a webhook.
func (c peopleCommands) webhookRotate() *cobra.Command {
	keep := durationFlag{24 * time.Hour}
	cmd := &cobra.Command{
		Use:   "rotate ID",
		Short: "Rotate the secret of a webhook",
		Long: `Rotate the secret of a webhook, which is shown once. For as long as --keep says, requests are signed with the old one, too, so that the receiver can
change over.`,
		Args: cobra.ExactArgs(1),
		RunE: c.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			h, err := client.NewWebhooks(api).Rotate(ctx, args[0], keep.Duration)
			if err != nil {
				return err
			}
			until := "the old one has ended"
			if h.OldUntil != nil {
				until = "the old one signs until " + timeText(h.OldUntil.Time)
			}
			return c.show(h, "%s\nsecret, which is not shown again: %s\n%s", h.ID, h.Secret, until)
		}),
	}
	cmd.Flags().Var(&keep, "keep", "how long the old secret signs as well, such as 24h or 7d; 0 = it ends at once")
	return cmd
}

// webhookReplay returns the command `replay ID`: redeliver one event, or all events since a time.
func (c peopleCommands) webhookReplay() *cobra.Command {
	var since, event string
	cmd := &cobra.Command{
		Use:   "replay ID",
		Short: "Redeliver one event, or all events since a time",
		Args:  cobra.ExactArgs(1),
		RunE: c.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			hooks := client.NewWebhooks(api)
			if event != "" {
				status, err := hooks.Redeliver(ctx, args[0], event)
				if err != nil {
					return err
				}
				return c.show(map[string]int{"status": status}, "the receiver answered %d", status)
			}
			moment, err := parseMoment(since)
			if err != nil {
				return err
			}
			return hooks.ReplaySince(ctx, args[0], moment)
		}),
	}
	cmd.Flags().StringVar(&since, "since", "", "a day, such as 2027-01-31, or a moment, such as 2027-01-31T08:00:00+08:00")
	cmd.Flags().StringVar(&event, "event", "", "the id of one event")
	return cmd
}

// parseMoment parses a local day or an RFC 3339 time. Other texts are a usage error.
func parseMoment(text string) (time.Time, error) {
	if day, err := time.ParseInLocation(time.DateOnly, text, time.Local); err == nil {
		return day, nil
	}
	moment, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, withCode(exitUsage, errors.New("--since needs a day or a moment"))
	}
	return moment, nil
}

// webhookRm returns the command `rm ID...`: delete webhooks.
func (c peopleCommands) webhookRm() *cobra.Command {
	return &cobra.Command{
		Use: "rm ID...", Short: "Delete webhooks", Args: cobra.MinimumNArgs(1),
		RunE: c.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			return c.each(ctx, args, func(arg string) error {
				if err := client.NewWebhooks(api).Delete(ctx, arg); err != nil {
					return err
				}
				return c.show(map[string]string{"id": arg, "state": "deleted"}, "%s: deleted", arg)
			})
		}),
	}
}
