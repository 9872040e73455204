package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"example.org/smartdrive/client"
	"example.org/smartdrive/internal/base/drive"
)

// peopleCommands are the commands about spaces, groups, roles, activity, webhooks and
// notifications.
type peopleCommands struct{ *cli }

// newSpaceCommand returns the command `space`: manage spaces: drives shared by several people.
func newSpaceCommand(of *cli) *cobra.Command {
	c := peopleCommands{of}
	cmd := &cobra.Command{
		Use:   "space",
		Short: "Manage spaces: drives shared by several people",
		Long: `List spaces, and make, change and delete them. Files in a space have paths such as //SPACE/folder/file, which all commands take. The members
of a space are who has a role at its top folder: see "smartdrive grant".`,
		Args: cobra.NoArgs,
		RunE: showHelp,
	}
	c.addCommands(cmd, c.spaceLs(), c.spaceCreate(), c.spaceSet(), c.spaceRm())
	return cmd
}

// spaceOf returns the space named by the only argument, //SPACE, or "" without arguments.
func spaceOf(args []string) (string, error) {
	if len(args) == 0 {
		return "", nil
	}
	place, rest := client.SplitPlace(client.CleanPath(args[0]))
	if len(args) > 1 || place == "" || rest != "/" {
		return "", errors.New("a trash is that of a space, such as //Design, or your own when none is named")
	}
	return strings.TrimPrefix(place, "//"), nil
}

// spacesOf returns the distinct spaces of the paths in args; "" is the user's own drive.
func spacesOf(args []string) (spaces []string) {
	for _, arg := range args {
		place, _ := client.SplitPlace(client.CleanPath(arg))
		if space := strings.TrimPrefix(place, "//"); !slices.Contains(spaces, space) {
			spaces = append(spaces, space)
		}
	}
	return spaces
}

// showSpace prints a space as one line.
func (c peopleCommands) showSpace(s client.Space) error {
	total := "no limit"
	if s.Usage.Total != nil {
		total = "of " + sizeText(*s.Usage.Total)
	}
	return c.show(s, "//%s  %s  %s  %s %s", s.Name, s.Role, s.State, sizeText(s.Usage.Used), total)
}

// spaceLs returns the command `ls`: list the spaces that you are a member of.
func (c peopleCommands) spaceLs() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the spaces that you are a member of",
		Args:  cobra.NoArgs,
		RunE: c.withClient(func(ctx context.Context, api *client.Client, _ []string) error {
			if all {
				return showAll(client.NewSharing(api).AllSpaces(ctx), c.showSpace)
			}
			spaces, err := client.NewSharing(api).Spaces(ctx)
			if err != nil {
				return err
			}
			for _, s := range spaces {
				if err := c.showSpace(s); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&all, "all", false, "list all spaces there are (administrators)")
	return cmd
}

// spaceCreate returns `smartdrive space create NAME`, which creates a space as an administrator.
func (c peopleCommands) spaceCreate() *cobra.Command {
	var quota, manager string
	cmd := &cobra.Command{
		Use:     "create NAME",
		Short:   "Create a space (administrators)",
		Example: "  smartdrive space create Design --quota 500GiB --manager wang",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			in := client.NewSpace{Name: args[0]}
			var err error
			if in.Total, err = quotaFlag(cmd, quota); err != nil {
				return err
			}
			api, err := c.connect()
			if err != nil {
				return err
			}
			if manager != "" {
				if in.Manager, err = principalID(cmd.Context(), api, "user", manager); err != nil {
					return err
				}
			}
			made, err := client.NewSharing(api).CreateSpace(cmd.Context(), in)
			if err != nil {
				return err
			}
			return c.showSpace(made)
		},
	}
	cmd.Flags().StringVar(&quota, "quota", "", "bytes the space may have, such as 50GiB (default: the server's)")
	cmd.Flags().StringVar(&manager, "manager", "", "name of the user who manages it (default: you)")
	return cmd
}

// quotaFlag parses a number of bytes such as 50GiB; nil without an error if text is empty. It fails
// with a usage error.
func quotaFlag(cmd *cobra.Command, text string) (*int64, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // not given
	}
	size, err := drive.ParseByteSize(text)
	if err != nil {
		return nil, usageError(cmd, fmt.Errorf("--quota: %w", err))
	}
	n := int64(size)
	return &n, nil
}

