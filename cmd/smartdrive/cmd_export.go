package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"example.org/smartdrive/client"
)

// newExportCommand returns the command `export`: export many documents as one zip.
func newExportCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Export many documents as one zip",
		Long: `Request a zip of folders, files or a list of documents, follow its progress, and download it. The server collects it in the
background. Documents that could not be collected are listed in err.txt in the zip, and can be added by a supplement.`,
		Args: cobra.NoArgs,
		RunE: showHelp,
	}
	c.addCommands(cmd, c.exportCreate(), c.exportLs(), c.exportShow(), c.exportGet(), c.exportSave(), c.exportCancel(), c.exportSupplement(),
		c.exportSchedule())
	return cmd
}

// exportCreate returns `smartdrive export create [PATH...]`, which requests a zip of paths or of
// the list that --list names.
func (c *cli) exportCreate() *cobra.Command {
	var in client.NewExport
	var list string
	cmd := &cobra.Command{
		Use:   "create [PATH...]",
		Short: "Request a zip",
		Example: `  smartdrive export create /invoices --month 2026-10 --ext pdf
  smartdrive export create /a.pdf /b.pdf --name letters
  smartdrive export create /intake/acme --documents --month 2026-10
  smartdrive export create --list documents.csv --name disk`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: c.completeRemote,
		RunE: func(cmd *cobra.Command, args []string) error {
			if (list == "") == (len(args) == 0) {
				return usageError(cmd, errors.New("either paths or --list"))
			}
			api, err := c.connect()
			if err != nil {
				return err
			}
			if list != "" {
				return c.exportList(cmd.Context(), api, in, list)
			}
			if err := selectNodes(cmd.Context(), api, &in, args); err != nil {
				return err
			}
			x, err := api.CreateExport(cmd.Context(), in)
			if err != nil {
				return err
			}
			return c.showSet(cmd.Context(), api, x)
		},
	}
	f := cmd.Flags()
	f.StringVar(&in.Name, "name", "", "name of the directory in the zip")
	f.StringVar(&list, "list", "", "file with a list, in JSON lines or CSV (id, path, url, name); - for standard input")
	f.StringVar(&in.Filter.Month, "month", "", "only files last modified in this month, such as 2026-10")
	f.StringVar(&in.Filter.Zone, "zone", "", "time zone of the month, such as Asia/Shanghai (default UTC)")
	f.StringVar(&in.Filter.From, "from", "", "only files last modified on this day or later, such as 2026-10-01")
	f.StringVar(&in.Filter.To, "to", "", "only files last modified on this day or earlier")
	f.BoolVar(&in.Filter.SinceLast, "since-last", false, "only what has changed since the last export of this folder with the same filter")
	f.BoolVar(&in.Again, "again", false, "make another export of a folder's --month, although there is one")
	exportFilterFlags(cmd, &in.Filter)
	exportNameFlags(cmd, &in.Names, &in.Index)
	f.Int64Var(&in.Priority, "priority", 0, "of your exports the higher goes first, -100 to 0; 1 to 10 also before those of others, for administrators")
	return cmd
}

// exportFilterFlags adds the flags that select files and documents; their values are stored in the
// argument in.
func exportFilterFlags(cmd *cobra.Command, in *client.ExportFilter) {
	cmd.Flags().StringSliceVar(&in.Ext, "ext", nil, "only files with these extensions")
	cmd.Flags().StringVar(&in.Pattern, "pattern", "", "only files whose names match, such as inv-*.pdf")
	for name, of := range map[string]struct {
		to   *string
		help string
	}{
		"seller": {&in.Of.Seller, "id or name of the seller"}, "buyer": {&in.Of.Buyer, "id or name of the buyer"}, "currency": {&in.Of.Currency, "such as EUR"},
		"min": {&in.Of.Min, "smallest total with VAT"}, "max": {&in.Of.Max, "largest total with VAT"}, "type": {&in.Of.Type, "code of UNTDID 1001: 380 an invoice, 381 a credit note"},
	} {
		cmd.Flags().StringVar(of.to, name, "", "with --documents: "+of.help)
	}
	cmd.Flags().BoolVar(&in.XML, "xml", false, "with --documents: beside each PDF the file that the document was read from")
	cmd.Flags().BoolVar(&in.Documents, "documents", false, "for /intake or /intake/SOURCE: the PDFs of accepted documents, by the date of the document")
}

