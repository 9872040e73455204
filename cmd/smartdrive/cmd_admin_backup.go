package main

import (
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"example.org/smartdrive/internal/app"
	"example.org/smartdrive/internal/base/config"
	"example.org/smartdrive/internal/base/telemetry"
	"example.org/smartdrive/internal/usecase/backup"
)

// backupCommand returns the command `admin backup DIR`: copy the database and the files into DIR
// while the server runs.
func (a *adminCLI) backupCommand() *cobra.Command {
	in := app.BackupRequest{}
	cmd := &cobra.Command{
		Use:   "backup DIR",
		Short: "Copy the database and the files into DIR while the server runs",
		Long: `Copy the database and the files into DIR while the server runs. A second run copies only what is new. On the same file system
files are hard-linked, which protects against mistakes but not against the loss of the disk. Unfinished uploads are not copied.

Every file is compared with its checksum when it is linked or copied. If the installation lacks files or has damaged ones, the backup is
made all the same, the command names them and exits with 7. Files that DIR has from earlier runs are read again only with --verify.`,
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
			return a.withConnection(cmd.Context(), func(c *connection) error {
				var out backup.Result
				if err := c.call(cmd.Context(), http.MethodPost, app.RouteBackup, in, &out); err != nil {
					return err
				}
				if err := a.printDone(out, "backed up to %s: %d files linked, %d copied (%s)",
					dir, out.Moved.Linked, out.Moved.Copied, sizeText(int64(out.Moved.Bytes))); err != nil {
					return err
				}
				return contentError("the installation", out.Missing, out.Damaged)
			})
		},
	}
	cmd.Flags().BoolVar(&in.Copy, "copy", false, "copy files even where they could be linked")
	cmd.Flags().BoolVar(&in.Verify, "verify", false, "also read the files that DIR has already, there and in the installation, and replace damaged ones of DIR")
	return cmd
}

// maxNamed is how many files an error message names. The JSON result names all of them.
const maxNamed = 10

// contentError returns an error that names missing and damaged contents, nil if there are none.
func contentError(where string, missing, damaged []string) error {
	if len(missing)+len(damaged) == 0 {
		return nil
	}
	names := slices.Concat(missing, damaged)
	more := ""
	if len(names) > maxNamed {
		more = fmt.Sprintf(" and %d more", len(names)-maxNamed)
	}
	return withCode(exitPartial, fmt.Errorf(`%s lacks %d contents and has %d damaged ones: %s%s; "smartdrive admin fsck --deep" names the files of people that they belong to`,
		where, len(missing), len(damaged), strings.Join(names[:min(maxNamed, len(names))], ", "), more))
}

// restoreLong is the help of `smartdrive admin restore`.
const restoreLong = `Restore the backup in DIR to the data directory; the server must not be running. A data directory that is not empty is refused.
With --force the backup replaces the database of the same installation; the replaced one is kept beside it.

Without DIR: accept the database that is in place as the one that the blobs belong to. That can be a nightly snapshot from
<data>/backups that you copied to <data>/smartdrive.db, or a database on the server that --db names, into which you loaded a
dump. No instance may be running.

Every file is compared with its checksum, also one that is in place already: a damaged one is replaced if the backup has it undamaged. If
files are missing or damaged after that, the command names them and exits with 7.

Open uploads are ended. The restored installation deletes nothing until "smartdrive admin fsck" has been clean.`

// restoreCommand returns the command `admin restore [DIR]`: restore a backup; the server must not
// be running.
func (a *adminCLI) restoreCommand() *cobra.Command {
	force := false
	cmd := &cobra.Command{
		Use:     "restore [DIR]",
		Short:   "Restore a backup; the server must not be running",
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
			return a.printDone(map[string]int64{"uploads": uploads}, "accepted the database; %d open uploads ended", uploads)
		}
		out, err := app.Restore(cmd.Context(), cfg, args[0], force, log)
		if err != nil {
			return err
		}
		if err := a.printDone(out, "restored to %s; %d open uploads ended", cfg.Data, out.Uploads); err != nil {
			return err
		}
		return contentError("the restored installation", out.Missing, out.Damaged)
	}
	return cmd
}
