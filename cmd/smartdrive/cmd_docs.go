package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"example.org/smartdrive/client"
)

// newDocsCommand returns the command `docs`: list and export documents that came in bundles.
func newDocsCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "docs",
		Short: "List and export documents that came in bundles",
		Long: `List, show and export the invoices that others sent into /intake. If two documents with the same seller, number and date
differ, somebody has to decide which one is true.`,
		Args: cobra.NoArgs,
		RunE: showHelp,
	}
	d := documentCommands{c}
	c.addCommands(cmd, d.ls(), d.totals(), d.show(), d.conflicts(), d.settle())
	return cmd
}

// documentCommands are the commands about documents.
type documentCommands struct{ *cli }

// showDocument prints a document as one line.
func (c documentCommands) showDocument(d client.Document) error {
	line := fmt.Sprintf("%s  %s  %s  %s %s  %s -> %s", d.ID, d.Date, d.Number, d.Total, d.Currency, d.Seller.Name, d.Buyer.Name)
	if d.State != "accepted" {
		line += "  " + d.State
	}
	return c.cli.show(d, "%s", line)
}

// ls returns `smartdrive docs ls`, which lists documents, newest date first, or streams all with
// --format.
func (c documentCommands) ls() *cobra.Command {
	flags := map[string]*string{}
	var format string
	cmd := &cobra.Command{
		Use: "ls", Short: "List documents, the newest date first", Args: cobra.NoArgs,
		Example: `  smartdrive docs ls --month 2026-10
  smartdrive docs ls --seller DE123456789 --min 1000 --format csv > documents.csv`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if format != "" && format != "csv" && format != "ndjson" {
				return usageError(cmd, errors.New("--format is csv or ndjson"))
			}
			api, err := c.connect()
			if err != nil {
				return err
			}
			if format != "" {
				return api.WriteDocuments(cmd.Context(), c.out, format, nonEmptyFlags(flags))
			}
			for d, err := range api.AllDocuments(cmd.Context(), nonEmptyFlags(flags)) {
				if err == nil {
					err = c.showDocument(d)
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	documentFlags(cmd, flags)
	cmd.Flags().StringVar(&format, "format", "", "write the list as csv or ndjson")
	return cmd
}

// documentFlags adds the flags that filter documents.
func documentFlags(cmd *cobra.Command, flags map[string]*string) {
	for _, f := range []struct{ name, help string }{
		{"month", "of the documents' own date, such as 2026-10"},
		{"source", "who sent it"},
		{"seller", "its id or name"},
		{"buyer", "its id or name"},
		{"min", "smallest total with VAT"},
		{"max", "largest total with VAT"},
		{"currency", "such as EUR"},
		{"type", "code of UNTDID 1001: 380 an invoice, 381 a credit note"},
		{"state", "accepted or conflict"},
	} {
		flags[f.name] = cmd.Flags().String(f.name, "", "only documents with this: "+f.help)
	}
	flags["q"] = cmd.Flags().String("search", "", "only documents with this text in their number, names or ids")
}

// totals returns the command `totals`: add up documents by currency, seller, month or VAT.
func (c documentCommands) totals() *cobra.Command {
	flags := map[string]*string{}
	var by, format string
	cmd := &cobra.Command{
		Use: "totals", Short: "Add up documents by currency, seller, month or VAT", Args: cobra.NoArgs,
		Long: `Add up the documents of a filter, always by currency. Amounts are exact; credit notes are subtracted.`,
		Example: `  smartdrive docs totals --by vat --month 2026-10
  smartdrive docs totals --by seller --format csv > sellers.csv`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains([]string{"currency", "seller", "month", "vat"}, by) {
				return usageError(cmd, errors.New("--by is currency, seller, month or vat"))
			}
			if format != "" && format != "csv" {
				return usageError(cmd, errors.New("--format is csv"))
			}
			api, err := c.connect()
			if err != nil {
				return err
			}
			filter := nonEmptyFlags(flags)
			if format != "" {
				filter.Set("by", by)
				return api.WriteTotals(cmd.Context(), c.out, filter)
			}
			all, err := api.Totals(cmd.Context(), by, filter)
			for _, t := range all {
				if err := c.cli.show(t, "%s  %s  %s: net %s, VAT %s, gross %s; %d documents, %d of them credit notes", t.Key, t.Name, t.Currency, t.Net, t.Tax, t.Gross, t.Documents, t.Credits); err != nil {
					return err
				}
			}
			return err
		},
	}
	documentFlags(cmd, flags)
	cmd.Flags().StringVar(&by, "by", "currency", "currency, seller, month or vat")
	cmd.Flags().StringVar(&format, "format", "", "write the totals as csv")
	return cmd
}

// show returns the command `show ID`: show a document in full.
func (c documentCommands) show() *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show a document in full", Args: cobra.ExactArgs(1),
		RunE: c.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			d, err := api.Document(ctx, args[0])
			if err != nil {
				return err
			}
			if c.json {
				return c.writeJSON(d)
			}
			return c.showWhole(d)
		}),
	}
}

