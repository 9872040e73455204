package syntax

import (
	"fmt"
	"strings"

	"smartdrive/internal/intake/invoice"
)

// xrechnungExtension is the extension whose rules SmartDrive knows. Extensions may break the core's
// rules, so an unknown one cannot be judged. A CIUS ("compliant") only adds to the core's rules.
const xrechnungExtension = "urn:xeinkauf.de:kosit:extension:xrechnung_3."

// belowCore are the profiles of Factur-X and ZUGFeRD 2 that say less than EN 16931 asks for.
var belowCore = map[string]string{
	"urn:factur-x.eu:1p0:minimum": "MINIMUM", "urn:factur-x.eu:1p0:basicwl": "BASIC WL",
	"urn:zugferd.de:2p0:minimum": "MINIMUM", "urn:zugferd.de:2p0:basicwl": "BASIC WL",
}

// zugferdComfort is the profile of ZUGFeRD 1 that became the core. Its own syntax is not read, but
// some programs name it in a CII of D16B.
const zugferdComfort = "urn:ferd:CrossIndustryDocument:invoice:1p0:comfort"

// checkProfile refuses a profile that SmartDrive cannot judge. A missing one is a matter for the
// rules (BR-01).
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
