package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"example.org/smartdrive/internal/base/config"
	"example.org/smartdrive/internal/head/rest"
	"example.org/smartdrive/internal/move/migrate"
)

// migrateLong is the help of `smartdrive migrate`.
const migrateLong = `Move the installation to another database, another place of contents, or both, while it serves. The commands speak to the
running server over <data>/admin.sock, like those of "smartdrive admin". docs/migration.md describes the phases, and the way
back from each.

  1  write old, read old      rows and contents are copied to the new side
  2  write old, then new      each change reaches the new side before the request is answered
  3  the same                 some accounts read from the new side
  4  write new, then old      all accounts read from the new side
  5  new only                 the old side refuses every write`

// migrationRoute is the path of the migration API.
const migrationRoute = apiPath + "/admin/migration"

// newMigrateCommand returns the command `migrate`: move the installation to other engines while it
// serves.
func newMigrateCommand() *cobra.Command {
	a := &adminCLI{streams: streams{os.Stdin, os.Stdout, os.Stderr}, cfg: pflag.NewFlagSet("migrate", pflag.ContinueOnError)}
	config.AddFlags(a.cfg)
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Move the installation to other engines while it serves",
		Long:  migrateLong,
		Args:  usageArgs(cobra.NoArgs),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, name := range []string{"data", "db", "redis", "kafka", "blobs", "namespace", "config"} {
		cmd.PersistentFlags().AddFlag(a.cfg.Lookup(name))
	}
	cmd.PersistentFlags().BoolVar(&a.json, "json", false, "print results as JSON, one object per line")
	cmd.AddCommand(a.migrateStartCommand(), a.migrateStatusCommand(), a.migrateVerifyCommand(), a.migratePercentCommand(),
		a.migrateMismatchesCommand(), a.migrateExplainCommand(), a.migrateRateCommand(), a.migrateDropOldCommand(), a.migrateDropCommand(),
		a.migrateStepCommand(rest.MigrationAdvance, "Go on to the next phase if its conditions are met"),
		a.migrateStepCommand(rest.MigrationPause, "Pause copying and comparing; new changes are still copied"),
		a.migrateStepCommand(rest.MigrationResume, "Continue after a pause"),
		a.migrateStepCommand(rest.MigrationRollback, "Go back to the previous phase; in phase 1: cancel the migration"),
		a.migrateStepCommand(rest.MigrationFinish, "Leave the old side: phase 5"))
	return cmd
}

// migrateStartCommand returns `smartdrive migrate start`, which checks both sides and begins unless
// a check fails.
func (a *adminCLI) migrateStartCommand() *cobra.Command {
	var in rest.MigrationStart
	cmd := &cobra.Command{
		Use:   "start",
		Short: "Check both sides and begin",
		Long: `Check both sides and, if nothing is wrong, begin. A URL with a password can be read from a file: @FILE.
It is kept in the database until the migration is dropped.`,
		Example: "  smartdrive migrate start --to-db mysql://drive:secret@db/drive --to-blobs s3://key:secret@store/bucket --to-redis redis://cache/1",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if in.ToDB == "" && in.ToBlobs == "" {
				return usageError(cmd, errors.New("give --to-db, --to-blobs or both"))
			}
			for _, where := range []*string{&in.ToDB, &in.ToBlobs, &in.ToRedis} {
				if err := expandFile(where); err != nil {
					return err
				}
			}
			for _, where := range []*string{&in.ToDB, &in.ToBlobs} {
				if err := makeAbsolute(where); err != nil {
					return err
				}
			}
			return a.withConnection(cmd.Context(), func(c *connection) error {
				var raw json.RawMessage
				if err := c.call(cmd.Context(), http.MethodPost, migrationRoute, in, &raw); err != nil {
					return err
				}
				return a.printReport(raw, in.DryRun)
			})
		},
	}
	cmd.Flags().StringVar(&in.ToDB, "to-db", "", "the new database: mysql://..., or a data directory for SQLite")
	cmd.Flags().StringVar(&in.ToBlobs, "to-blobs", "", "the new place for contents: s3://..., or a directory")
	cmd.Flags().StringVar(&in.ToRedis, "to-redis", "", "with s3://: the Redis for the journals of uploads")
	cmd.Flags().Int64Var(&in.Rows, "rows", 0, "copy and compare at most this many rows per second; 0: no limit")
	cmd.Flags().Var((*byteRate)(&in.Bytes), "bytes", "copy and compare at most this many bytes per second, such as 20MiB; 0: no limit")
	cmd.Flags().BoolVar(&in.DryRun, "dry-run", false, "only check, and report what is missing and what the move costs")
	return cmd
}