// principalID returns the id of the user or group (kind) with that name, in any case of letters. It
// fails with exitNotFound if there is none.
func principalID(ctx context.Context, api *client.Client, kind, name string) (string, error) {
	found, err := client.NewSharing(api).FindPrincipals(ctx, name)
	if err != nil {
		return "", err
	}
	for _, f := range found {
		if f.Kind == kind && strings.EqualFold(f.Name, name) {
			return f.ID, nil
		}
	}
	if kind == "user" { // FindPeople does not return the caller
		if me, err := api.Me(ctx); err == nil && strings.EqualFold(me.User.Name, name) {
			return me.User.ID, nil
		}
	}
	return "", withCode(exitNotFound, fmt.Errorf("there is no %s %s", kind, name))
}

// findSpace returns the space with that name, among the caller's spaces and, for administrators,
// among all.
func findSpace(ctx context.Context, api *client.Client, name string) (client.Space, error) {
	name = strings.TrimPrefix(name, "//")
	named := func(s client.Space) bool { return s.ID == name || strings.EqualFold(s.Name, name) }
	mine, err := client.NewSharing(api).Spaces(ctx)
	if err != nil {
		return client.Space{}, err
	}
	if i := slices.IndexFunc(mine, named); i >= 0 {
		return mine[i], nil
	}
	for s, err := range client.NewSharing(api).AllSpaces(ctx) {
		if err != nil {
			break // not an administrator
		}
		if named(s) {
			return s, nil
		}
	}
	return client.Space{}, withCode(exitNotFound, fmt.Errorf("there is no space %s", name))
}

// spaceSet returns the command `set NAME`: rename a space, archive it, or change its settings or
// quota.
func (c peopleCommands) spaceSet() *cobra.Command {
	var quota, rename, state string
	var rules client.SpaceChange
	var trash, versions int
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "Rename a space, archive it, or change its settings or quota",
		Long: `Rename a space, archive it or change its settings, which its managers may: in an archived space everything can be read and nothing changed. The quota,
and --state active, are for administrators; --state active with the id of a space brings it back within 30 days from its deletion, too.`,
		Example: "  smartdrive space set Design --rename Studio\n  smartdrive space set Design --links nobody --outward nobody\n  smartdrive space set Design --state archived",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ch := rules
			ch.Name, ch.State = rename, state
			if cmd.Flags().Changed("trash-days") {
				ch.TrashDays = &trash
			}
			if cmd.Flags().Changed("version-days") {
				ch.VersionDays = &versions
			}
			var err error
			if ch.Total, err = quotaFlag(cmd, quota); err != nil {
				return err
			}
			api, err := c.connect()
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			s, err := findSpace(ctx, api, args[0])
			deleted := err != nil && state == "active"
			if err != nil && !deleted {
				return err
			}
			if deleted {
				s.ID = args[0]
			}
			change := client.NewSharing(api).ChangeSpace
			if ch.Total != nil || state == "active" || s.Role != "manager" {
				change = client.NewSharing(api).AdminChangeSpace
			}
			if s, err = change(ctx, s.ID, ch); err != nil {
				return err
			}
			return c.showSpace(s)
		},
	}
	cmd.Flags().StringVar(&rename, "rename", "", "another name")
	cmd.Flags().StringVar(&state, "state", "", "active or archived")
	cmd.Flags().StringVar(&quota, "quota", "", "bytes the space may have, such as 50GiB")
	cmd.Flags().StringVar(&rules.Links, "links", "", "who may give out links: editors, managers or nobody; those of others do not open")
	cmd.Flags().StringVar(&rules.Outward, "outward", "", "who may give roles to others than members: managers or nobody")
	cmd.Flags().IntVar(&trash, "trash-days", 0, "for how many days the trash is kept; 0: as long as the server keeps it")
	cmd.Flags().IntVar(&versions, "version-days", 0, "for how many days old versions are kept beside the last five; 0: as long as the server keeps them")
	return cmd
}

// spaceRm returns the command `rm NAME...`: delete spaces; they can be brought back for 30 days
// (administrators).
func (c peopleCommands) spaceRm() *cobra.Command {
	return &cobra.Command{
		Use:   "rm NAME...",
		Short: "Delete spaces; they can be brought back for 30 days (administrators)",
		Args:  cobra.MinimumNArgs(1),
		RunE: c.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			return c.each(ctx, args, func(arg string) error {
				s, err := findSpace(ctx, api, arg)
				if err == nil {
					err = client.NewSharing(api).DeleteSpace(ctx, s.ID)
				}
				if err != nil {
					return err
				}
				return c.show(map[string]string{"id": s.ID, "state": "deleted"}, "%s: deleted; its id is %s", s.Name, s.ID)
			})
		}),
	}
}
