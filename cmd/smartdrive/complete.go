package main

import (
	"context"
	"path"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"example.org/smartdrive/client"
)

// completeTime bounds the time of a shell completion.
const completeTime = 2 * time.Second

// completeRemote completes a remote path by listing its folder, up to 1,000 nodes within
// completeTime. On any error it completes nothing.
func (c *cli) completeRemote(cmd *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(contextOf(cmd), completeTime)
	defer cancel()
	api, err := c.connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	dir, prefix := path.Split(typed)
	at, _ := remotePath(dir)
	folder, err := api.NodeAt(ctx, at)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	list, err := api.Children(ctx, folder.ID, client.Page{Limit: 1000})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	directive := cobra.ShellCompDirectiveNoFileComp
	var found []cobra.Completion
	for _, n := range list.Items {
		if !strings.HasPrefix(n.Name, prefix) {
			continue
		}
		name := dir + n.Name
		if n.Type == client.Folder {
			name += "/"
			directive |= cobra.ShellCompDirectiveNoSpace
		}
		found = append(found, name)
	}
	return found, directive
}

// contextOf returns the command's context; the background context during completion, which has
// none.
func contextOf(cmd *cobra.Command) context.Context {
	if ctx := cmd.Context(); ctx != nil {
		return ctx
	}
	return context.Background()
}
