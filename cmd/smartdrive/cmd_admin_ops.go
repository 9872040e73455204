package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"example.org/smartdrive/client"
	"example.org/smartdrive/internal/app"
)

// uploadsCommand returns the command `admin uploads`: list the open uploads of all users, or of
// one.
func (a *adminCLI) uploadsCommand() *cobra.Command {
	user := ""
	cmd := &cobra.Command{
		Use:   "uploads",
		Short: "List the open uploads of all users, or of one",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			list := func(c *connection, path string) error {
				return c.eachItem(cmd.Context(), path, func(raw json.RawMessage) error {
					return show(a, raw, func(u client.Upload) string {
						return fmt.Sprintf("%s  %-8s until %s  %s", u.ID, u.State, timeText(u.ExpiresAt.Time), u.Path)
					})
				})
			}
			if user == "" {
				return a.withConnection(cmd.Context(), func(c *connection) error { return list(c, apiPath+"/admin/uploads") })
			}
			return a.withUser(cmd.Context(), user, func(c *connection, u client.User) error {
				return list(c, withQuery(apiPath+"/admin/uploads", "account", u.AccountID))
			})
		},
	}
	cmd.Flags().StringVar(&user, "user", "", "only uploads of this user")
	cmd.AddCommand(a.resetCommand())
	return cmd
}

// resetCommand returns the command `admin uploads reset`: cancel open uploads and delete their
// bytes.
func (a *adminCLI) resetCommand() *cobra.Command {
	user, all := "", false
	cmd := &cobra.Command{
		Use:   "reset",
		Short: "Cancel open uploads and delete their bytes",
		Long:  "Cancel all open uploads of one user, or of all users, delete their bytes and release what they were charged.",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if (user == "") == !all {
				return usageError(cmd, errors.New("give either --user or --all"))
			}
			return a.withConnection(cmd.Context(), func(c *connection) error {
				var out app.ResetResult
				if err := c.call(cmd.Context(), http.MethodPost, app.RouteReset, app.ResetRequest{User: user}, &out); err != nil {
					return err
				}
				return a.printDone(out, "%d uploads given up", out.Reclaimed)
			})
		},
	}
	cmd.Flags().StringVar(&user, "user", "", "uploads of this user")
	cmd.Flags().BoolVar(&all, "all", false, "uploads of all users")
	return cmd
}

// timersCommand returns `smartdrive admin timers` with the subcommand show.
func (a *adminCLI) timersCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "timers", Short: "Show delayed tasks", Args: usageArgs(cobra.NoArgs), RunE: showHelp}
	cmd.AddCommand(&cobra.Command{
		Use:     "show KEY",
		Short:   "Show one timer: its purpose, its due time, and its trace after it has fired",
		Example: "  smartdrive admin timers show park/0198c0de-0000-7000-8000-000000000000",
		Args:    usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withConnection(cmd.Context(), func(c *connection) error {
				var raw json.RawMessage
				if err := c.call(cmd.Context(), http.MethodGet, apiPath+"/admin/timers/"+args[0], nil, &raw); err != nil {
					return err
				}
				return show(a, raw, timerText)
			})
		},
	})
	return cmd
}

// timerText formats a timer and its trace, one step per line; raw itself if it has another form.
func timerText(raw json.RawMessage) string {
	var way struct {
		Pending bool
		Trace   []struct {
			At, Began              time.Time
			Gen                    int64
			Step, Instance, Reason string
			PushBacks              *int64    `json:"push_backs"`
			LastPushBack           time.Time `json:"last_push_back"`
			Shard, Slice           string
		}
	}
	var facts map[string]json.RawMessage
	if json.Unmarshal(raw, &way) != nil || json.Unmarshal(raw, &facts) != nil || facts["trace"] == nil {
		return string(raw)
	}
	delete(facts, "trace")
	text, err := json.Marshal(facts)
	if err != nil {
		return string(raw)
	}
	lines := []string{string(text)}
	for _, s := range way.Trace {
		line := fmt.Sprintf("%s  gen %d  %-9s  %6d ms  instance %s", s.At.UTC().Format("2006-01-02 15:04:05.000"), s.Gen, s.Step, s.At.Sub(s.Began).Milliseconds(), s.Instance)
		if s.PushBacks != nil {
			line += fmt.Sprintf("  %d push-backs", *s.PushBacks)
			if !s.LastPushBack.IsZero() {
				line += ", the last at " + s.LastPushBack.UTC().Format("15:04:05.000")
			}
			line += "  shard " + cmp.Or(s.Shard, "-") + "  slice " + cmp.Or(s.Slice, "-")
		}
		lines = append(lines, strings.TrimSpace(line+"  "+s.Reason))
	}
	return strings.Join(lines, "\n")
}

// finding is an inconsistency reported by an audit.
type finding struct {
	Invariant string `json:"invariant"`
	Subject   string `json:"subject"`
	Expected  string `json:"expected"`
	Found     string `json:"found"`
	Repaired  bool   `json:"repaired"`
}

// String returns the finding as one line.
func (f finding) String() string {
	end := ""
	if f.Repaired {
		end = " (repaired)"
	}
	return fmt.Sprintf("%-4s %s: expected %s, found %s%s", f.Invariant, f.Subject, f.Expected, f.Found, end)
}

// auditCommand returns the command `admin audit`: list audit findings, the newest first.
func (a *adminCLI) auditCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "audit",
		Short: "List audit findings, the newest first",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withConnection(cmd.Context(), func(c *connection) error {
				return c.eachItem(cmd.Context(), apiPath+"/admin/findings", func(raw json.RawMessage) error {
					return show(a, raw, finding.String)
				})
			})
		},
	}
}

