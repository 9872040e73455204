package rule

import (
	"slices"
	"sync"
)

// europeanRules are those of EN 16931-1, and our own.
var europeanRules = sync.OnceValue(func() []Rule {
	return slices.Concat(core, core2, calculation, decimals(), codes(), categories(), extension, own)
})

// chineseRules are those of the fully digital invoice, and our own.
var chineseRules = sync.OnceValue(func() []Rule { return slices.Concat(chinese, own) })

// Rules returns all rules: those of EN 16931, then those of the Chinese invoice, then those of
// both.
func Rules() []Rule {
	european := europeanRules()
	return slices.Concat(european[:len(european)-len(own)], chinese, own)
}

// NotCovered are the rules of EN 16931-1 that are not checked, each with the reason.
var NotCovered = [][2]string{
	{"BR-CO-05, BR-CO-06, BR-CO-07, BR-CO-08", "that a reason and its code mean the same is for people"},
	{"BR-CL-03", "SD-02 asks for more: every amount is in the currency of the invoice"},
	{"UBL-SR, UBL-CR, CII-SR, CII-DT", "about syntax: SD-01 is what they protect from; elements that the core does not know are not read"},
	{"BR-DEX-15", "lines within lines in CII, which the extension does not define, are unsupported"},
	{"BR-DE, PEPPOL-EN16931", "of a country or a network; they restrict what the core allows"},
}
