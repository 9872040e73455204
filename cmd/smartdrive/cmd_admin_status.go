package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"example.org/smartdrive/internal/app"
	"example.org/smartdrive/internal/base/telemetry"
	"example.org/smartdrive/internal/domain/growth"
	"example.org/smartdrive/internal/engine/timer"
	"example.org/smartdrive/internal/head/rest"
)

// statusCommand returns the command `admin status`: show instances, leases, pending timers, and
// consumers that are behind.
func (a *adminCLI) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show instances, leases, pending timers, and consumers that are behind",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var raw json.RawMessage
			if stopped, ok, err := a.stoppedStatus(cmd.Context()); err != nil {
				return withCode(exitFailed, err)
			} else if ok {
				if raw, err = json.Marshal(stopped); err != nil {
					return err
				}
				return show(a, raw, statusText)
			}
			return a.withConnection(cmd.Context(), func(c *connection) error {
				if err := c.call(cmd.Context(), http.MethodGet, apiPath+"/admin/status", nil, &raw); err != nil {
					return err
				}
				return show(a, raw, statusText)
			})
		},
	}
}

// stoppedStatus returns the status of the configured installation while no server runs (see
// app.StoppedStatus, also for the bool). It fails if the settings are invalid.
func (a *adminCLI) stoppedStatus(ctx context.Context) (rest.Status, bool, error) {
	cfg, err := a.config()
	if err != nil {
		return rest.Status{}, false, err
	}
	log, err := telemetry.NewLogger(a.err, slog.LevelWarn, telemetry.FormatText)
	if err != nil {
		return rest.Status{}, false, err
	}
	return app.StoppedStatus(ctx, cfg, log)
}

// statusText formats the server's status, one line per topic; the lines are not localized.
func statusText(s rest.Status) string {
	lines := []string{fmt.Sprintf("installation %s, %s", s.Installation, s.Mode)}
	if s.Restored {
		lines = append(lines, `a backup was restored: nothing is deleted before "smartdrive admin fsck" is clean and the server is started again`)
	}
	holders := map[int64][]string{}
	for _, l := range s.Leases {
		holders[l.Generation] = append(holders[l.Generation], l.Name)
	}
	for _, in := range s.Instances {
		state := "dead"
		if in.Alive {
			state = "alive"
		}
		line := fmt.Sprintf("instance %d  %-5s  %s  %s  %s", in.Generation, state, in.Roles, in.Host, in.Version)
		if does := holders[in.Generation]; len(does) > 0 {
			line += "  holds " + strings.Join(does, ", ")
		}
		lines = append(lines, line)
	}
	for _, kind := range timer.Kinds() {
		if h, ok := s.Timers[kind.String()]; ok {
			lines = append(lines, fmt.Sprintf("timers %-9s  %d within a minute, %d an hour, %d a day, %d later, %d at work",
				kind, h.Minute, h.Hour, h.Day, h.More, h.Leased))
		}
	}
	for _, l := range s.Consumers {
		lines = append(lines, fmt.Sprintf("consumer %s of %s  %d behind, %d waiting", l.Consumer, l.Topic, l.Behind, l.Waiting))
	}
	if s.Unsent != nil {
		lines = append(lines, fmt.Sprintf("unsent  %d records, the oldest for %s", s.Unsent.Records, time.Duration(s.Unsent.OldestMs)*time.Millisecond))
	}
	if b := s.Backup; b != nil {
		lines = append(lines, fmt.Sprintf("backup  %s, %d contents, %d missing, %d damaged", b.TakenAt, b.Contents, b.Missing, b.Damaged))
	}
	for _, part := range slices.Sorted(slices.Values(s.Failing)) {
		lines = append(lines, "not known just now: "+part)
	}
	return strings.Join(lines, "\n")
}

// growthCommand returns the command `admin growth`: show charged bytes and free disk space per day.
func (a *adminCLI) growthCommand() *cobra.Command {
	days := 30
	cmd := &cobra.Command{
		Use:     "growth",
		Short:   "Show charged bytes and free disk space per day",
		Example: "  smartdrive admin growth --days 365",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withConnection(cmd.Context(), func(c *connection) error {
				var growth struct{ Days []json.RawMessage }
				if err := c.call(cmd.Context(), http.MethodGet, withQuery(apiPath+"/admin/growth", "days", strconv.Itoa(days)), nil, &growth); err != nil {
					return err
				}
				for _, day := range growth.Days {
					if err := show(a, day, dayText); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().IntVar(&days, "days", days, "how many days, today among them; at most 3660")
	return cmd
}

// dayText formats the growth figures of one day.
func dayText(d growth.Day) string {
	text := fmt.Sprintf("%s  %10s in files, %10s in unfinished uploads, %d accounts", d.Day, sizeText(int64(d.Finished)), sizeText(int64(d.Unfinished)), d.Accounts)
	if d.Free != nil {
		text += fmt.Sprintf(", %s free", sizeText(int64(*d.Free)))
	}
	return text
}
