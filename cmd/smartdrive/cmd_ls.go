package main

import (
	"errors"
	"fmt"
	"iter"

	"github.com/spf13/cobra"

	"example.org/smartdrive/client"
)

// newLsCommand returns `smartdrive ls [PATH...]`, which lists folders, or the trash, starred or
// recent files.
func newLsCommand(c *cli) *cobra.Command {
	var long, trash, starred, recent bool
	var most int
	cmd := &cobra.Command{
		Use:   "ls [PATH...]",
		Short: "List folders and files",
		Example: `  smartdrive ls -l /photos
  smartdrive ls //Design/Plans
  smartdrive ls --trash
  smartdrive ls --starred
  smartdrive ls -l --recent --most 20
  smartdrive ls --json / | jq -r .path`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: c.completeRemote,
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.connect()
			if err != nil {
				return err
			}
			if trash {
				space, err := spaceOf(args)
				if err != nil {
					return usageError(cmd, err)
				}
				return c.printAll(client.NewSharing(api).AllTrash(cmd.Context(), space), long, func(n client.Node) string { return n.Path })
			}
			if starred || recent {
				if len(args) > 0 || starred && recent {
					return usageError(cmd, errors.New("give --starred or --recent alone"))
				}
				list := client.NewStars(api).AllStarred
				if recent {
					list = client.NewStars(api).AllRecent
				}
				return c.printAll(limitItems(list(cmd.Context()), most), long, func(n client.Node) string { return n.Path })
			}
			if len(args) == 0 {
				args = []string{"/"}
			}
			return c.each(cmd.Context(), args, func(arg string) error { return c.list(cmd, api, arg, long, len(args) > 1) })
		},
	}
	cmd.Flags().BoolVarP(&long, "long", "l", false, "show size and time")
	cmd.Flags().BoolVar(&trash, "trash", false, "list the trash")
	cmd.Flags().BoolVar(&starred, "starred", false, "list what you have starred, the newest star first")
	cmd.Flags().BoolVar(&recent, "recent", false, "list the files of your drive by their last change, the newest first")
	cmd.Flags().IntVar(&most, "most", 100, "with --starred or --recent: at most so many")
	return cmd
}

// limitItems yields at most n items and then stops; an error counts as one.
func limitItems[Item any](items iter.Seq2[Item, error], n int) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		for item, err := range items {
			if n--; n < 0 || !yield(item, err) {
				return
			}
		}
	}
}

// list prints a file, or the nodes of a folder, one per line; with header it prints the path of a
// folder before them. It fails if arg does not exist.
func (c *cli) list(cmd *cobra.Command, api *client.Client, arg string, long, header bool) error {
	p, _ := remotePath(arg)
	n, err := api.NodeAt(cmd.Context(), p)
	if err != nil {
		return fmt.Errorf("%s: %w", p, err)
	}
	if n.Type == client.File {
		return c.printNode(n, long, n.Path)
	}
	if header && !c.json {
		if err := printVisible(c.out, "%s:\n", p); err != nil {
			return err
		}
	}
	return c.printAll(api.AllChildren(cmd.Context(), n.ID), long, func(n client.Node) string { return n.Name })
}

// printAll prints nodes; name returns the text to print for each. It stops at the first error of
// the list or of writing.
func (c *cli) printAll(nodes iter.Seq2[client.Node, error], long bool, name func(client.Node) string) error {
	for n, err := range nodes {
		if err != nil {
			return err
		}
		if err := c.printNode(n, long, name(n)); err != nil {
			return err
		}
	}
	return nil
}

// printNode prints a node, with size and mtime if long is set. A folder's name ends with "/".
func (c *cli) printNode(n client.Node, long bool, name string) error {
	size := sizeText(n.Size)
	if n.Type == client.Folder {
		size, name = "-", name+"/"
	}
	if long {
		return c.show(n, "%10s  %s  %s", size, timeText(n.Mtime.Time), name)
	}
	return c.show(n, "%s", name)
}