// dlqCommand returns the command `admin dlq`: inspect messages whose handler failed for good, and
// replay them.
func (a *adminCLI) dlqCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "dlq", Short: "Inspect messages whose handler failed for good, and replay them", Args: usageArgs(cobra.NoArgs), RunE: showHelp,
	}
	cmd.AddCommand(
		a.letterCommand("ls", "List dead letters", cobra.NoArgs, func(cmd *cobra.Command, c *connection, _ string) error {
			return c.eachItem(cmd.Context(), lettersPath, func(raw json.RawMessage) error { return show(a, raw, deadLetter.String) })
		}),
		a.letterCommand("show ID", "Show one dead letter", cobra.ExactArgs(1), func(cmd *cobra.Command, c *connection, path string) error {
			var raw json.RawMessage
			if err := c.call(cmd.Context(), http.MethodGet, path, nil, &raw); err != nil {
				return err
			}
			return show(a, raw, deadLetter.full)
		}),
		a.replayCommand(),
		a.letterCommand("drop ID", "Delete a dead letter", cobra.ExactArgs(1), func(cmd *cobra.Command, c *connection, path string) error {
			return c.call(cmd.Context(), http.MethodDelete, path, nil, nil)
		}),
	)
	return cmd
}

// deadLetter is a message whose handler failed for good.
type deadLetter struct {
	ID       string          `json:"id"`
	Consumer string          `json:"consumer"` // the failed consumer, which gets a replayed message
	Topic    string          `json:"topic"`
	Failures int             `json:"failures"`
	Code     string          `json:"code"`
	Error    string          `json:"error"`
	DiedAt   time.Time       `json:"died_at"`
	Event    json.RawMessage `json:"event"`
}

// String returns the dead letter as one line, without its event.
func (d deadLetter) String() string {
	return fmt.Sprintf("%-6s %s  %-12s %-10s %d failures  %s: %s", d.ID, timeText(d.DiedAt), d.Consumer, d.Topic, d.Failures, d.Code, d.Error)
}

// full returns the line and the event of the dead letter.
func (d deadLetter) full() string { return d.String() + "\n" + string(d.Event) }

// replayPage is how many dead letters one request replays.
const replayPage = 1000

// deadLetterFilter selects dead letters. Empty fields match all.
type deadLetterFilter struct{ code, consumer string }

// matches reports whether the filter selects d; an empty field selects all.
func (f deadLetterFilter) matches(d deadLetter) bool {
	return (f.code == "" || d.Code == f.code) && (f.consumer == "" || d.Consumer == f.consumer)
}

// replayCommand returns the command `admin dlq replay [ID...]`: pass dead letters to their handlers
// again.
func (a *adminCLI) replayCommand() *cobra.Command {
	var filter deadLetterFilter
	cmd := &cobra.Command{
		Use:     "replay [ID...]",
		Short:   "Pass dead letters to their handlers again",
		Long:    "Pass dead letters to their handlers again: those with these ids, or all that failed for one reason or at one consumer.",
		Example: "  smartdrive admin dlq replay 17 18\n  smartdrive admin dlq replay --reason unavailable --consumer ingest",
		RunE: func(cmd *cobra.Command, ids []string) error {
			if (len(ids) == 0) == (filter == deadLetterFilter{}) {
				return usageError(cmd, errors.New("give either ids, or --reason or --consumer"))
			}
			return a.withConnection(cmd.Context(), func(c *connection) error { return a.replay(cmd, c, ids, filter) })
		},
	}
	cmd.Flags().StringVar(&filter.code, "reason", "", "all with this code, as \"dlq ls\" shows it")
	cmd.Flags().StringVar(&filter.consumer, "consumer", "", "all of this consumer")
	return cmd
}

// replay replays the given or selected dead letters. It lists them all first, so that a letter that
// fails again is not replayed forever.
func (a *adminCLI) replay(cmd *cobra.Command, c *connection, ids []string, filter deadLetterFilter) error {
	if len(ids) == 0 {
		err := c.eachItem(cmd.Context(), lettersPath, func(raw json.RawMessage) error {
			var d deadLetter
			if err := json.Unmarshal(raw, &d); err != nil {
				return err
			}
			if filter.matches(d) {
				ids = append(ids, d.ID)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	var sum struct {
		Asked    int `json:"asked"`
		Replayed int `json:"replayed"`
	}
	sum.Asked = len(ids)
	for page := range slices.Chunk(ids, replayPage) {
		var out struct{ Replayed int }
		if err := c.call(cmd.Context(), http.MethodPost, lettersPath+"/replay", map[string][]string{"ids": page}, &out); err != nil {
			return err
		}
		sum.Replayed += out.Replayed
	}
	if len(ids) == 1 && sum.Replayed == 0 {
		return withCode(exitNotFound, fmt.Errorf("there is no dead letter %s", ids[0]))
	}
	return a.printDone(sum, "%d of %d dead letters replayed", sum.Replayed, sum.Asked)
}

// lettersPath is the API path of dead letters.
const lettersPath = apiPath + "/admin/dead-letters"

// letterCommand returns a command that calls act with the path of the dead letter named by its
// argument, or of all dead letters without one.
func (a *adminCLI) letterCommand(use, short string, args cobra.PositionalArgs,
	act func(cmd *cobra.Command, c *connection, path string) error,
) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: usageArgs(args),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := lettersPath
			if len(args) > 0 {
				path += "/" + url.PathEscape(args[0])
			}
			return a.withConnection(cmd.Context(), func(c *connection) error { return act(cmd, c, path) })
		},
	}
}
