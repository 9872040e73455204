package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"example.org/smartdrive/client"
)

// newGrantCommand returns the command `grant`: share folders and files with people by name.
func newGrantCommand(of *cli) *cobra.Command {
	c := peopleCommands{of}
	cmd := &cobra.Command{
		Use:   "grant",
		Short: "Share folders and files with people by name",
		Long: `Give users and groups roles at folders and files, list them and take them away. The roles are viewer, uploader, editor, manager, and none, which
shuts out. Of a folder and those above it the nearest one that has a role for somebody decides. Roles at //SPACE are the members of a space.`,
		Args: cobra.NoArgs,
		RunE: showHelp,
	}
	c.addCommands(cmd, c.grantSet(), c.grantLs(), c.grantRm(), c.grantShared())
	return cmd
}

// principalKind returns "group" with --group, otherwise "user".
func principalKind(group bool) string {
	if group {
		return "group"
	}
	return "user"
}

// grantSet returns the command `set PATH NAME ROLE`: grant a role to a user or a group.
func (c peopleCommands) grantSet() *cobra.Command {
	var in client.NewGrant
	var expires durationFlag
	var group bool
	cmd := &cobra.Command{
		Use:   "set PATH NAME ROLE",
		Short: "Grant a role to a user or a group",
		Example: `  smartdrive grant set /Plans wang editor
  smartdrive grant set //Design Staff viewer --group --expires 30d`,
		Args:              cobra.ExactArgs(3),
		ValidArgsFunction: c.completeRemote,
		RunE: func(cmd *cobra.Command, args []string) error {
			api, n, err := c.nodeAt(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			in.Kind, in.Principal, in.Role, in.ExpiresIn = principalKind(group), args[1], args[2], expires.seconds()
			g, err := client.NewSharing(api).Grant(cmd.Context(), n.ID, in)
			if err != nil {
				return err
			}
			return c.showGrant(g, "")
		},
	}
	cmd.Flags().BoolVar(&group, "group", false, "NAME is a group")
	cmd.Flags().Var(&expires, "expires", "take the role away after this time, such as 7d or 12h (default never)")
	cmd.Flags().StringVar(&in.Note, "note", "", "a note for whom it is given to")
	return cmd
}

// showGrant prints a role; from is appended to the name.
func (c peopleCommands) showGrant(g client.Grant, from string) error {
	kind := ""
	if g.Kind == "group" {
		kind = " (group)"
	}
	return c.show(g, "%-8s  %s%s%s%s", g.Role, g.Name, kind, from, ending(g.ExpiresAt))
}

// grantLs returns the command `ls PATH`: list who has access, and from which folder.
func (c peopleCommands) grantLs() *cobra.Command {
	return &cobra.Command{
		Use:               "ls PATH",
		Short:             "List who has access, and from which folder",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.completeRemote,
		RunE: func(cmd *cobra.Command, args []string) error {
			api, n, err := c.nodeAt(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			a, err := client.NewSharing(api).Access(cmd.Context(), n.ID)
			if err != nil {
				return err
			}
			if a.Owner != "" && !c.json {
				if err := c.show(nil, "%-8s  %s", "owner", a.Owner); err != nil {
					return err
				}
			}
			p, _ := remotePath(args[0])
			for _, g := range a.Grants {
				from := ""
				if g.Level > 0 {
					from = "  from " + ancestor(p, g.Level)
				}
				if err := c.showGrant(g.Grant, from); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// ancestor returns the folder that many levels above a path.
func ancestor(p string, level int) string {
	for range level {
		p = client.DirPath(p)
	}
	return p
}

// grantRm returns the command `rm PATH NAME`: remove a role; remove your own to leave a share.
func (c peopleCommands) grantRm() *cobra.Command {
	var group bool
	cmd := &cobra.Command{
		Use:               "rm PATH NAME",
		Short:             "Remove a role; remove your own to leave a share",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: c.completeRemote,
		RunE: func(cmd *cobra.Command, args []string) error {
			api, n, err := c.nodeAt(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			id, err := grantedPrincipal(cmd.Context(), api, n.ID, principalKind(group), args[1])
			if err == nil {
				err = client.NewSharing(api).Ungrant(cmd.Context(), n.ID, id)
			}
			if err != nil {
				return err
			}
			return c.show(map[string]string{"node_id": n.ID, "principal_id": id}, "%s: %s has no role here", args[0], args[1])
		},
	}
	cmd.Flags().BoolVar(&group, "group", false, "NAME is a group")
	return cmd
}

// grantedPrincipal returns the id of the principal that has a role at a node, given its name or id.
func grantedPrincipal(ctx context.Context, api *client.Client, node, kind, name string) (string, error) {
	for g, err := range client.NewSharing(api).AllGrants(ctx, node) {
		if err != nil {
			return "", err
		}
		if g.PrincipalID == name || g.Kind == kind && strings.EqualFold(g.Name, name) {
			return g.PrincipalID, nil
		}
	}
	return "", withCode(exitNotFound, fmt.Errorf("%s has no role here", name))
}

// grantShared returns the command `shared`: list what is shared with you by name.
func (c peopleCommands) grantShared() *cobra.Command {
	var mine bool
	cmd := &cobra.Command{
		Use:   "shared",
		Short: "List what is shared with you by name",
		Args:  cobra.NoArgs,
		RunE: c.withClient(func(ctx context.Context, api *client.Client, _ []string) error {
			list := client.NewSharing(api).AllSharedWithMe(ctx)
			if mine {
				list = client.NewSharing(api).AllSharedByMe(ctx)
			}
			return showAll(list, func(s client.SharedByName) error {
				if s.Node.Name == "" { // in the trash or deleted
					return nil
				}
				to := ""
				if mine {
					to = "  " + s.Grant.Name
				}
				return c.show(s, "%-8s  %s  %s%s%s", s.Grant.Role, s.Path, s.Node.Name, to, ending(s.Grant.ExpiresAt))
			})
		}),
	}
	cmd.Flags().BoolVar(&mine, "by-me", false, "list what you share of your own drive instead")
	return cmd
}
