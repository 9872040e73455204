package main

import (
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"

	"github.com/spf13/cobra"

	"smartdrive/internal/app"
	"smartdrive/internal/base/config"
	"smartdrive/internal/base/telemetry"
	"smartdrive/internal/usecase/backup"
)

func (a *adminCLI) backupCommand() *cobra.Command {
	in := app.BackupRequest{}
	cmd := &cobra.Command{
		Use:   "backup DIR",
		Short: "Copy database and files into DIR, while the server runs",
		Long: `Copy database and files into DIR, while the server runs. Run again, it brings only what is new. On the same file system
files are linked, which protects from mistakes and not from the loss of the disk. Uploads on their way are not part of it.`,
		Example: "  smartdrive admin backup /mnt/usb/drive",
		Args:    usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			in.Dir = dir
			if cfg, err := a.config(); err != nil {
				return err
			} else if cfg.Mode() != config.Embedded {
				return app.ErrServerDatabase
			}
			return a.with(cmd.Context(), func(c *connection) error {
				var out backup.Result
				if err := c.call(cmd.Context(), http.MethodPost, app.RouteBackup, in, &out); err != nil {
					return err
				}
				return a.done(out, "backed up to %s: %d files linked, %d copied (%s)",
					dir, out.Moved.Linked, out.Moved.Copied, sizeText(int64(out.Moved.Bytes)))
			})
		},
	}
	cmd.Flags().BoolVar(&in.Copy, "copy", false, "copy files, also where they could be linked")
	return cmd
}

const restoreLong = `Put the backup in DIR in place of what is in the data directory; the server must not run. A data directory that holds
anything is refused; with --force the backup may replace the database of the same installation, which is put aside.

Without DIR: accept the database that lies in the data directory, such as a nightly snapshot from <data>/backups that was
copied to <data>/smartdrive.db, or the one on the server that --db names, into which a dump was read, as the one that the
blobs belong to. No instance may be alive then.

Open uploads are ended. Until "smartdrive admin fsck" was clean, the restored installation deletes nothing.`

func (a *adminCLI) restoreCommand() *cobra.Command {
	force := false
	cmd := &cobra.Command{
		Use:     "restore [DIR]",
		Short:   "Put a backup in place; the server must not run",
		Long:    restoreLong,
		Example: "  smartdrive admin restore /mnt/usb/drive --data /srv/drive\n  smartdrive admin fsck --repair --data /srv/drive",
		Args:    usageArgs(cobra.MaximumNArgs(1)),
	}
	cmd.Flags().BoolVar(&force, "force", false, "replace the database of the same installation")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cfg, err := a.config()
		if err != nil {
			return err
		}
		log, err := telemetry.NewLogger(a.err, slog.LevelWarn, telemetry.FormatText)
		if err != nil {
			return err
		}
		if len(args) == 0 {
			uploads, err := app.Adopt(cmd.Context(), cfg, log)
			if err != nil {
				return err
			}
			return a.done(map[string]int64{"uploads": uploads}, "accepted the database; %d open uploads ended", uploads)
		}
		out, err := app.Restore(cmd.Context(), cfg, args[0], force, log)
		if err != nil {
			return err
		}
		if len(out.Missing) > 0 {
			fmt.Fprintf(a.err, "%d files are not in the backup; fsck names them\n", len(out.Missing))
		}
		return a.done(out, "restored to %s; %d open uploads ended", cfg.Data, out.Uploads)
	}
	return cmd
}
