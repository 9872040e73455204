package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"example.org/smartdrive/client"
)

// getFlags are the flags of the get command.
type getFlags struct {
	recursive bool
	keep      bool
	force     bool
	zip       bool
	noSync    bool
	tune      transferFlags
}

// newGetCommand returns `smartdrive get REMOTE... LOCAL`, which downloads files and folders, or
// with --zip one archive.
func newGetCommand(c *cli) *cobra.Command {
	var f getFlags
	cmd := &cobra.Command{
		Use:   "get REMOTE... LOCAL",
		Short: "Download files and folders",
		Long: `Download files and folders, like cp: into LOCAL if it is a folder or ends in a slash, else under that name. FOLDER/. stands
for what is in FOLDER.

A file is downloaded into a partial file beside its target and compared with the digest that the server has; only then does it
get its name. A second run after an interruption resumes where the first one stopped, if it goes to the same place: with "-r /photos
pics" the first run makes pics, and a second one goes into it, to pics/photos; "-r /photos pics/" and "-r /photos/. pics" do not
change their meaning. Files that exist with the same size and time, or the same content, are skipped. Nothing is ever written
outside LOCAL.

Several downloads may go into one folder at once; of two downloads of one file to one place the second fails, and so does the
second of two files that end in the same name. Folders that do become one. Names such as
.smartdrive-0123456789abcdef.part are those of partial files: nothing else is downloaded to them, and put -r leaves them out.`,
		Example: `  smartdrive get /documents/report.pdf .
  smartdrive get -r /photos ~/
  smartdrive get -r /photos/. ~/pictures
  smartdrive get --zip /photos /documents/report.pdf all.zip`,
		Args:              cobra.MinimumNArgs(2),
		ValidArgsFunction: c.completeRemote,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.zip {
				return c.getZip(cmd, f, args[:len(args)-1], args[len(args)-1])
			}
			return c.get(cmd, f, args[:len(args)-1], args[len(args)-1])
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&f.recursive, "recursive", "r", false, "download folders recursively")
	flags.BoolVarP(&f.keep, "keep", "n", false, "never replace a local file")
	flags.BoolVarP(&f.force, "force", "f", false, "also download files that seem to exist already")
	flags.BoolVar(&f.noSync, "no-sync", false, "small files of a folder get their names before they are on the disk, as with cp: faster, and if the power goes, run it again")
	flags.BoolVar(&f.zip, "zip", false, "download all of them as one zip, LOCAL; a second run resumes as long as no file has changed")
	cmd.MarkFlagsMutuallyExclusive("zip", "recursive")
	f.tune.add(cmd)
	return cmd
}

// getZip downloads files and folders as one zip: into the directory local, or as the file local. It
// resumes a partial file of the same zip. With --keep it fails if the file exists.
func (c *cli) getZip(cmd *cobra.Command, f getFlags, remotes []string, local string) error {
	into, err := localTarget(local, false)
	if err != nil {
		return err
	}
	c.retryFor = f.tune.retryFor
	api, err := c.connect()
	if err != nil {
		return err
	}
	in, err := selectArchive(cmd.Context(), api, remotes)
	if err != nil {
		return err
	}
	a, err := api.CreateArchive(cmd.Context(), in)
	if err != nil {
		return err
	}
	if into {
		name, err := client.LocalName(a.Name + ".zip")
		if err != nil {
			return err
		}
		local = filepath.Join(local, name)
	}
	if _, err := os.Stat(local); err == nil && f.keep {
		return fmt.Errorf("%s is there already", local)
	}
	show := c.newTransfers()
	err = api.GetArchive(cmd.Context(), a, local, show.progress())
	show.close() // before the final line
	if err != nil {
		return err
	}
	missing := ""
	if a.Failed > 0 {
		missing = fmt.Sprintf(", %d of them could not be read: err.txt in it names them", a.Failed)
	}
	return c.show(a, "%s  %d files, %d bytes%s", local, a.Total, a.Size, missing)
}

