package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"example.org/smartdrive/client"
)

// errIsFolder reports a directory where -r is missing.
var errIsFolder = errors.New("is a folder: give -r")

// putFlags are the flags of the put command.
type putFlags struct {
	recursive bool
	conflict  string
	force     bool
	tune      transferFlags
}

// newPutCommand returns `smartdrive put LOCAL... REMOTE`, which uploads files and, with -r,
// directories.
func newPutCommand(c *cli) *cobra.Command {
	var f putFlags
	cmd := &cobra.Command{
		Use:   "put LOCAL... REMOTE",
		Short: "Upload files and folders",
		Long: `Upload files and folders, like cp: into REMOTE if it is a folder or ends in a slash, else under that name. DIR/. stands for
what is in DIR.

After an interruption of the network or the server an upload continues by itself; a second run resumes where the first one
stopped, if it goes to the same place: with "-r pics /photos" the first run makes /photos, and a second one goes into it, to
/photos/pics; "-r pics /photos/" and "-r pics/. /photos" do not change their meaning. Content that the server has already is not
sent. Files that exist with the same size and time, or the same content, are skipped. A replaced file is kept as an old version. Symbolic links and special files are skipped and counted. Small files of a
folder go many in one request. Of two names in a folder that differ only in how Unicode writes them the second one fails, and so
does the second of two files that end in the same name, unless --conflict rename is given. Folders that do become one.`,
		Example: `  smartdrive put report.pdf /documents/
  smartdrive put -r ~/photos /
  smartdrive put -r ~/pictures/. /photos
  smartdrive put disk.img /images/today.img --conflict rename`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.put(cmd, f, args[:len(args)-1], args[len(args)-1])
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&f.recursive, "recursive", "r", false, "upload folders recursively")
	conflictFlag(cmd, &f.conflict, "replace")
	flags.BoolVarP(&f.force, "force", "f", false, "also send files that seem to exist already")
	f.tune.add(cmd)
	return cmd
}

// put uploads each local file to remote and prints the results. It fails with exitPartial if some
// failed.
func (c *cli) put(cmd *cobra.Command, f putFlags, locals []string, remote string) error {
	conflict, err := conflictOf(cmd, f.conflict)
	if err != nil {
		return err
	}
	api, up, err := connectTransfer(c, cmd, f.tune, (*client.Client).Uploader)
	if err != nil {
		return err
	}
	target, err := remoteTarget(cmd.Context(), api, remote, len(locals) > 1)
	if err != nil {
		return err
	}
	show := c.newTransfers()
	defer show.close()
	opt := client.TreeOptions{Conflict: conflict, SkipSame: !f.force, Progress: show.progress(), OnItem: show.item, TreeProgress: show.treeProgress()}
	taken := usedTargets{}
	return show.run(cmd.Context(), locals, func(local string) (client.Summary, error) {
		dest := target.join(nameIn(local))
		if info, err := os.Stat(local); err == nil && !info.IsDir() && conflict != client.Rename {
			if err := taken.claim(dest, local); err != nil {
				return client.Summary{}, err
			}
		}
		return putOne(cmd.Context(), up, local, dest, f.recursive, opt)
	})
}

// putOne uploads a file, or a directory if recursive is set, and returns the counts. It fails with
// errIsFolder for a directory otherwise.
func putOne(ctx context.Context, up *client.Uploader, local, dest string, recursive bool, o client.TreeOptions) (client.Summary, error) {
	info, err := os.Stat(local)
	if err != nil {
		return client.Summary{}, err
	}
	if info.IsDir() {
		if !recursive {
			return client.Summary{}, fmt.Errorf("%s %w", local, errIsFolder)
		}
		return up.PutTree(ctx, local, dest, o)
	}
	src, err := client.FileSource(local)
	if err != nil {
		return client.Summary{}, err
	}
	res, err := up.Put(ctx, src, dest, client.PutOptions{
		Conflict: o.Conflict, Parents: true, SkipSame: o.SkipSame, Progress: o.Progress,
	})
	if err != nil {
		return client.Summary{}, err
	}
	return singleSummary(o, client.Item{Local: local, Path: res.Node.Path, Result: res}), nil
}

// target is a remote destination: a folder to put things into, or a path.
type target struct {
	path     string
	isFolder bool
}

// remoteTarget interprets a destination argument as cp does: an existing folder, or a path that
// ends in a slash, is a folder to put things into. Several sources require a folder.
func remoteTarget(ctx context.Context, api *client.Client, arg string, several bool) (target, error) {
	p, slash := remotePath(arg)
	if slash || client.DirPath(p) == p {
		return target{p, true}, nil
	}
	n, err := api.NodeAt(ctx, p)
	switch {
	case client.IsCode(err, client.CodeNotFound):
		if several {
			return target{}, fmt.Errorf("%s: several things need a folder to go into: %w", p, err)
		}
		return target{p, false}, nil
	case err != nil:
		return target{}, err
	case several && n.Type != client.Folder:
		return target{}, withCode(exitConflict, fmt.Errorf("%s: several things need a folder to go into, this is a file", p))
	}
	return target{p, n.Type == client.Folder}, nil
}

// nameIn returns the name of a local path in a remote folder, "" for a path that ends in "." or
// "..", whose contents go into the folder.
func nameIn(local string) string {
	if name := filepath.Base(local); name != "." && name != ".." {
		return name
	}
	return ""
}

// join returns the remote path for a source with that name: inside t if t is a folder, else t
// itself.
func (t target) join(name string) string {
	if t.isFolder {
		return client.JoinPath(t.path, name)
	}
	return t.path
}