// exportNameFlags adds the flags --names and --index.
func exportNameFlags(cmd *cobra.Command, names *string, index *bool) {
	cmd.Flags().StringVar(names, "names", "", "pattern of the paths in the zip: {name}, {folder}, {date}, {year}, {month}, {day}; with --documents {seller}, {number}, {source}, {id} and dates")
	cmd.Flags().BoolVar(index, "index", false, "put a list of all entries, index.csv, into the zip")
}

// selectNodes sets what an export contains from the arguments, paths of nodes. A single folder sets
// in.Folder, which also names the directory in the zip; anything else goes to in.Nodes. It fails if
// a path does not exist.
func selectNodes(ctx context.Context, api *client.Client, in *client.NewExport, args []string) error {
	for _, arg := range args {
		p, _ := remotePath(arg)
		n, err := api.NodeAt(ctx, p)
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		if len(args) == 1 && n.Type == client.Folder {
			in.Folder = n.ID
			return nil
		}
		in.Nodes = append(in.Nodes, n.ID)
	}
	return nil
}

// exportList starts an export of the files named in the file list and prints the export, or all its
// parts.
func (c *cli) exportList(ctx context.Context, api *client.Client, in client.NewExport, list string) error {
	raw, err := c.readList(list)
	if err != nil {
		return err
	}
	x, err := api.CreateExportOf(ctx, in, raw)
	if err != nil {
		return err
	}
	return c.showSet(ctx, api, x)
}

// showSet prints an export. If the export was split into several zips, it prints all parts of that
// set.
func (c *cli) showSet(ctx context.Context, api *client.Client, x client.Export) error {
	if x.Parts < 2 {
		return c.showExport(x)
	}
	for part, err := range api.ExportSet(ctx, x.Set) {
		if err != nil {
			return err
		}
		if err := c.showExport(part); err != nil {
			return err
		}
	}
	return nil
}

// readList returns the content of a file; "-" reads standard input to its end.
func (c *cli) readList(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(c.in)
	}
	return os.ReadFile(name) //nolint:gosec // the user chose the path
}

// showExport prints an export as one line.
func (c *cli) showExport(x client.Export) error {
	line := fmt.Sprintf("%s  %-9s  %s  %d + %d failed of %d", x.ID, x.State, x.Name, x.Collected, x.Failed, x.Total)
	if x.Parts > 1 {
		line += fmt.Sprintf("  part %d of %d", x.Part, x.Parts)
	}
	if x.Size > 0 {
		line += fmt.Sprintf("  %d bytes", x.Size)
	}
	if x.ETA != nil {
		line += fmt.Sprintf("  %s left", time.Duration(*x.ETA)*time.Second)
	}
	if x.Error != "" {
		line += "  " + x.Error
	}
	if x.Joined {
		line += "  joined: the same month was requested before, use --again for another export"
	}
	return c.show(x, "%s%s", line, ending(x.ExpiresAt))
}

// exportLs returns the command `ls`: list exports.
func (c *cli) exportLs() *cobra.Command {
	return &cobra.Command{
		Use: "ls", Short: "List exports", Args: cobra.NoArgs,
		RunE: c.withClient(func(ctx context.Context, api *client.Client, _ []string) error {
			return showAll(api.AllExports(ctx), c.showExport)
		}),
	}
}