// selectArchive returns the archive request for remote paths. A single folder names the directory
// in the zip.
func selectArchive(ctx context.Context, api *client.Client, remotes []string) (in client.NewArchive, err error) {
	for _, arg := range remotes {
		p, _ := remotePath(arg)
		n, err := api.NodeAt(ctx, p)
		if err != nil {
			return in, fmt.Errorf("%s: %w", p, err)
		}
		if len(remotes) == 1 && n.Type == client.Folder {
			in.Folder = n.ID
			return in, nil
		}
		in.Nodes = append(in.Nodes, n.ID)
	}
	return in, nil
}

// get downloads each remote to local and prints the results. It fails with exitPartial if some
// failed.
func (c *cli) get(cmd *cobra.Command, f getFlags, remotes []string, local string) error {
	api, down, err := connectTransfer(c, cmd, f.tune, func(api *client.Client, o client.UploadOptions) (*client.Downloader, error) {
		return api.Downloader(client.DownloadOptions{
			Parallel: o.Parallel, PartSize: o.PartSize, RetryFor: o.RetryFor, Files: o.Files, NoBatching: o.NoBatching, NoSync: f.noSync,
		})
	})
	if err != nil {
		return err
	}
	into, err := localTarget(local, len(remotes) > 1)
	if err != nil {
		return err
	}
	show := c.newTransfers()
	defer show.close()
	opt := client.TreeOptions{SkipSame: !f.force, Keep: f.keep, Progress: show.progress(), OnItem: show.item, TreeProgress: show.treeProgress()}
	g := download{api: api, down: down, local: local, intoFolder: into, recursive: f.recursive, taken: usedTargets{}, opt: opt}
	return show.run(cmd.Context(), remotes, func(arg string) (client.Summary, error) { return g.get(cmd.Context(), arg) })
}

// localTarget reports whether local is a directory to download into. A path that ends in a slash is
// created.
func localTarget(local string, several bool) (into bool, err error) {
	if strings.HasSuffix(local, "/") || strings.HasSuffix(local, string(filepath.Separator)) {
		return true, os.MkdirAll(local, 0o777) //nolint:gosec // the umask decides, as for cp
	}
	info, err := os.Stat(local)
	if err == nil && info.IsDir() {
		return true, nil
	}
	if several {
		return false, fmt.Errorf("%s: several things need a folder to go into", local)
	}
	return false, nil
}

// download holds what the downloads of one get command share.
type download struct {
	api        *client.Client
	down       *client.Downloader
	local      string
	intoFolder bool // local is a directory to download into
	recursive  bool
	taken      usedTargets
	opt        client.TreeOptions
}

// get downloads one file, or a folder if recursive is set, and returns the counts. It fails with
// errIsFolder for a folder otherwise.
func (g download) get(ctx context.Context, arg string) (client.Summary, error) {
	remote, _ := remotePath(arg)
	n, err := g.api.NodeAt(ctx, remote)
	if err != nil {
		return client.Summary{}, fmt.Errorf("%s: %w", remote, err)
	}
	if n.Type == client.Folder && !g.recursive {
		return client.Summary{}, fmt.Errorf("%s %w", remote, errIsFolder)
	}
	to := g.local
	within := n.Type == client.Folder && strings.HasSuffix(arg, "/.") // "folder/.": its contents only
	if g.intoFolder && remote != "/" && !within {
		name, err := client.LocalName(n.Name)
		if err != nil {
			return client.Summary{}, err
		}
		to = filepath.Join(g.local, name)
	}
	if n.Type == client.Folder {
		return g.down.GetTree(ctx, remote, to, g.opt)
	}
	if err := g.taken.claim(to, remote); err != nil {
		return client.Summary{}, err
	}
	res, err := g.down.Get(ctx, remote, to, client.GetOptions{SkipSame: g.opt.SkipSame, Keep: g.opt.Keep, Progress: g.opt.Progress})
	if err != nil {
		return client.Summary{}, err
	}
	return singleSummary(g.opt, client.Item{Local: to, Path: remote, Result: res}), nil
}