// expandFile replaces a value @FILE by the content of that file without surrounding space; other
// values stay. It fails if the file cannot be read, and *value is then empty. Secrets come this way
// because all users of the machine can see arguments.
func expandFile(value *string) error {
	name, is := strings.CutPrefix(*value, "@")
	if !is {
		return nil
	}
	text, err := os.ReadFile(name)
	*value = strings.TrimSpace(string(text))
	return err
}

// makeAbsolute makes a path absolute, because the server's working directory differs from the
// caller's.
func makeAbsolute(where *string) (err error) {
	if *where != "" && !strings.Contains(*where, "://") {
		*where, err = filepath.Abs(*where)
	}
	return err
}

// printReport prints the report of a migration start. It fails if the migration did not start
// although dry is false.
func (a *adminCLI) printReport(raw json.RawMessage, dry bool) error {
	var r migrate.Report
	if err := json.Unmarshal(raw, &r); err != nil {
		return err
	}
	if err := show(a, raw, func(r migrate.Report) string { return reportText(r, dry) }); err != nil {
		return err
	}
	if !r.OK {
		return withCode(exitConflict, errors.New("the migration has not begun"))
	}
	return nil
}

// reportText formats the checks and, if they passed, whether the migration can begin (dry) or has
// begun.
func reportText(r migrate.Report, dry bool) string {
	lines := gateLines(r.Checks)
	if r.Tables > 0 {
		lines = append(lines, fmt.Sprintf("%d rows of %d tables, about %s", r.Rows, r.Tables, time.Duration(r.Seconds)*time.Second))
	}
	switch {
	case r.OK && dry:
		lines = append(lines, "it can begin")
	case r.OK:
		lines = append(lines, "it has begun: phase 1")
	}
	return strings.Join(lines, "\n")
}

// gateLines formats the conditions of a phase, one per line.
func gateLines(gates []migrate.Gate) []string {
	lines := []string{}
	for _, g := range gates {
		state := "waits"
		if g.OK {
			state = "ok"
		}
		lines = append(lines, fmt.Sprintf("  %-5s  %-16s  %s", state, g.Name, g.Detail))
	}
	return lines
}

// migrateStatusCommand returns the command `migrate status`: show the phase, the progress, and what
// the next phase waits for.
func (a *adminCLI) migrateStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the phase, the progress, and what the next phase waits for",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withConnection(cmd.Context(), func(c *connection) error {
				var raw json.RawMessage
				if err := c.call(cmd.Context(), http.MethodGet, migrationRoute, nil, &raw); err != nil {
					return err
				}
				return show(a, raw, migrationText)
			})
		},
	}
}

// migrationText formats the state of a migration, several lines.
func migrationText(s migrate.Status) string {
	if s.State != "running" {
		return "nothing moves"
	}
	lines := []string{fmt.Sprintf("phase %d  epoch %d  from %s to %s", s.Phase, s.Epoch, placeText(s.From), placeText(s.To))}
	if s.Paused {
		lines[0] += "  paused"
	}
	if s.Phase == migrate.ReadNew {
		lines = append(lines, fmt.Sprintf("%d %% of the accounts read new, and %d that were named", s.Percent, len(s.Accounts)))
	}
	rows, blobs := s.Progress.Rows, s.Progress.Blobs
	if rows.Total > 0 {
		lines = append(lines, fmt.Sprintf("rows      %d of %d, %.0f/s", rows.Done, rows.Total, rows.Rate))
	}
	if blobs.Total > 0 {
		lines = append(lines, fmt.Sprintf("contents  %d of %d, %d bytes copied, %.0f bytes/s", blobs.Done, blobs.Total, blobs.Bytes, blobs.Rate))
	}
	if s.Progress.ETA > 0 {
		lines = append(lines, fmt.Sprintf("about %s to go", time.Duration(s.Progress.ETA)*time.Second))
	}
	lines = append(lines, fmt.Sprintf("lag %d, mismatches %d; reads of the new side %d, compared %d; writes brought at once %d, later %d; longest pause %d ms",
		s.Lag, s.Mismatches, s.Reads.New, s.Reads.Compared, s.Writes.Second, s.Writes.Deferred, s.Writes.Pause))
	lines = append(lines, paceLines(s.Pace)...)
	lines = append(lines, waitLines(s.Instances)...)
	lines = append(lines, oldLines(s.Old)...)
	if len(s.Gate) > 0 {
		lines = append(lines, fmt.Sprintf("gate of phase %d:", s.Phase+1))
	}
	return strings.Join(append(lines, gateLines(s.Gate)...), "\n")
}

