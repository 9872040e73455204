package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"example.org/smartdrive/client/agent"
)

// agentFlags are the flags of the agent command.
type agentFlags struct {
	opt     agent.Options
	maxSize string
	once    bool
	format  string
}

// newAgentCommand returns the command `agent --watch DIR --to /intake/SOURCE`: watch a directory
// and send its documents in bundles.
func newAgentCommand(c *cli) *cobra.Command {
	var f agentFlags
	cmd := &cobra.Command{
		Use:   "agent --watch DIR --to /intake/SOURCE",
		Short: "Watch a directory and send its documents in bundles",
		Long: `Watch a directory where other programs drop documents. Complete files are frozen in a bundle, uploaded, sealed with meta.json,
and then moved to DIR/sent/. Files that can never be sent go to DIR/failed/ with a REASON.txt.

A file is complete when it has been unchanged for --settle, or with --marker when NAME.ok exists. Files of one directory
whose names are equal up to the last dot go together. Hidden names, names of temporary files (.tmp, .part, ~ and others) and
empty files are not taken. The agent may be killed at any time: nothing is sent twice and nothing is lost.`,
		Example: `  smartdrive agent --watch /srv/invoices --to /intake/erp
  smartdrive agent --watch /srv/invoices --to /intake/erp --once
  smartdrive agent status /srv/invoices`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.agent(cmd, f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.opt.Dir, "watch", "", "directory to watch")
	flags.StringVar(&f.opt.To, "to", "", "destination of the bundles, /intake/SOURCE")
	flags.DurationVar(&f.opt.Every, "every", 5*time.Minute, "maximum time a complete file waits for others")
	flags.DurationVar(&f.opt.Settle, "settle", 10*time.Second, "how long a file must be unchanged before it counts as complete")
	flags.StringVar(&f.maxSize, "max-size", "32MiB", "maximum size of a bundle; files that belong together are not split")
	flags.IntVar(&f.opt.MaxFiles, "max-files", 1000, "maximum number of files in a bundle, at most 5000")
	flags.StringVar(&f.opt.Marker, "marker", "", "suffix of marker files, which say that another file is complete, such as .ok")
	flags.StringArrayVar(&f.opt.Ignore, "ignore", nil, "names that are not taken, such as 'draft-*'; may be given more than once")
	flags.BoolVar(&f.once, "once", false, "send what is there and exit, for cron")
	flags.DurationVar(&f.opt.VerdictTimeout, "outcomes", 5*time.Minute, "with --once: how long to wait for what became of the documents; 0: not at all")
	flags.StringVar(&f.format, "log-format", "text", "text or json")
	c.addCommands(cmd, c.agentStatus(), newAgentBucketCommand(c))
	return cmd
}

// agentRetryFor is how long a single call of the agent retries; short, because the agent itself
// waits and reports.
const agentRetryFor = 3 * time.Second

// agent completes the flags of an agent, connects and runs it. It fails with a usage error for an
// invalid flag.
func (c *cli) agent(cmd *cobra.Command, f agentFlags) (err error) {
	if f.opt.Dir == "" {
		return usageError(cmd, errors.New("--watch DIR is missing"))
	}
	if f.opt.MaxSize, err = parseSize(f.maxSize); err != nil {
		return usageError(cmd, fmt.Errorf("--max-size: %w", err))
	}
	if err := f.opt.Check(); err != nil {
		return usageError(cmd, err)
	}
	switch f.format {
	case "text":
		f.opt.Log = slog.New(slog.NewTextHandler(c.err, nil))
	case "json":
		f.opt.Log = slog.New(slog.NewJSONHandler(c.err, nil))
	default:
		return usageError(cmd, fmt.Errorf("--log-format: %q is neither text nor json", f.format))
	}
	c.retryFor = agentRetryFor
	c.retryNoticed.Store(true) // the agent reports retries itself
	if f.opt.Client, err = c.connect(); err != nil {
		return err
	}
	f.opt.Renew = c.connect
	return c.runAgent(cmd, f)
}

// runAgent runs an agent until interrupted, or with --once one pass, after which it prints the
// status. It fails with exitConflict if another agent watches the directory and exitPartial if
// documents were not sent or accepted.
func (c *cli) runAgent(cmd *cobra.Command, f agentFlags) error {
	a, err := agent.Open(f.opt)
	if _, busy := errors.AsType[*agent.BusyError](err); busy {
		return withCode(exitConflict, err)
	}
	if err != nil {
		return err
	}
	if !f.once {
		return errors.Join(a.Run(cmd.Context()), a.Close())
	}
	err = errors.Join(a.RunOnce(cmd.Context()), a.Close())
	if s, readErr := agent.ReadStatus(f.opt.Dir); readErr == nil && cmd.Context().Err() == nil {
		err = errors.Join(err, c.showAgent(s))
	}
	if errors.Is(err, agent.ErrUnsent) || errors.Is(err, agent.ErrRejected) || errors.Is(err, agent.ErrNoVerdict) {
		return withCode(exitPartial, err)
	}
	return err
}

// agentStatus returns the command `status [DIR]`: show the state of an agent: documents waiting,
// being sent, sent, failed.
func (c *cli) agentStatus() *cobra.Command {
	var check bool
	cmd := &cobra.Command{
		Use:   "status [DIR]",
		Short: "Show the state of an agent: documents waiting, being sent, sent, failed",
		Long: `Show the state of the agent of a directory, whether it runs or not: files that wait or are being sent, files that are not taken
and why, and the results of the last bundles. If some of them are not known here, the server is asked.

With --check it also says in words what needs somebody, and the exit code is 7 if anything does: the agent does not run or makes no
progress, files are not taken or are in failed/, or the server has not accepted all of the last bundles.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := "."
			if len(args) > 0 {
				dir = args[0]
			}
			s, err := agent.ReadStatus(dir)
			if err != nil {
				return err
			}
			loadVerdicts(cmd.Context(), c, &s)
			if err := c.showAgent(s); err != nil {
				return err
			}
			if !check {
				return nil
			}
			return concerns(c, s)
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "exit with 7 if somebody has to act")
	return cmd
}

// errAgent reports that an agent needs a person.
var errAgent = errors.New("the agent needs somebody to look at it")

// loadVerdicts adds verdicts from the server to a status if the user is logged in and online.
func loadVerdicts(ctx context.Context, c *cli, s *agent.Status) {
	c.retryFor = agentRetryFor
	c.retryNoticed.Store(true) // do not report retries
	api, err := c.connect()
	if err != nil || api.BaseURL() != s.Server {
		return
	}
	_ = s.LoadVerdicts(ctx, api) // unknown verdicts stay open
}

// concerns prints what needs a person and returns errAgent if there is anything.
func concerns(c *cli, s agent.Status) error {
	all := s.Concerns()
	if len(all) == 0 {
		return nil
	}
	for _, text := range all {
		if err := printVisible(c.err, "look at this: %s\n", text); err != nil {
			return err
		}
	}
	return withCode(exitPartial, errAgent)
}

// showAgent prints the status of an agent, as JSON with --json.
func (c *cli) showAgent(s agent.Status) error {
	if c.json {
		return c.writeJSON(s)
	}
	line := func(name, format string, args ...any) {
		_ = printVisible(c.out, "%-13s %s\n", name, fmt.Sprintf(format, args...)) // a write error recurs in the next line
	}
	line("directory", "%s", s.Dir)
	if s.To != "" {
		line("to", "%s at %s", s.To, s.Server)
	}
	if s.Running {
		line("agent", "running, process %d", s.PID)
	} else {
		line("agent", "not running")
	}
	line("waiting", "%s, and %s complete", amountText(s.Waiting), amountText(s.Ready))
	if x := s.Sending; x != nil {
		line("on its way", "%s: %s, %d of %d files, %s of %s, %d documents, %d tries failed", x.ID, x.Stage, x.FilesSent, x.Files,
			sizeText(x.BytesSent), sizeText(x.Bytes), x.Documents, x.Tries)
	}
	if s.Moving > 0 {
		line("to be moved", "%d files that were dealt with", s.Moving)
	}
	t := s.Totals
	line("sent", "%d bundles, %d files, %d documents, %s", t.Bundles, t.Files, t.Documents, sizeText(t.Bytes))
	line("failed", "%d files, of which %d are still in failed/", t.Failed, s.Failed)
	line("last contact", "%s", timeText(s.Contact))
	if s.Error != "" {
		line("trouble", "%s", s.Error)
		if !s.NextTry.IsZero() {
			line("", "next try %s", timeText(s.NextTry))
		}
	}
	for _, h := range s.Held {
		line("not taken", "%q: %s", h.Path, h.Reason)
	}
	return c.showEnded(s.Bundles)
}

// maxShown is how many ended bundles are printed; --json prints all.
const maxShown = 10

// showEnded prints the last bundles of an agent, at most maxShown.
func (c *cli) showEnded(all []agent.BundleResult) error {
	for _, e := range all[:min(len(all), maxShown)] {
		text := fmt.Sprintf("%s  %-8s  %s  %d files, %d documents, %s", timeText(e.At), e.Outcome, e.ID, e.Files, e.Documents, sizeText(e.Size))
		if e.Reason != "" {
			text += "; " + e.Reason
		}
		if v := e.Verdict; v != nil {
			text += fmt.Sprintf("; %s: %d accepted, %d rejected, %d duplicate, %d in conflict", v.State, v.Accepted, v.Rejected, v.Duplicate, v.Conflict)
			if v.Reason != "" {
				text += " (" + v.Reason + ")"
			}
		}
		if err := printVisible(c.out, "%s\n", text); err != nil {
			return err
		}
	}
	return nil
}

// amountText formats a number of files and their bytes.
func amountText(a agent.FileCount) string {
	return fmt.Sprintf("%d files (%s)", a.Files, sizeText(a.Bytes))
}