// showWhole prints a document, its history and its content as indented JSON.
func (c documentCommands) showWhole(d client.DocumentDetail) error {
	if err := c.showDocument(d.Document); err != nil {
		return err
	}
	for _, e := range d.History {
		if err := c.cli.show(e, "  %s  %s  bundle %s  %s", e.At.Local().Format("2006-01-02 15:04"), e.What, e.Bundle, e.Member); err != nil {
			return err
		}
	}
	var model bytes.Buffer
	if err := json.Indent(&model, d.Model, "", "  "); err != nil {
		return err
	}
	return printVisible(c.out, "%s\n", model.String())
}

// conflicts returns the command `conflicts`: list open conflicts, the oldest first.
func (c documentCommands) conflicts() *cobra.Command {
	return &cobra.Command{
		Use: "conflicts", Short: "List open conflicts, the oldest first", Args: cobra.NoArgs,
		RunE: c.withClient(func(ctx context.Context, api *client.Client, _ []string) error {
			return showAll(api.AllConflicts(ctx), func(x client.OpenConflict) error {
				d := x.Document
				return c.cli.show(x, "%s  %s  %s  %s: bundle %s says something else than %s", d.ID, d.Date, d.Number, d.Seller.Name, x.New.Bundle, x.Old.Bundle)
			})
		}),
	}
}

// settle returns the command `settle [ID] --keep old|new`: resolve a conflict by choosing one side.
func (c documentCommands) settle() *cobra.Command {
	var keep, conflict, source string
	var everything bool
	cmd := &cobra.Command{
		Use: "settle [ID] --keep old|new", Short: "Resolve a conflict by choosing one side", Args: cobra.MaximumNArgs(1),
		Example: `  smartdrive docs settle 01a1fde0-0684-7632-9c57-826c40f6dcdf --keep new
  smartdrive docs settle --all --source acme --keep new`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if keep != "old" && keep != "new" {
				return usageError(cmd, errors.New("--keep is old or new"))
			}
			if everything != (len(args) == 0) {
				return usageError(cmd, errors.New("ID or --all is missing, or both are there"))
			}
			if everything {
				return c.settleAll(cmd.Context(), source, keep)
			}
			api, err := c.connect()
			if err != nil {
				return err
			}
			d, err := api.SettleConflict(cmd.Context(), args[0], conflict, keep)
			if err != nil {
				return err
			}
			return c.showDocument(d.Document)
		},
	}
	cmd.Flags().StringVar(&keep, "keep", "", "old: keep the first document; new: keep the later one")
	cmd.Flags().StringVar(&conflict, "conflict", "", "id of the conflict (default: the oldest)")
	cmd.Flags().BoolVar(&everything, "all", false, "settle all open conflicts")
	cmd.Flags().StringVar(&source, "source", "", "with --all: only those of this source")
	return cmd
}

// settleAll resolves all open conflicts of a source the same way and prints how many; keep is "old"
// or "new", an empty source means all. It repeats requests until none is left or a request resolves
// none; some may then be left without an error.
func (c documentCommands) settleAll(ctx context.Context, source, keep string) error {
	api, err := c.connect()
	if err != nil {
		return err
	}
	sum := client.SettleResult{Left: 1}
	for sum.Left > 0 {
		part, err := api.SettleConflicts(ctx, source, keep)
		if err != nil {
			return err
		}
		sum.Settled, sum.Left = sum.Settled+part.Settled, part.Left
		if part.Settled == 0 {
			break
		}
	}
	return c.cli.show(sum, "%d conflicts settled, %d left", sum.Settled, sum.Left)
}
