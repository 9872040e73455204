package rule

import (
	"slices"
	"sync"
)

// europeanRules returns the rules of EN 16931-1 and our own.
var europeanRules = sync.OnceValue(func() []Rule {
	return slices.Concat(core, core2, calculation, decimals(), codes(), categories(), extension, structure(), own)
})

// chineseRules returns the rules of the fully digital invoice and our own.
var chineseRules = sync.OnceValue(func() []Rule { return slices.Concat(chinese, own) })

// Rules returns all rules without those of profiles: EN 16931, then the Chinese invoice, then the
// common ones.
func Rules() []Rule {
	european := europeanRules()
	return slices.Concat(european[:len(european)-len(own)], chinese, own)
}

// stricter lists the rules that reject documents that the release accepts, each with the reason.
var stricter = [][2]string{
	{"SD-01", "two programs that read a number, date, party or amount twice may each take another one"},
	{"SD-02", "an amount in another currency cannot be part of a sum"},
	{"SD-08", "what is not known to be an allowance or a charge cannot be part of a sum; a schema refuses it"},
	{"BR-DEX", "of the XRechnung extension, for documents that claim it and for lines within lines"},
	{"lines within lines in CII", "unsupported: the extension does not define them (BR-DEX-15)"},
	{"BR-S-09 and the like in CII", "the same tolerance in both syntaxes"},
}
