package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"example.org/smartdrive/client"
)

// exportSave returns the command `save ID [FOLDER]`: write a zip into a folder of the drive, or
// into the server's bucket.
func (c *cli) exportSave() *cobra.Command {
	var name string
	var bucket, wait bool
	cmd := &cobra.Command{
		Use:   "save ID [FOLDER]",
		Short: "Write a zip into a folder of the drive, or into the server's bucket",
		Long: `Write a zip into a folder of the drive, where it counts like any file, or with --bucket into the bucket that the server has for
zips, where it stays until the export ends. The server does the work; with --bucket, a second run shows the progress.`,
		Example: `  smartdrive export save ID /archive --name 2026-10.zip
  smartdrive export save ID --bucket --wait`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: c.completeRemote,
		RunE: func(cmd *cobra.Command, args []string) error {
			if bucket == (len(args) == 2) || bucket && name != "" {
				return usageError(cmd, errors.New("either a folder or --bucket, which takes no --name"))
			}
			api, err := c.connect()
			if err != nil {
				return err
			}
			j, err := saveExport(cmd.Context(), api, args, name)
			if err == nil && wait {
				j, err = waitForSave(cmd.Context(), api, j)
			}
			if err != nil {
				return err
			}
			return c.showSave(j)
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "name of the file (default: that of the zip)")
	cmd.Flags().BoolVar(&bucket, "bucket", false, "write into the server's bucket")
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until it is written")
	return cmd
}

// saveExport starts writing a zip to the folder in args, or to the bucket if args has no folder.
func saveExport(ctx context.Context, api *client.Client, args []string, name string) (client.ExportJob, error) {
	if len(args) == 1 {
		return api.PublishExport(ctx, args[0])
	}
	p, _ := remotePath(args[1])
	n, err := api.NodeAt(ctx, p)
	if err != nil {
		return client.ExportJob{}, fmt.Errorf("%s: %w", p, err)
	}
	return api.SaveExport(ctx, args[0], n.ID, name)
}

// waitForSave polls a job until it has ended. It fails if the job failed.
func waitForSave(ctx context.Context, api *client.Client, j client.ExportJob) (client.ExportJob, error) {
	for !j.Ended() {
		select {
		case <-time.After(exportPoll):
		case <-ctx.Done():
			return j, context.Cause(ctx)
		}
		for now, err := range api.AllExportJobs(ctx, j.Export) {
			if err != nil {
				return j, err
			}
			if now.ID == j.ID {
				j = now
			}
		}
	}
	if j.State == "failed" {
		return j, fmt.Errorf("the zip was not saved: %s", j.Error)
	}
	return j, nil
}

// showSave prints the state of a job that writes a zip.
func (c *cli) showSave(j client.ExportJob) error {
	at := j.Name
	if j.Object != "" {
		at = j.Object
	}
	return c.show(j, "%-7s  %s  %d bytes  %s", j.State, at, j.Sent, j.Error)
}

// exportSchedule returns the command `schedule`: export a folder or a list each month.
func (c *cli) exportSchedule() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schedule",
		Short: "Export a folder or a list each month",
		Long: `Export on the 1st of each month at 02:00: of a folder the files that were last modified in the month before, or with --since-last
those changed since the last export; or with --list what a file in the drive lists at that time. "smartdrive export ls" lists the exports.`,
		Args: cobra.NoArgs,
		RunE: showHelp,
	}
	c.addCommands(cmd, c.exportScheduleCreate(), c.exportScheduleLs(), c.exportScheduleRm())
	return cmd
}

// exportScheduleCreate returns the command `create [FOLDER]`: create a schedule of a folder, or of
// the list in the drive that --list names, beginning with the current month.
func (c *cli) exportScheduleCreate() *cobra.Command {
	var in client.ExportSchedule
	var list string
	cmd := &cobra.Command{
		Use: "create [FOLDER]", Short: "Create a schedule, beginning with the current month",
		Example: `  smartdrive export schedule create /invoices --zone Asia/Shanghai --ext pdf
  smartdrive export schedule create /invoices --since-last
  smartdrive export schedule create --list /lists/contracts.csv`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: c.completeRemote,
		RunE: func(cmd *cobra.Command, args []string) error {
			if (list == "") == (len(args) == 0) {
				return usageError(cmd, errors.New("either a folder or --list"))
			}
			api, n, err := c.nodeAt(cmd.Context(), append(args, list)[0])
			if err != nil {
				return err
			}
			if list == "" {
				in.Folder = n.ID
			} else {
				in.List = n.ID
			}
			s, err := api.CreateExportSchedule(cmd.Context(), in)
			if err != nil {
				return err
			}
			return c.showSchedule(s)
		},
	}
	cmd.Flags().StringVar(&in.Name, "name", "", "name of the directory in the zips (default: that of the folder or list)")
	cmd.Flags().StringVar(&list, "list", "", "path in the drive of a list, in JSON lines or CSV (id, path, url, name), which is read each month")
	cmd.Flags().BoolVar(&in.Filter.SinceLast, "since-last", false, "what has changed since the last export of this folder with the same filter, instead of the month's files")
	cmd.Flags().StringVar(&in.Zone, "zone", "", "time zone, such as Asia/Shanghai (default UTC)")
	cmd.Flags().Int64Var(&in.Priority, "priority", 0, "of your exports the higher goes first, -100 to 0; 1 to 10 also before those of others, for administrators")
	cmd.Flags().BoolVar(&in.Bucket, "bucket", false, "write each zip to the server's bucket as soon as it is sealed")
	exportFilterFlags(cmd, &in.Filter)
	exportNameFlags(cmd, &in.Names, &in.Index)
	return cmd
}

// exportScheduleLs returns the command `ls`: list schedules.
func (c *cli) exportScheduleLs() *cobra.Command {
	return &cobra.Command{
		Use: "ls", Short: "List schedules", Args: cobra.NoArgs,
		RunE: c.withClient(func(ctx context.Context, api *client.Client, _ []string) error {
			return showAll(api.AllExportSchedules(ctx), func(s client.ExportSchedule) error {
				return c.showSchedule(s)
			})
		}),
	}
}

// showSchedule prints an export schedule as one line.
func (c *cli) showSchedule(s client.ExportSchedule) error {
	skipped := ""
	if s.Skipped != nil {
		skipped = fmt.Sprintf("  without %s: %s", s.Skipped.Month, s.Skipped.Reason)
	}
	return c.show(s, "%s  %s  %s on %s%s", s.ID, s.Name, s.Month, s.DueAt.Local().Format(time.DateTime), skipped)
}

// exportScheduleRm returns the command `rm ID...`: delete schedules; their exports stay.
func (c *cli) exportScheduleRm() *cobra.Command {
	return &cobra.Command{
		Use: "rm ID...", Short: "Delete schedules; their exports stay", Args: cobra.MinimumNArgs(1),
		RunE: c.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			return c.each(ctx, args, func(arg string) error { return api.DeleteExportSchedule(ctx, arg) })
		}),
	}
}
