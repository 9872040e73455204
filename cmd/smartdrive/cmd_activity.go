package main

import (
	"context"
	"iter"
	"strings"

	"github.com/spf13/cobra"

	"example.org/smartdrive/client"
)

// maxTakeBack is how many entries "activity restore" searches for the one to undo.
const maxTakeBack = 10_000

// newActivityCommand returns `smartdrive activity [PATH]`, which shows the activity log or, with
// --follow, new entries until interrupted.
func newActivityCommand(of *cli) *cobra.Command {
	c := peopleCommands{of}
	var types string
	var follow bool
	var after string
	limit := 50
	cmd := &cobra.Command{
		Use:   "activity [PATH]",
		Short: "Show the activity log",
		Long: `Show what was done in your drive, in the space //SPACE, or at a file or folder and what lies in it directly, the newest first. Each line ends with
the id of the entry, and with what can be taken back: "smartdrive activity restore ID [PATH]".

With --follow what happens from now on is shown, the oldest first, until the command is interrupted; a server that is away for a while is waited for. --after
ID goes on after an entry that was shown before.`,
		Example: `  smartdrive activity
  smartdrive activity //Design --type node.deleted,grant
  smartdrive activity /Plans/2027.pdf
  smartdrive activity --follow --json`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: c.completeRemote,
		RunE: func(cmd *cobra.Command, args []string) error {
			api, in, err := c.activityQuery(cmd.Context(), args)
			if err != nil {
				return err
			}
			in.Types = types
			if follow || after != "" {
				return c.followActivity(api.FollowActivity(cmd.Context(), in, after))
			}
			left := limit
			for h, err := range api.Activity(cmd.Context(), in) {
				if err != nil {
					return err
				}
				if err := c.showEntry(h); err != nil {
					return err
				}
				if left--; left == 0 {
					break
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&types, "type", "", "only these types, such as node.moved, or node for all that begin with it, separated by commas")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "show what happens from now on, until interrupted")
	cmd.Flags().StringVar(&after, "after", "", "follow from after the entry with this id")
	cmd.Flags().IntVarP(&limit, "limit", "n", limit, "how many entries at most; 0 = all")
	c.addCommands(cmd, c.activityRestore(), c.activityExport())
	return cmd
}

// followActivity prints entries until all ends, which it does without an error when the command is
// interrupted. It fails with an error of the server or of writing.
func (c peopleCommands) followActivity(all iter.Seq2[client.ActivityEntry, error]) error {
	for h, err := range all {
		if err != nil {
			return err
		}
		if err := c.showEntry(h); err != nil {
			return err
		}
	}
	return nil
}

// activityQuery connects and returns the query for a command's arguments: a space, a file or
// folder, or the user's own drive.
func (c peopleCommands) activityQuery(ctx context.Context, args []string) (*client.Client, client.ActivityQuery, error) {
	if len(args) == 0 {
		api, err := c.connect()
		return api, client.ActivityQuery{}, err
	}
	if space, ok := strings.CutPrefix(args[0], "//"); ok && !strings.Contains(strings.TrimSuffix(space, "/"), "/") {
		api, err := c.connect()
		return api, client.ActivityQuery{Space: strings.TrimSuffix(space, "/")}, err
	}
	api, n, err := c.nodeAt(ctx, args[0])
	return api, client.ActivityQuery{Node: n.ID}, err
}

// showEntry prints an activity entry as one line, or as JSON with --json. It says so if the change
// can be undone.
func (c peopleCommands) showEntry(h client.ActivityEntry) error {
	who := "-"
	if h.By != nil {
		who = h.By.Name
	}
	at := h.Path
	if at == "" {
		at = h.Name
	}
	can := ""
	if h.Restore != "" {
		can = "  can be taken back"
	}
	return c.show(h, "%s  %-13s  %s  %s  %s%s", timeText(h.At), h.Type, who, at, h.ID, can)
}

// activityRestore returns `smartdrive activity restore ID [PATH]`, which undoes an activity entry:
// it restores an item or an older version, or moves an item back.
func (c peopleCommands) activityRestore() *cobra.Command {
	return &cobra.Command{
		Use:   "restore ID [PATH]",
		Short: "Undo an activity entry: restore an item or an older version, or move an item back",
		Args:  cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, in, err := c.activityQuery(cmd.Context(), args[1:])
			if err != nil {
				return err
			}
			looked := 0
			for h, err := range api.Activity(cmd.Context(), in) {
				if err != nil {
					return err
				}
				if h.ID == args[0] {
					n, err := api.UndoActivity(cmd.Context(), h)
					if err != nil {
						return err
					}
					return c.show(n, "%s", n.Path)
				}
				if looked++; looked == maxTakeBack {
					break
				}
			}
			return withCode(exitNotFound, client.ErrNotUndoable)
		},
	}
}
