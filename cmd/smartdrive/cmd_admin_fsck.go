package main

import (
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"example.org/smartdrive/internal/app"
	"example.org/smartdrive/internal/usecase/fsck"
)

// fsckLong is the help of `smartdrive admin fsck`.
const fsckLong = `Check that the database, the files and the uploads agree, by the invariants of docs/invariants.md. Without --repair nothing
is changed, except that damaged content is marked: nothing links to it then, and the next upload of the same file replaces it. A repair
deletes only content that a row lists as released. Bytes that no row explains are moved to the quarantine
beside the blobs; only --purge deletes them. What a process that died has left behind, and rows explain, is counted as leftovers: the audit in
the background deletes it, or a repair. Exit code 8: there are findings that were not repaired.`

// fsckCommand returns the command `admin fsck`: check the installation and repair it.
func (a *adminCLI) fsckCommand() *cobra.Command {
	scope, purge := fsck.Scope{}, false
	cmd := &cobra.Command{
		Use:     "fsck",
		Short:   "Check the installation and repair it",
		Long:    fsckLong,
		Example: "  smartdrive admin fsck\n  smartdrive admin fsck --repair --deep",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withConnection(cmd.Context(), func(c *connection) error {
				if purge {
					return a.purge(cmd, c)
				}
				return a.fsck(cmd, c, scope)
			})
		},
	}
	cmd.Flags().BoolVar(&scope.Repair, "repair", false, "repair what can be repaired")
	cmd.Flags().BoolVar(&scope.Deep, "deep", false, "read every file and compare its digest")
	cmd.Flags().BoolVar(&purge, "purge", false, "permanently delete what is in the quarantine")
	cmd.MarkFlagsMutuallyExclusive("purge", "repair")
	cmd.MarkFlagsMutuallyExclusive("purge", "deep")
	return cmd
}

// fsck runs a check and prints its findings. It returns an error with exitFindings if findings are
// left unrepaired.
func (a *adminCLI) fsck(cmd *cobra.Command, c *connection, scope fsck.Scope) error {
	var out app.FsckResult
	if err := c.call(cmd.Context(), http.MethodPost, app.RouteFsck, scope, &out); err != nil {
		return err
	}
	if err := a.report(out); err != nil {
		return err
	}
	if !out.Clean() {
		return withCode(exitFindings, fmt.Errorf("%d findings are not repaired", out.Total-out.Repaired))
	}
	return nil
}

// report prints the findings and counts of a check. The error is one of writing.
func (a *adminCLI) report(out app.FsckResult) error {
	if !a.json {
		for _, f := range out.Findings {
			_ = printVisible(a.out, "%s\n", finding{f.Invariant, f.Subject, f.Expected, f.Found, f.Repaired}) // the verdict is in the exit code, too
		}
		if out.DatabaseDamaged {
			fmt.Fprintln(a.err, "The other checks were skipped, and nothing was repaired: what a damaged database lists cannot be relied on.\n"+app.DamageInstructions(""))
		}
		if out.EndedRestored {
			fmt.Fprintln(a.err, "The restored backup is clean; restart the server to leave the report-only mode.")
		}
	}
	if n := out.Leftovers.Count; n > 0 && !a.json {
		then := "the audit in the background deletes them, or --repair"
		if out.Scope.Repair {
			then = "deleted"
		}
		fmt.Fprintf(a.out, "%d leftovers of processes that died, %s: %s\n", n, sizeText(int64(out.Leftovers.Bytes)), then)
	}
	k := out.Checked
	return a.printDone(out, "%d findings, %d repaired; looked at %d accounts, %d nodes, %d blobs, %d uploads, %d files; %s in quarantine",
		out.Total, out.Repaired, k.Accounts, k.Nodes, k.Blobs, k.Uploads, k.Files, sizeText(int64(out.Quarantine.Bytes)))
}

// purge deletes all files in the server's quarantine for good and prints their number and size.
func (a *adminCLI) purge(cmd *cobra.Command, c *connection) error {
	var gone fsck.Tally
	if err := c.call(cmd.Context(), http.MethodPost, app.RoutePurge, app.PurgeRequest{}, &gone); err != nil {
		return err
	}
	return a.printDone(gone, "%d things deleted from the quarantine, %s", gone.Count, sizeText(int64(gone.Bytes)))
}
