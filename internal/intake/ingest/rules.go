package ingest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/intake/bundle"
	"example.org/smartdrive/internal/intake/invoice"
	"example.org/smartdrive/internal/intake/invoice/rule"
)

// Rules select the documents of a source to accept: those that match all fields. An empty field
// matches every document.
type Rules struct {
	Types   []string        `json:"types,omitempty" doc:"codes of UNTDID 1001, such as 380 (invoice) and 381 (credit note)"`
	From    invoice.Date    `json:"from,omitzero" doc:"first day of issue, such as 2026-10-01"`
	To      invoice.Date    `json:"to,omitzero" doc:"last day of issue"`
	Sellers []string        `json:"sellers,omitempty" doc:"ids of sellers: VAT id, tax number, or the id in the documents"`
	Buyers  []string        `json:"buyers,omitempty" doc:"ids of buyers"`
	Min     invoice.Decimal `json:"min,omitzero" doc:"smallest total with VAT"`
	Max     invoice.Decimal `json:"max,omitzero" doc:"largest total with VAT"`
	// Conflicts resolves conflicts automatically.
	Conflicts Keep `json:"conflicts,omitempty" doc:"which document is kept if a different one with the same seller, number and date arrives: old, new, or empty: a user decides"`
	// Plain accepts files without a manifest.
	Plain   bool         `json:"plain,omitempty" doc:"true: also imports files that arrive without meta.json in the folder of the source or below; a minute after the last arrival they are moved into bundle folders"`
	Profile rule.Profile `json:"profile,omitempty" doc:"rules in addition to EN 16931: xrechnung, peppol, or empty"`
}

// Source is a sender with its rules.
type Source struct {
	Name      string     `json:"name"`
	Rules     Rules      `json:"rules"`
	UpdatedAt drive.Time `json:"updated_at"`
}

// Limits of sources and their rules.
const (
	maxSources = 1000   // per account
	maxListed  = 1000   // entries in each of types, sellers, buyers
	maxRules   = 60_000 // bytes of the JSON of Rules
)

// check returns a drive.BadRequest for an invalid field; nil for valid rules. An empty list
// restricts nothing.
func (r Rules) check() error {
	for field, list := range map[string][]string{"types": r.Types, "sellers": r.Sellers, "buyers": r.Buyers} {
		if len(list) > maxListed {
			return drive.BadField("rules."+field, drive.OutOfRange, "min", 0, "max", maxListed, "sent", len(list))
		}
		if slices.ContainsFunc(list, func(s string) bool { return plain(s) == "" || len(s) > maxID }) {
			return drive.BadField("rules."+field, drive.Malformed, "expected", "texts of up to 255 bytes")
		}
	}
	if r.Profile != rule.Core && !slices.Contains(rule.Profiles(), r.Profile) {
		return drive.BadField("rules.profile", drive.NotAllowed, "allowed", rule.Profiles())
	}
	if r.Conflicts != "" && r.Conflicts != KeepOld && r.Conflicts != KeepNew {
		return drive.BadField("rules.conflicts", drive.NotAllowed, "allowed", []Keep{KeepOld, KeepNew})
	}
	if r.To != 0 && r.To < r.From {
		return drive.BadField("rules.to", drive.OutOfRange, "min", r.From.String(), "sent", r.To.String())
	}
	if r.Min.Given() && r.Max.Given() && r.Max.Cmp(r.Min) < 0 {
		return drive.BadField("rules.max", drive.OutOfRange, "min", r.Min.String(), "sent", r.Max.String())
	}
	return nil
}

// matcher holds Rules in a form for comparing documents: its lists are sets of ids as plain returns
// them. The zero value accepts every document.
type matcher struct {
	Rules
	types, sellers, buyers map[string]bool
}

// compile returns the matcher of the rules; an empty list accepts all.
func (r Rules) compile() matcher {
	set := func(list []string) map[string]bool {
		all := make(map[string]bool, len(list))
		for _, s := range list {
			all[plain(s)] = true
		}
		return all
	}
	return matcher{r, set(r.Types), set(r.Sellers), set(r.Buyers)}
}

// plain returns an id in upper case, without white space, dots and hyphens, so that spellings of
// one id are equal.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || r == '.' || r == '-' {
			return -1
		}
		return unicode.ToUpper(r)
	}, s)
}

// refuses returns the rule that excludes a document: type, date, seller, buyer or amount. Empty:
// the document is accepted.
func (m matcher) refuses(d *invoice.Document) string {
	total := d.Totals.Gross
	switch {
	case len(m.types) > 0 && !m.types[plain(d.Type)]:
		return "type"
	case m.From != 0 && d.Date < m.From, m.To != 0 && d.Date > m.To:
		return "date"
	case len(m.sellers) > 0 && !listed(m.sellers, &d.Seller):
		return "seller"
	case len(m.buyers) > 0 && !listed(m.buyers, &d.Buyer):
		return "buyer"
	case m.Min.Given() && total.Cmp(m.Min) < 0, m.Max.Given() && total.Cmp(m.Max) > 0:
		return "amount"
	}
	return ""
}

// listed reports whether any id of a party is in the list.
func listed(list map[string]bool, p *invoice.Party) bool {
	ids := []string{p.VATID, p.TaxID, p.Legal.ID, p.Endpoint.ID}
	for _, id := range p.IDs {
		ids = append(ids, id.ID)
	}
	return slices.ContainsFunc(ids, func(id string) bool { return id != "" && list[plain(id)] })
}

