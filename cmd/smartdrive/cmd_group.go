package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"example.org/smartdrive/client"
)

// newGroupCommand returns the command `group`: manage groups of users (administrators).
func newGroupCommand(of *cli) *cobra.Command {
	c := peopleCommands{of}
	cmd := &cobra.Command{
		Use:   "group",
		Short: "Manage groups of users (administrators)",
		Long:  `Make, list and delete groups, and put users into them. A group gets roles as a user does: "smartdrive grant set PATH NAME ROLE --group".`,
		Args:  cobra.NoArgs,
		RunE:  showHelp,
	}
	c.addCommands(cmd, c.groupLs(), c.groupCreate(), c.groupRm(), c.groupMember("add"), c.groupMember("remove"))
	return cmd
}

// groupLs returns the command `ls [NAME]`: list the groups, or the members of one.
func (c peopleCommands) groupLs() *cobra.Command {
	return &cobra.Command{
		Use:   "ls [NAME]",
		Short: "List the groups, or the members of one",
		Args:  cobra.MaximumNArgs(1),
		RunE: c.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			if len(args) == 0 {
				return showAll(client.NewSharing(api).AllGroups(ctx), func(g client.Group) error { return c.show(g, "%s", g.Name) })
			}
			g, err := findGroup(ctx, api, args[0])
			if err != nil {
				return err
			}
			return showAll(client.NewSharing(api).AllMembers(ctx, g.ID), func(p client.Member) error { return c.show(p, "%s", p.Name) })
		}),
	}
}

// findGroup returns the group with an id or a name, ignoring case. It fails with exitNotFound. It
// reads the list of groups until it finds one.
func findGroup(ctx context.Context, api *client.Client, name string) (client.Group, error) {
	for g, err := range client.NewSharing(api).AllGroups(ctx) {
		if err != nil {
			return client.Group{}, err
		}
		if g.ID == name || strings.EqualFold(g.Name, name) {
			return g, nil
		}
	}
	return client.Group{}, withCode(exitNotFound, fmt.Errorf("there is no group %s", name))
}

// groupCreate returns the command `create NAME`: create a group.
func (c peopleCommands) groupCreate() *cobra.Command {
	return &cobra.Command{
		Use:   "create NAME",
		Short: "Create a group",
		Args:  cobra.ExactArgs(1),
		RunE: c.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			g, err := client.NewSharing(api).CreateGroup(ctx, args[0])
			if err != nil {
				return err
			}
			return c.show(g, "made %s", g.Name)
		}),
	}
}

// groupRm returns the command `rm NAME...`: delete groups; their members lose the access granted to
// the group.
func (c peopleCommands) groupRm() *cobra.Command {
	return &cobra.Command{
		Use:   "rm NAME...",
		Short: "Delete groups; their members lose the access granted to the group",
		Args:  cobra.MinimumNArgs(1),
		RunE: c.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			return c.each(ctx, args, func(arg string) error {
				g, err := findGroup(ctx, api, arg)
				if err == nil {
					err = client.NewSharing(api).DeleteGroup(ctx, g.ID)
				}
				if err != nil {
					return err
				}
				return c.show(map[string]string{"id": g.ID, "state": "deleted"}, "%s: deleted", g.Name)
			})
		}),
	}
}

// groupMember returns `smartdrive group add` or `smartdrive group remove`, by verb.
func (c peopleCommands) groupMember(verb string) *cobra.Command {
	short := "Put users into a group"
	if verb == "remove" {
		short = "Take users out of a group"
	}
	return &cobra.Command{
		Use:     verb + " GROUP USER...",
		Short:   short,
		Example: "  smartdrive group " + verb + " Staff wang li",
		Args:    cobra.MinimumNArgs(2),
		RunE: c.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			g, err := findGroup(ctx, api, args[0])
			if err != nil {
				return err
			}
			return c.each(ctx, args[1:], func(arg string) error {
				id, err := principalID(ctx, api, "user", arg)
				if err != nil {
					return err
				}
				if verb == "remove" {
					err = client.NewSharing(api).RemoveMember(ctx, g.ID, id)
				} else {
					err = client.NewSharing(api).AddMember(ctx, g.ID, id)
				}
				if err != nil {
					return err
				}
				return c.show(map[string]string{"group": g.ID, "user": id}, "%s: %s %s", g.Name, arg, map[string]string{"add": "is in it", "remove": "is not in it"}[verb])
			})
		}),
	}
}
