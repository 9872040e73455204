package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"example.org/smartdrive/client"
)

// newShareCommand returns the command `share`: share files and folders by links.
func newShareCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "share",
		Short: "Share files and folders by links",
		Long:  "Create, list and delete links by which anybody can list and download a file or folder, with an optional extraction code.",
		Args:  cobra.NoArgs,
		RunE:  showHelp,
	}
	c.addCommands(cmd, c.shareCreate(), c.shareLs(), c.shareRm())
	return cmd
}

// shareCreate returns the command `create PATH`: create a link to a file or folder.
func (c *cli) shareCreate() *cobra.Command {
	var in client.NewShare
	var expires durationFlag
	cmd := &cobra.Command{
		Use:   "create PATH",
		Short: "Create a link to a file or folder",
		Example: `  smartdrive share create /photos --code --expires 7d
  smartdrive share create /report.pdf --max-downloads 3`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.completeRemote,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("max-downloads") && in.MaxDownloads < 1 { // the API treats 0 as no limit
				return usageError(cmd, errors.New("--max-downloads: at least 1"))
			}
			api, n, err := c.nodeAt(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			in.Node, in.ExpiresIn = n.ID, expires.seconds()
			made, err := api.CreateShare(cmd.Context(), in)
			if err != nil {
				return err
			}
			return c.showShare(made)
		},
	}
	cmd.Flags().StringVar(&in.Code, "code", "", "require an extraction code of 4 to 16 letters and digits; without a value the server makes one")
	cmd.Flags().Lookup("code").NoOptDefVal = client.AutoCode
	cmd.Flags().Var(&expires, "expires", "expire after this time, such as 7d or 12h (default never)")
	cmd.Flags().Int64Var(&in.MaxDownloads, "max-downloads", 0, "maximum number of downloads (default: no limit)")
	return cmd
}

// showShare prints a share: its URL, code, name and end.
func (c *cli) showShare(s client.Share) error {
	line := s.URL
	if s.Code != nil {
		line += "  code " + *s.Code
	}
	return c.show(s, "%s  %s%s", line, s.Node.Name, ending(s.ExpiresAt))
}

// ending formats the expiry of a link; "" if at is nil.
func ending(at *client.Time) string {
	if at == nil {
		return ""
	}
	return "  until " + timeText(at.Time)
}

// shareLs returns the command `ls [PATH]`: list links, all or those to one file or folder.
func (c *cli) shareLs() *cobra.Command {
	return &cobra.Command{
		Use:               "ls [PATH]",
		Short:             "List links, all or those to one file or folder",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: c.completeRemote,
		RunE: c.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			node := ""
			if len(args) == 1 {
				p, _ := remotePath(args[0])
				n, err := api.NodeAt(ctx, p)
				if err != nil {
					return fmt.Errorf("%s: %w", p, err)
				}
				node = n.ID
			}
			return showAll(api.AllShares(ctx, node), func(s client.Share) error {
				code := ""
				if s.Code != nil {
					code = "  code " + *s.Code
				}
				return c.show(s, "%s  %-7s  %s  %d downloads  %s%s%s", s.ID, s.State, s.Node.Name, s.Downloads, s.URL, code, ending(s.ExpiresAt))
			})
		}),
	}
}

// shareRm returns the command `rm LINK...`: delete links by id or URL.
func (c *cli) shareRm() *cobra.Command {
	return &cobra.Command{
		Use:     "rm LINK...",
		Short:   "Delete links by id or URL",
		Example: "  smartdrive share rm https://drive.example.org/s/3nV9cK2uQyS1m0aZb7xTfw",
		Args:    cobra.MinimumNArgs(1),
		RunE: c.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			return c.each(ctx, args, func(arg string) error {
				id, err := linkID(arg, api.AllShares(ctx, ""), func(s client.Share) (id, token string) { return s.ID, s.Token })
				if err == nil {
					err = api.DeleteShare(ctx, id)
				}
				if err != nil {
					return err
				}
				return c.show(map[string]string{"id": id, "state": "ended"}, "%s: ended", arg)
			})
		}),
	}
}

// linkID returns the id of the link that arg names. An arg without "/" is returned as the id
// without a check. Otherwise it is a URL, whose token is looked up in links; if there is none, it
// fails with exitNotFound.
func linkID[T any](arg string, links iter.Seq2[T, error], names func(T) (id, token string)) (string, error) {
	if !strings.Contains(arg, "/") {
		return arg, nil
	}
	token := arg[strings.LastIndexByte(arg, '/')+1:]
	for l, err := range links {
		if err != nil {
			return "", err
		}
		if id, t := names(l); t == token {
			return id, nil
		}
	}
	return "", withCode(exitNotFound, fmt.Errorf("%s is not a link of yours", arg))
}

// durationFlag is a duration flag that also accepts days: "7d", "12h".
type durationFlag struct{ time.Duration }

// seconds returns the duration in whole seconds.
func (d *durationFlag) seconds() int64 { return int64(d.Duration / time.Second) }

// String returns the value for the help.
func (d *durationFlag) String() string { return d.Duration.String() }

// Set parses a Go duration or a number of days, such as 7d, for pflag. It fails below one minute.
func (d *durationFlag) Set(text string) (err error) {
	if n, ok := strings.CutSuffix(text, "d"); ok {
		var count uint64
		count, err = strconv.ParseUint(n, 10, 16)
		d.Duration = time.Duration(count) * 24 * time.Hour
	} else {
		d.Duration, err = time.ParseDuration(text)
	}
	if err == nil && d.Duration < time.Minute {
		err = fmt.Errorf("%s is less than a minute", text)
	}
	return err
}

// Type returns the kind of value for the help.
func (d *durationFlag) Type() string { return "duration" }
