package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"example.org/smartdrive/client"
)

// newBundlesCommand returns the command `bundles`: list bundles of documents that others sent.
func newBundlesCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bundles",
		Short: "List bundles of documents that others sent",
		Long: `List and show the bundles of documents that others sent into /intake, and the result for each document. A rejected bundle can be
tried again when the cause is gone.`,
		Args: cobra.NoArgs,
		RunE: showHelp,
	}
	b := bundleCommands{c}
	c.addCommands(cmd, b.ls(), b.show(), b.retry(), b.rejected(), b.accept(), b.strays())
	return cmd
}

// bundleCommands are the commands about bundles.
type bundleCommands struct{ *cli }

// nonEmptyFlags returns the flags that are not empty as query parameters.
func nonEmptyFlags(flags map[string]*string) url.Values {
	query := url.Values{}
	for name, value := range flags {
		if *value != "" {
			query.Set(name, *value)
		}
	}
	return query
}

// showBundle prints b as one line, or v with --json.
func (c bundleCommands) showBundle(v any, b client.Bundle) error {
	var line strings.Builder
	fmt.Fprintf(&line, "%s  %-8s  %s  %d of %d accepted", b.ID, b.State, b.Source, b.Accepted, b.Declared)
	for _, part := range []struct {
		n    int64
		what string
	}{{b.Rejected, "rejected"}, {b.Duplicate, "duplicate"}, {b.Conflict, "in conflict"}, {b.Surplus, "beyond the promise"}} {
		if part.n > 0 {
			fmt.Fprintf(&line, ", %d %s", part.n, part.what)
		}
	}
	if b.Reason != "" {
		line.WriteString("  " + b.Reason)
	}
	if b.Detail != "" {
		line.WriteString(": " + b.Detail)
	}
	return c.cli.show(v, "%s", line.String())
}

// ls returns `smartdrive bundles ls`, which lists bundles, newest first.
func (c bundleCommands) ls() *cobra.Command {
	var source, state string
	cmd := &cobra.Command{
		Use: "ls", Short: "List bundles, the newest first", Args: cobra.NoArgs,
		Example: `  smartdrive bundles ls --state rejected`,
		RunE: c.withClient(func(ctx context.Context, api *client.Client, _ []string) error {
			for b, err := range api.AllBundles(ctx, nonEmptyFlags(map[string]*string{"source": &source, "state": &state})) {
				if err == nil {
					err = c.showBundle(b, b)
				}
				if err != nil {
					return err
				}
			}
			return nil
		}),
	}
	cmd.Flags().StringVar(&source, "source", "", "only bundles of this source")
	cmd.Flags().StringVar(&state, "state", "", "only in this state: sealed, running, done, rejected")
	return cmd
}

// show returns the command `show ID`: show a bundle, its members, and what was not accepted.
func (c bundleCommands) show() *cobra.Command {
	var everything bool
	cmd := &cobra.Command{
		Use: "show ID", Short: "Show a bundle, its members, and what was not accepted", Args: cobra.ExactArgs(1),
		RunE: c.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			b, err := api.Bundle(ctx, args[0])
			if err != nil {
				return err
			}
			if err := c.showBundle(b, b.Bundle); err != nil {
				return err
			}
			for _, m := range b.Members {
				if c.json {
					break // the JSON object contains them
				}
				if err := c.cli.show(m, "  %-8s  %s  %d bytes, %d documents  %s", m.State, m.Name, m.Size, m.Documents, m.Reason); err != nil {
					return err
				}
			}
			for r, err := range api.AllBundleRecords(ctx, b.ID, "") {
				if err != nil {
					return err
				}
				if r.Outcome == "accepted" && !everything {
					continue
				}
				if err := c.showRecord(r); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&everything, "all", false, "also documents that were accepted")
	return cmd
}

// showRecord prints a record of a bundle with its findings.
func (c bundleCommands) showRecord(r client.BundleRecord) error {
	var line strings.Builder
	fmt.Fprintf(&line, "  %-9s  %s  %s:%d  %s", r.Outcome, r.Place, r.Member, r.Index, r.Number)
	if r.Count > 1 {
		fmt.Fprintf(&line, "  %d documents", r.Count)
	}
	line.WriteString("  " + r.Reason)
	if !c.json {
		for _, f := range r.Findings {
			fmt.Fprintf(&line, "\n      %s", findingText(f))
		}
	}
	return c.cli.show(r, "%s", line.String())
}

// findingText formats a finding, with its place on a second line.
func findingText(f client.Finding) string {
	text := fmt.Sprintf("%s %s: %s", f.Severity, f.Rule, f.Text)
	if f.Expected != "" || f.Found != "" {
		text += fmt.Sprintf(" (expected %s, found %s)", f.Expected, f.Found)
	}
	if f.Place != "" {
		text += "\n        " + f.Place
		if f.Line > 0 { // without a place, print the line
			text += fmt.Sprintf(", line %d", f.Line)
		}
	}
	return text
}

// rejected returns the command `rejected`: list documents of all bundles that were not accepted,
// and why.
func (c bundleCommands) rejected() *cobra.Command {
	flags := map[string]*string{}
	var format string
	cmd := &cobra.Command{
		Use: "rejected", Short: "List documents of all bundles that were not accepted, and why", Args: cobra.NoArgs,
		Example: `  smartdrive bundles rejected --source acme
  smartdrive bundles rejected --reason invalid --lang de --format csv > rejected.csv`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if format != "" && format != "csv" {
				return usageError(cmd, errors.New("--format is csv"))
			}
			api, err := c.connect()
			if err != nil {
				return err
			}
			if format != "" {
				return api.WriteRejections(cmd.Context(), c.out, nonEmptyFlags(flags))
			}
			return showAll(api.AllRejections(cmd.Context(), nonEmptyFlags(flags)), func(r client.Rejection) error {
				if c.json {
					return c.cli.show(r, "")
				}
				if err := c.cli.show(r, "%s  %s", r.Bundle, r.Source); err != nil {
					return err
				}
				return c.showRecord(r.BundleRecord)
			})
		},
	}
	for _, f := range [][2]string{{"source", "only of this source"}, {"reason", "only with this reason, such as invalid"}, {"lang", "language of the findings: en, de or zh-CN"}} {
		flags[f[0]] = cmd.Flags().String(f[0], "", f[1])
	}
	cmd.Flags().StringVar(&format, "format", "", "csv: a line for each finding")
	return cmd
}

