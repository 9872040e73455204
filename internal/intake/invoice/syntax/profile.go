package syntax

import (
	"fmt"
	"strings"

	"smartdrive/internal/intake/invoice"
)

// xrechnungExtension is the extension whose rules SmartDrive knows. Extensions may break the core's
// rules, so an unknown one cannot be judged. A CIUS ("compliant") only adds to the core's rules.
const xrechnungExtension = "urn:xeinkauf.de:kosit:extension:xrechnung_3."

// checkProfile refuses a profile that SmartDrive cannot judge. A missing one is a matter for the
// rules (BR-01).
func checkProfile(d *invoice.Document) error {
	if d.Profile == "" || d.Profile == invoice.ProfileFapiao {
		return nil
	}
	rest, isCore := strings.CutPrefix(d.Profile, invoice.ProfileCore)
	cius, extension, extended := strings.Cut(rest, "#conformant#")
	known := cius == "" || strings.HasPrefix(cius, "#compliant#")
	if isCore && known && (!extended || strings.HasPrefix(extension, xrechnungExtension)) {
		return nil
	}
	return &Error{Kind: Unsupported, Text: fmt.Sprintf("the profile %.120q is not supported", d.Profile)}
}
