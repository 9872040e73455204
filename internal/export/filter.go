package export

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // zones of schedules, also where the system has none

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
)

// Filter selects files of a folder. A file must match all set fields.
type Filter struct {
	Month string `json:"month,omitempty"` // "2026-10": modified in this month, in Zone
	Zone  string `json:"zone,omitempty"`  // IANA time zone name; empty: UTC
	From  string `json:"from,omitempty"`  // "2026-10-01": modified on this day or later, in Zone; not with Month
	To    string `json:"to,omitempty"`    // last day, inclusive
	// SinceLast selects the changes since the last export of the folder with this filter; see
	// since.go.
	SinceLast bool     `json:"since_last,omitempty"`
	Ext       []string `json:"ext,omitempty"`     // file name extensions, case-insensitive
	Pattern   string   `json:"pattern,omitempty"` // for the file name, as in path.Match, case-insensitive
	// Documents selects the PDFs of intake documents by document date. The folder must be /intake
	// or the folder of a source.
	Documents bool `json:"documents,omitempty"`
	XML       bool `json:"xml,omitempty"` // adds the original file of each document beside its PDF
	// Of narrows the documents; only with Documents.
	Of Selection `json:"of,omitzero"`
}

// matchesAll reports whether no field is set that excludes files, so that each file matches.
func (f Filter) matchesAll() bool {
	return f.Month == "" && f.From == "" && f.To == "" && !f.SinceLast && len(f.Ext) == 0 && f.Pattern == "" && !f.Documents
}

// Selection selects documents. A document must match all set fields.
type Selection struct {
	Seller   string `json:"seller,omitempty" doc:"id or name of the party"`
	Buyer    string `json:"buyer,omitempty" doc:"id or name of the party"`
	Min      string `json:"min,omitempty" doc:"smallest total with VAT, such as 100.50"`
	Max      string `json:"max,omitempty"`
	Currency string `json:"currency,omitempty"`
	Type     string `json:"type,omitempty" doc:"code of UNTDID 1001"`
	State    string `json:"state,omitempty" doc:"accepted or conflict"`
	Query    string `json:"q,omitempty" doc:"occurs in number, names or ids"`
}

// amount matches a decimal total; see package invoice.
var amount = regexp.MustCompile(`^-?[0-9]{1,30}(\.[0-9]{1,10})?$`)

// check returns BadRequest with reason Malformed for an amount that is not a number, or TooLong for
// a text above 255 bytes. Empty fields are valid. With several invalid fields, which of them it
// names is random.
func (s Selection) check() error {
	for field, value := range map[string]string{"min": s.Min, "max": s.Max} {
		if value != "" && !amount.MatchString(value) {
			return drive.BadField("of."+field, drive.Malformed, "expected", "a number such as 100.50")
		}
	}
	for field, value := range map[string]string{"seller": s.Seller, "buyer": s.Buyer, "currency": s.Currency, "type": s.Type, "state": s.State, "q": s.Query} {
		if len(value) > 255 {
			return drive.BadField("of."+field, drive.TooLong, "limit", 255, "sent", len(value))
		}
	}
	return nil
}

// matcher is a Filter after validation, with times and names in the form that matches compares. The
// zero matcher matches each file.
type matcher struct {
	from, to drive.Time
	ext      []string
	pattern  string

	documents bool
	xml       bool
	selection Selection
	month     string // for documents, "2026-10"; empty: any
	first     string // first day of documents, inclusive; empty: any
	last      string // last day of documents, inclusive; empty: any
	zone      *time.Location
}

// inZone converts t to the time zone of the filter.
func (m matcher) inZone(t drive.Time) time.Time { return t.Std().In(m.zone) }