// placeText formats one side of a migration.
func placeText(p migrate.Place) string {
	return strings.Join(strings.Fields(p.DB+" "+p.Blobs), " + ")
}

// migrateVerifyCommand returns the command `migrate verify`: start a full comparison of both sides;
// status shows the result.
func (a *adminCLI) migrateVerifyCommand() *cobra.Command {
	percent := 0
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Start a full comparison of both sides; status shows the result",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.runStep(cmd, rest.MigrationVerify, rest.MigrationBody{Percent: percent})
		},
	}
	cmd.Flags().IntVar(&percent, "contents", 0, "percentage of contents to read and verify on the new side; the existence of all is checked in any case")
	return cmd
}

// migratePercentCommand returns the command `migrate percent N [--user NAME]...`: phase 3: read N
// percent of the accounts, and those of the named users, from the new side.
func (a *adminCLI) migratePercentCommand() *cobra.Command {
	var users []string
	cmd := &cobra.Command{
		Use:     "percent N [--user NAME]...",
		Short:   "Phase 3: read N percent of the accounts, and those of the named users, from the new side",
		Example: "  smartdrive migrate percent 0 --user alice --user bob\n  smartdrive migrate percent 50\n  smartdrive migrate percent 50 --user ''",
		Args:    usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := strconv.Atoi(args[0])
			if err != nil {
				return usageError(cmd, fmt.Errorf("%q is not a number", args[0]))
			}
			in := rest.MigrationBody{Percent: n}
			if cmd.Flags().Changed("user") {
				named := slices.DeleteFunc(users, func(name string) bool { return name == "" })
				in.Users = &named
			}
			return a.runStep(cmd, rest.MigrationPercent, in)
		},
	}
	cmd.Flags().StringArrayVar(&users, "user", nil, "a user whose account reads from the new side whatever the percentage; may be repeated, replaces those named before, and '' names nobody")
	return cmd
}

// migrateStepCommand returns `smartdrive migrate STEP` without flags of its own; short is its
// one-line help.
func (a *adminCLI) migrateStepCommand(step rest.MigrationStep, short string) *cobra.Command {
	return &cobra.Command{
		Use:   string(step),
		Short: short,
		Args:  usageArgs(cobra.NoArgs),
		RunE:  func(cmd *cobra.Command, _ []string) error { return a.runStep(cmd, step, rest.MigrationBody{}) },
	}
}

// runStep executes a migration step and prints the resulting state. It fails if the server refuses
// the step.
func (a *adminCLI) runStep(cmd *cobra.Command, step rest.MigrationStep, in rest.MigrationBody) error {
	return a.withConnection(cmd.Context(), func(c *connection) error {
		var raw json.RawMessage
		// If the reply is lost and the request sent again, it names the phase to leave, so
		// that the next phase is not left as well.
		if step == rest.MigrationAdvance || step == rest.MigrationRollback {
			var now migrate.Status
			if err := c.call(cmd.Context(), http.MethodGet, migrationRoute, nil, &now); err != nil {
				return err
			}
			phase := int(now.Phase)
			in.Phase = &phase
		}
		if err := c.call(cmd.Context(), http.MethodPost, migrationRoute+"/"+string(step), in, &raw); err != nil {
			return err
		}
		return show(a, raw, migrationText)
	})
}

// migrateMismatchesCommand returns the command `migrate mismatches`: list differences between the
// two sides, the latest first.
func (a *adminCLI) migrateMismatchesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "mismatches",
		Short: "List differences between the two sides, the latest first",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withConnection(cmd.Context(), func(c *connection) error {
				return c.eachItem(cmd.Context(), migrationRoute+"/mismatches", func(raw json.RawMessage) error {
					return show(a, raw, func(m migrate.Mismatch) string {
						return mismatchText(m)
					})
				})
			})
		},
	}
}