// accept returns the command `accept BUNDLE PLACE --reason WHY`: accept a rejected document despite
// broken rules.
func (c bundleCommands) accept() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "accept BUNDLE PLACE --reason WHY", Short: "Accept a rejected document despite broken rules", Args: cobra.ExactArgs(2),
		Long: `Accept a document that was rejected because it breaks rules, or because the rules of its source do not want it. PLACE is what
"bundles rejected" and "bundles show" print before the file. The record keeps who accepted it, when and why.`,
		Example: `  smartdrive bundles accept 01a1fde0-0684-7632-9c57-826c40f6dcdf 1.3 --reason "the seller was asked"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if reason == "" {
				return usageError(cmd, errors.New("--reason is missing"))
			}
			api, err := c.connect()
			if err != nil {
				return err
			}
			r, err := api.AcceptAnyway(cmd.Context(), args[0], args[1], reason)
			if err != nil {
				return err
			}
			return c.showRecord(r)
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why it is accepted")
	return cmd
}

// strayAdvice maps the reason of a stray to an explanation and advice.
var strayAdvice = map[string]string{
	"loose-file":  "a file outside of a bundle's folder: send it with \"smartdrive agent\", or let the source take in files without a manifest",
	"no-manifest": "a folder without meta.json: send meta.json last, or let the source take in files without a manifest",
	"folder-name": "it has meta.json, and its name is no UUIDv7: rename the folder to the id in meta.json",
	"too-deep":    "it lies too deep: move it to /intake/SOURCE/ID",
	"source-name": "no source can have this name: rename the folder",
}

// strays returns the command `strays`: list files below /intake that are not processed, and what to
// do.
func (c bundleCommands) strays() *cobra.Command {
	return &cobra.Command{
		Use: "strays", Short: "List files below /intake that are not processed, and what to do", Args: cobra.NoArgs,
		RunE: c.withClient(func(ctx context.Context, api *client.Client, _ []string) error {
			return showAll(api.AllStrays(ctx), func(s client.Stray) error {
				return c.cli.show(s, "%s  files: %d, changed %s\n      %s", s.Path, s.Files, s.ChangedAt.Local().Format("2006-01-02 15:04"), cmp.Or(strayAdvice[s.Reason], s.Reason))
			})
		}),
	}
}

// retry returns the command `retry ID...`: try rejected bundles again.
func (c bundleCommands) retry() *cobra.Command {
	return &cobra.Command{
		Use: "retry ID...", Short: "Try rejected bundles again", Args: cobra.MinimumNArgs(1),
		RunE: c.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			return c.each(ctx, args, func(arg string) error {
				b, err := api.RetryBundle(ctx, arg)
				if err != nil {
					return err
				}
				return c.showBundle(b, b)
			})
		}),
	}
}
