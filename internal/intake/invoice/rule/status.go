package rule

import "strings"

// Release is the version of CEN/TC 434's validation artefacts for EN 16931 that the rules follow.
const Release = "1.3.16"

// State is the degree to which a rule of the release is implemented.
type State string

// States of a rule.
const (
	Covered  State = "covered"                // a document that breaks the rule is rejected
	ByChoice State = "warning by choice"      // the document is accepted, with a warning where useful
	Partly   State = "covered, and a warning" // rejected if the breach is certain, otherwise a warning
	Without  State = "not applicable"         // no document can break it here
)

// Status is the state of a rule, with the reason. In the table, ID may also list several rules,
// separated by ", ", or be a prefix that ends in "*".
type Status struct {
	ID    string
	State State
	Why   string
}

// StatusOf returns the state of a rule of the release by its id: that of an exception, else Covered
// if a fatal rule checks it. An unknown id gives Without.
func StatusOf(id string) Status {
	for _, s := range exceptions {
		for name := range strings.SplitSeq(s.ID, ", ") {
			if id == name {
				return Status{id, s.State, s.Why}
			}
		}
	}
	for _, r := range Rules() {
		if r.ID == id && r.Severity == Fatal {
			return Status{id, Covered, ""}
		}
	}
	for _, s := range exceptions {
		if group, ok := strings.CutSuffix(s.ID, "*"); ok && strings.HasPrefix(id, group) {
			return Status{id, s.State, s.Why}
		}
	}
	return Status{id, Without, "not known here"}
}

// Stricter reports whether a rule intentionally rejects documents that the release accepts.
func Stricter(id string) bool {
	return strings.HasPrefix(id, "SD-") || strings.HasPrefix(id, "BR-DEX-")
}

// exceptions lists the rules of the release whose state is not simply Covered.
var exceptions = []Status{
	{"BR-CL-10, BR-CL-11, BR-CL-21, BR-CL-26", Partly, "what does not have the form of ISO 6523 is refused, 99xx of the EAS list too, and SEPA but for a seller or payee; a number that is not known is a warning, since the list grows twice a year"},
	{"BR-CL-25", Partly, "what does not have the form of the EAS list is refused; a number that is not known is a warning, since the list grows twice a year"},
	{"BR-CL-22", Partly, "what does not begin with VATEX- is refused; a code that is not known is a warning, since countries add theirs"},
	{"BR-CL-04, BR-CL-05", Partly, "a former currency is a warning: invoices are kept for ten years"},
	{"BR-CL-13", Covered, "by value; CVD, which XRechnung adds for clean vehicles, counts, too"},
	{"BR-51", ByChoice, "a warning in UBL, too; the number of a card is not a fault of the sums"},
	{"BR-CO-05, BR-CO-06, BR-CO-07, BR-CO-08", Without, "that a reason and its code mean the same is for people; the artefacts do not check it either"},
	{"BR-CO-25", Without, "left EN 16931 with release 1.3.16: a due date or terms of payment need not be given"},
	{"BR-22, BR-54", Covered, "an empty element counts as missing; the artefacts ask only that it is there, and the schema refuses an empty number"},
	{"BR-AF-09, BR-AG-09", Covered, "in UBL; in CII it is BR-CO-17"},
	{"UBL-DT-01", Covered, "reported as BR-DEC-01 to 28 for all amounts but those of lines within lines"},
	{"UBL-SR-07", Covered, "reported as BR-55"},
	{"UBL-SR-31", Covered, "reported as UBL-SR-30"},
	{"CII-SR-046", Covered, "reported as BR-64"},
	{"CII-SR-441", Covered, "reported as CII-SR-439"},
	{"CII-SR-470", Covered, "reported as BR-61"},
	{"CII-DT-015, CII-DT-022", Covered, "reported as CII-DT-021"},
	{"CII-DT-031", ByChoice, "an amount that repeats the invoice's currency says nothing wrong; another currency is SD-02"},
	{"CII-DT-097", Covered, "a date that is none is not read (bad-value)"},
	{"CII-SR-471", Covered, "a second, other rate is SD-01"},
	{"UBL-CR-*", ByChoice, "an element that the core does not know is not read; the artefacts only warn, too"},
	{"UBL-DT-*", ByChoice, "an attribute that the core does not know is not read; the artefacts only warn, too"},
	{"CII-SR-*", ByChoice, "an element that the core does not know is not read; the artefacts mostly warn, too"},
	{"CII-DT-*", ByChoice, "an attribute or element that the core does not know is not read, and changes no value that is"},
}
