package syntax

import (
	"fmt"
	"strings"

	"example.org/smartdrive/internal/intake/invoice"
)

// xrechnungExtension is the prefix of the only supported extension. Extensions may break the rules
// of the core, so an unknown one cannot be validated. A CIUS ("compliant") only adds rules.
const xrechnungExtension = "urn:xeinkauf.de:kosit:extension:xrechnung_3."

// belowCore maps the profiles of Factur-X and ZUGFeRD 2 that contain less than EN 16931 requires to
// their names.
var belowCore = map[string]string{
	"urn:factur-x.eu:1p0:minimum": "MINIMUM", "urn:factur-x.eu:1p0:basicwl": "BASIC WL",
	"urn:zugferd.de:2p0:minimum": "MINIMUM", "urn:zugferd.de:2p0:basicwl": "BASIC WL",
}

// zugferdComfort is the profile of ZUGFeRD 1 that became the core. The syntax of ZUGFeRD 1 is
// unsupported, but some programs use this profile in a CII of D16B.
const zugferdComfort = "urn:ferd:CrossIndustryDocument:invoice:1p0:comfort"

// checkProfile returns an Error if the profile cannot be validated: BookingAid for a profile below
// the core, Unsupported for an unknown one. A missing profile passes, because rule BR-01 reports
// it.
func checkProfile(d *invoice.Document) error {
	if d.Profile == "" || d.Profile == invoice.ProfileFapiao {
		return nil
	}
	if d.Profile == zugferdComfort {
		return nil
	}
	rest, isCore := strings.CutPrefix(d.Profile, invoice.ProfileCore)
	cius, extension, extended := strings.Cut(rest, "#conformant#")
	known := cius == "" || strings.HasPrefix(cius, "#compliant#")
	if isCore && known && (!extended || strings.HasPrefix(extension, xrechnungExtension)) {
		return nil
	}
	if name, below := belowCore[strings.ToLower(d.Profile)]; below {
		return &Error{Kind: BookingAid, Text: fmt.Sprintf("the profile %s is an aid for booking: it has no lines, and is not an invoice of EN 16931", name)}
	}
	return &Error{Kind: Unsupported, Text: fmt.Sprintf("the profile %.120q is not supported", d.Profile)}
}