// compile validates the filter and returns its matcher. It returns BadRequest for an invalid field
// and for fields that exclude each other. It does not handle SinceLast; the list builder does.
func (f Filter) compile() (m matcher, err error) {
	zone, err := zoneOf(f.Zone)
	if err != nil {
		return matcher{}, err
	}
	if f.Month != "" {
		from, err := time.ParseInLocation("2006-01", f.Month, zone)
		if err != nil {
			return matcher{}, drive.BadField("month", drive.Malformed, "expected", "YYYY-MM")
		}
		m.from, m.to = drive.TimeOf(from), drive.TimeOf(from.AddDate(0, 1, 0))
	}
	m.zone = zone
	if err := m.compileDays(f); err != nil {
		return matcher{}, err
	}
	for _, ext := range f.Ext {
		if ext = strings.ToLower(strings.TrimPrefix(ext, ".")); ext == "" || len(ext) > 32 || len(m.ext) == 32 {
			return matcher{}, drive.BadField("ext", drive.Malformed, "expected", "up to 32 extensions such as pdf")
		}
		m.ext = append(m.ext, "."+ext)
	}
	if f.Documents && (len(f.Ext) > 0 || f.Pattern != "") {
		return matcher{}, drive.BadField("documents", drive.NotTogether, "with", "ext, pattern")
	}
	if f.XML && !f.Documents {
		return matcher{}, drive.BadField("xml", drive.NotTogether, "with", "files: only with documents")
	}
	if f.Of != (Selection{}) && !f.Documents {
		return matcher{}, drive.BadField("of", drive.NotTogether, "with", "files: only with documents")
	}
	if err := f.Of.check(); err != nil {
		return matcher{}, err
	}
	m.documents, m.month, m.xml, m.selection = f.Documents, f.Month, f.XML, f.Of
	m.pattern = strings.ToLower(f.Pattern)
	if _, err := path.Match(m.pattern, ""); err != nil || len(m.pattern) > drive.MaxNameBytes {
		return matcher{}, drive.BadField("pattern", drive.Malformed, "expected", "a pattern such as inv-*.pdf")
	}
	return m, nil
}

// maxFileTime is later than the modification time of any file: the year 10000.
const maxFileTime = drive.Time(253402300800_000)

// compileDays validates f.From and f.To and sets the time and day limits of m; To includes its
// whole day. It uses m.zone. Errors: BadRequest for text that is not a day, for a month beside
// them, and for To before From.
func (m *matcher) compileDays(f Filter) error {
	if f.From == "" && f.To == "" {
		return nil
	}
	if f.Month != "" {
		return drive.BadField("month", drive.NotTogether, "with", "from, to")
	}
	m.to, m.first, m.last = maxFileTime, f.From, f.To
	for field, text := range map[string]string{"from": f.From, "to": f.To} {
		day, err := time.ParseInLocation(time.DateOnly, text, m.zone)
		switch {
		case text == "":
		case err != nil:
			return drive.BadField(field, drive.Malformed, "expected", "YYYY-MM-DD")
		case field == "from":
			m.from = drive.TimeOf(day)
		default:
			m.to = drive.TimeOf(day.AddDate(0, 0, 1))
		}
	}
	if m.from >= m.to {
		return drive.BadField("to", drive.OutOfRange, "min", f.From, "sent", f.To)
	}
	return nil
}

// matchesDay reports whether day, as "2006-01-02", is from m.first to m.last, both inclusive; an
// empty limit does not restrict.
func (m matcher) matchesDay(day string) bool {
	return (m.first == "" || day >= m.first) && (m.last == "" || day <= m.last)
}

// zoneOf loads a time zone by IANA name; empty is UTC. It returns BadRequest for an unknown name
// and for "Local".
func zoneOf(name string) (*time.Location, error) {
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, drive.BadField("zone", drive.Malformed, "expected", "a name such as Europe/Berlin")
	}
	return zone, nil
}

// matches reports whether a file matches by modification time, extension and pattern, ignoring the
// case of letters. It does not look at the fields for documents.
func (m matcher) matches(n tree.Node) bool {
	if m.to != 0 && (n.MTime < m.from || n.MTime >= m.to) {
		return false
	}
	name := strings.ToLower(string(n.Name))
	if len(m.ext) > 0 && !slices.ContainsFunc(m.ext, func(ext string) bool { return strings.HasSuffix(name, ext) }) {
		return false
	}
	if m.pattern == "" {
		return true
	}
	ok, _ := path.Match(m.pattern, name) // the pattern was checked
	return ok
}