// rulebook stores the rules of sources.
type rulebook struct{ *core }

// rulesOf returns the rules of a source. A source without rules accepts every document.
func (in *rulebook) rulesOf(ctx context.Context, account drive.AccountID, source string) (matcher, error) {
	s, err := in.source(ctx, drive.Who{Account: account}, source)
	if drive.IsKind(err, drive.NotFound) {
		return matcher{}, nil
	}
	return s.Rules.compile(), err
}

// scanSource scans a row of sources into s and decodes its rules. It fails with the error of scan
// or for rules that are no JSON.
func scanSource(s *Source, scan func(...any) error) error {
	var rules string
	if err := scan(&s.Name, &rules, &s.UpdatedAt); err != nil {
		return err
	}
	return json.Unmarshal([]byte(rules), &s.Rules)
}

// Source returns a source of the caller's account. NotFound: the source has no rules.
func (in *Intake) Source(ctx context.Context, who drive.Who, name string) (s Source, err error) {
	return in.rulebook.source(ctx, who, name)
}

// source returns a source with its rules. It fails with drive.NotFound if the source has no rules.
func (in *rulebook) source(ctx context.Context, who drive.Who, name string) (s Source, err error) {
	err = scanSource(&s, in.opt.DB.For(who.Account).QueryRow(ctx, "SELECT name, rules, updated_at FROM sources WHERE account_id = ? AND name = ?", who.Account, name).Scan)
	return s, err
}

// Sources returns the sources of the caller's account that have rules or bundles, by name, at most
// 1,000.
func (in *Intake) Sources(ctx context.Context, who drive.Who) ([]Source, error) {
	return in.rulebook.sources(ctx, who)
}

// sources implements Intake.Sources. Sources that have sent bundles but have no rules are returned
// with empty ones.
func (in *rulebook) sources(ctx context.Context, who drive.Who) ([]Source, error) {
	rows, err := in.opt.DB.For(who.Account).Query(ctx, `SELECT name, rules, updated_at FROM sources WHERE account_id = ?
		UNION ALL SELECT DISTINCT b.source, '{}', 0 FROM bundles b LEFT JOIN sources s ON s.account_id = b.account_id AND s.name = b.source
		WHERE b.account_id = ? AND s.name IS NULL ORDER BY 1 LIMIT ?`, who.Account, who.Account, maxSources)
	all, err := sqldb.Scan(rows, err, scanSource)
	if err != nil {
		return nil, fmt.Errorf("list sources: %w", err)
	}
	return all, nil
}

// PutSource replaces the rules of a source. They apply to bundles that are processed from now on.
// BadRequest: the name or the rules are invalid. TooManyOpen: the account has 1,000 sources.
func (in *Intake) PutSource(ctx context.Context, who drive.Who, s Source) (Source, error) {
	return in.rulebook.put(ctx, who, s)
}

// put implements Intake.PutSource. It returns the source with the time of the change. Bundles that
// were processed before are not judged again.
func (in *rulebook) put(ctx context.Context, who drive.Who, s Source) (Source, error) {
	if bundle.CheckSource(s.Name) != nil {
		return Source{}, drive.BadField("name", drive.Malformed, "expected", "a name of a folder of up to 100 bytes")
	}
	if err := s.Rules.check(); err != nil {
		return Source{}, err
	}
	raw, err := json.Marshal(s.Rules)
	if err != nil {
		return Source{}, err
	}
	if len(raw) > maxRules {
		return Source{}, drive.BadField("rules", drive.TooLong, "limit", maxRules, "sent", len(raw))
	}
	if s.UpdatedAt, err = in.now(ctx); err != nil {
		return Source{}, err
	}
	plain := 0
	if s.Rules.Plain {
		plain = 1
	}
	return s, in.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		n, err := tx.Exec(ctx, "UPDATE sources SET rules = ?, plain = ?, updated_at = ? WHERE account_id = ? AND name = ?", string(raw), plain, s.UpdatedAt, who.Account, s.Name)
		if err != nil || n == 1 {
			return err
		}
		var have int
		if err := tx.QueryRow(ctx, "SELECT COUNT(*) FROM sources WHERE account_id = ?", who.Account).Scan(&have); err != nil {
			return err
		}
		if have >= maxSources {
			return drive.Fail(drive.TooManyOpen, "reason", "sources", "limit", maxSources, "sent", have+1)
		}
		made, err := tx.InsertNew(ctx, "INSERT INTO sources (account_id, name, rules, plain, updated_at) VALUES (?, ?, ?, ?, ?)", who.Account, s.Name, string(raw), plain, s.UpdatedAt)
		if err == nil && !made {
			err = sqldb.Rerun(drive.Fail(drive.NotFound))
		}
		return err
	})
}

// DeleteSource deletes the rules of a source, which then accepts all documents. Its bundles and
// documents stay. NotFound: the source has no rules.
func (in *Intake) DeleteSource(ctx context.Context, who drive.Who, name string) error {
	return in.rulebook.remove(ctx, who, name)
}

// remove deletes the rules of a source; its bundles and documents stay. It fails with
// drive.NotFound if there are none.
func (in *rulebook) remove(ctx context.Context, who drive.Who, name string) error {
	return in.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		n, err := tx.Exec(ctx, "DELETE FROM sources WHERE account_id = ? AND name = ?", who.Account, name)
		if err == nil && n == 0 {
			err = drive.Fail(drive.NotFound)
		}
		return err
	})
}