// exportShow returns the command `show ID`: show the progress of an export, and what could not be
// collected.
func (c *cli) exportShow() *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show the progress of an export, and what could not be collected", Args: cobra.ExactArgs(1),
		RunE: c.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			x, err := api.Export(ctx, args[0])
			if err != nil {
				return err
			}
			if err := c.showExport(x); err != nil {
				return err
			}
			return showAll(api.AllExportFailures(ctx, x.ID), func(f client.ExportFailure) error {
				return c.show(f, "  %d  %s  %s  %s", f.N, f.ID, f.Path, f.Reason)
			})
		}),
	}
}

// exportGet returns the command `get ID [FILE]`: download a zip; a second run resumes where the
// first one stopped.
func (c *cli) exportGet() *cobra.Command {
	var wait bool
	cmd := &cobra.Command{
		Use:   "get ID [FILE]",
		Short: "Download a zip; a second run resumes where the first one stopped",
		Args:  cobra.RangeArgs(1, 2),
		RunE: c.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			x, err := c.sealedExport(ctx, api, args[0], wait)
			if err != nil {
				return err
			}
			name, err := client.LocalName(x.Filename())
			if err != nil {
				return err
			}
			if len(args) == 2 {
				name = args[1]
			}
			show := c.newTransfers()
			err = api.GetExport(ctx, x, name, show.progress())
			show.close() // before the final line
			if err != nil {
				return err
			}
			return c.show(x, "%s  %d bytes", name, x.Size)
		}),
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until it is sealed")
	return cmd
}

// exportPoll is the polling interval of --wait.
const exportPoll = 2 * time.Second

// sealedExport returns an export once it is sealed. With wait it polls until then. It fails if the
// export has ended without being sealed or, without wait, is not sealed yet.
func (c *cli) sealedExport(ctx context.Context, api *client.Client, id string, wait bool) (client.Export, error) {
	for {
		x, err := api.Export(ctx, id)
		if err != nil || x.State == "sealed" {
			return x, err
		}
		if !wait || x.Ended() {
			return x, fmt.Errorf("the export is %s %s", x.State, x.Error)
		}
		select {
		case <-time.After(exportPoll):
		case <-ctx.Done():
			return x, context.Cause(ctx)
		}
	}
}

// exportCancel returns the command `cancel ID...`: cancel exports and release what they hold.
func (c *cli) exportCancel() *cobra.Command {
	return &cobra.Command{
		Use: "cancel ID...", Short: "Cancel exports and release what they hold", Args: cobra.MinimumNArgs(1),
		RunE: c.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			return c.each(ctx, args, func(arg string) error { return api.CancelExport(ctx, arg) })
		}),
	}
}

// exportSupplement returns the command `supplement ID`: export the failed documents again, from the
// same or other sources.
func (c *cli) exportSupplement() *cobra.Command {
	var complete bool
	var sources map[string]string
	cmd := &cobra.Command{
		Use:   "supplement ID",
		Short: "Export the failed documents again, from the same or other sources",
		Example: `  smartdrive export supplement ID
  smartdrive export supplement ID --complete --from 7=/found/x.pdf`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			given, err := exportSources(sources)
			if err != nil {
				return usageError(cmd, err)
			}
			api, err := c.connect()
			if err != nil {
				return err
			}
			x, err := api.SupplementExport(cmd.Context(), args[0], complete, given)
			if err != nil {
				return err
			}
			return c.showExport(x)
		},
	}
	cmd.Flags().BoolVar(&complete, "complete", false, "make a zip of everything, not only of what was missing")
	cmd.Flags().StringToStringVar(&sources, "from", nil, "another source for a failure: NUMBER=PATH or NUMBER=URL")
	return cmd
}

// exportSources parses replacement sources: the number of a failure -> a path in the drive, which
// starts with "/", or a URL.
func exportSources(given map[string]string) (all []client.ExportSource, err error) {
	for number, from := range given {
		var s client.ExportSource
		if _, err := fmt.Sscanf(number, "%d", &s.N); err != nil {
			return nil, fmt.Errorf("%q is not the number of a failure", number)
		}
		if from != "" && from[0] == '/' {
			s.Path = from
		} else {
			s.URL = from
		}
		all = append(all, s)
	}
	return all, nil
}
