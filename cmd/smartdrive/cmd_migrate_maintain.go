package main

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/head/rest"
	"example.org/smartdrive/internal/move/migrate"
)

// Commands about a migration besides its phases: rate limits, mismatches, and the old side.

// migrateRateCommand returns the command `migrate rate`: limit how many rows and bytes per second
// are copied and compared, on all instances.
func (a *adminCLI) migrateRateCommand() *cobra.Command {
	var rows, bytes int64
	cmd := &cobra.Command{
		Use:   "rate",
		Short: "Limit how many rows and bytes per second are copied and compared, on all instances",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var in rest.MigrationBody
			if cmd.Flags().Changed("rows") {
				in.Rows = &rows
			}
			if cmd.Flags().Changed("bytes") {
				in.Bytes = &bytes
			}
			if in.Rows == nil && in.Bytes == nil {
				return usageError(cmd, errors.New("give --rows, --bytes or both"))
			}
			return a.runStep(cmd, rest.MigrationRate, in)
		},
	}
	cmd.Flags().Int64Var(&rows, "rows", 0, "rows per second; 0: no limit")
	cmd.Flags().Var((*byteRate)(&bytes), "bytes", "bytes per second, such as 20MiB; 0: no limit")
	return cmd
}

// migrateExplainCommand returns the command `migrate explain ID REASON`: record why a mismatch does
// not matter, so that it no longer blocks the next phase.
func (a *adminCLI) migrateExplainCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "explain ID REASON",
		Short:   "Record why a mismatch does not matter, so that it no longer blocks the next phase",
		Example: `  smartdrive migrate explain 17 "a column that only the old release wrote"`,
		Args:    usageArgs(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := strconv.ParseInt(args[0], 10, 64); err != nil {
				return usageError(cmd, fmt.Errorf("%q is not an id of a mismatch", args[0]))
			}
			return a.withConnection(cmd.Context(), func(c *connection) error {
				in := map[string]string{"reason": args[1]}
				return c.call(cmd.Context(), http.MethodPost, migrationRoute+"/mismatches/"+args[0]+"/explain", in, nil)
			})
		},
	}
}

// migrateDropOldCommand returns the command `migrate drop-old`: delete the rows and contents of the
// old side once it has been kept long enough.
func (a *adminCLI) migrateDropOldCommand() *cobra.Command {
	var in rest.MigrationBody
	cmd := &cobra.Command{
		Use:   "drop-old",
		Short: "Delete the rows and contents of the old side once it has been kept long enough",
		Long: `Delete the rows and contents of the old side: in phase 5, after all instances were started with the new settings, and once the
old side has been kept for --migration-keep. The work continues in the background; "smartdrive migrate status" shows it. Contents
that the new place does not have as their rows say are kept and listed. Run it before "smartdrive migrate drop", which forgets
where the old side is.`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runStep(cmd, rest.MigrationDropOld, in) },
	}
	cmd.Flags().BoolVar(&in.Early, "early", false, "delete it before its time")
	cmd.Flags().IntVar(&in.Percent, "contents", 0, "percentage of contents to read and verify at the new place before they are deleted; of the others only the size is compared")
	return cmd
}

// migrateDropCommand returns `smartdrive migrate drop`, which deletes the records of a finished
// migration.
func (a *adminCLI) migrateDropCommand() *cobra.Command {
	var in rest.MigrationBody
	cmd := a.migrateStepCommand(rest.MigrationDrop, "Delete the records of a finished migration, after a start with the new settings")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return a.runStep(cmd, rest.MigrationDrop, in) }
	cmd.Flags().BoolVar(&in.Early, "early", false, "do not wait until \"drop-old\" has ended; what it has not deleted stays, and no command finds it any more")
	return cmd
}

// byteRate is a flag value in bytes per second.
type byteRate int64

// String returns the number of bytes a second for the help.
func (r *byteRate) String() string { return strconv.FormatInt(int64(*r), 10) }

// Type returns the kind of value for the help.
func (r *byteRate) Type() string { return "size" }

// Set parses bytes a second, such as 10MiB, for pflag. It fails for another text.
func (r *byteRate) Set(text string) error {
	n, err := drive.ParseByteSize(text)
	*r = byteRate(n)
	return err
}

// mismatchText formats a difference between the two sides and its explanation.
func mismatchText(m migrate.Mismatch) string {
	text := fmt.Sprintf("%d  %s  %s\n  ours    %s\n  theirs  %s", m.ID, m.Source, m.Subject, m.Ours, m.Theirs)
	switch {
	case m.Reason != "":
		text += fmt.Sprintf("\n  explained by %s at %s: %s", m.ExplainedBy, m.ExplainedAt.Std().UTC().Format(time.RFC3339), m.Reason)
	case m.Explained:
		text += "\n  a later comparison was equal"
	}
	return text
}

// paceLines formats the rate limits of a migration; nil without limits.
func paceLines(p migrate.Pace) []string {
	if p == (migrate.Pace{}) {
		return nil
	}
	bound := func(n int64) string {
		if n == 0 {
			return "any number of"
		}
		return strconv.FormatInt(n, 10)
	}
	return []string{fmt.Sprintf("pace      %s rows/s, %s bytes/s at most", bound(p.Rows), bound(p.Bytes))}
}

// waitLines formats, for each instance that is waiting, what it waits for.
func waitLines(all []migrate.Instance) (lines []string) {
	for _, in := range all {
		if in.Why != "" {
			lines = append(lines, fmt.Sprintf("instance %d on %s waits: %s", in.ID, in.Host, in.Why))
		}
	}
	return lines
}

// oldLines formats the state of the old side; nil if there is none.
func oldLines(o *migrate.Old) []string {
	if o == nil {
		return nil
	}
	lines := []string{fmt.Sprintf("old side  %s; to be kept until %s", o.State, o.KeptUntil.Std().UTC().Format(time.RFC3339))}
	if o.State != "kept" {
		rows := "not gone yet"
		if o.Rows {
			rows = "gone"
		}
		lines = append(lines, fmt.Sprintf("old rows %s; old contents: %d removed, %d bytes", rows, o.Contents.Removed, o.Contents.Bytes))
	}
	if o.Contents.Kept > 0 {
		lines = append(lines, fmt.Sprintf("%d contents stay at the old place, such as: %s", o.Contents.Kept, o.Contents.Worst))
	}
	if o.State != "dropped" {
		lines = append(lines, "gate of drop-old:")
		lines = append(lines, gateLines(o.Gate)...)
	}
	return lines
}
