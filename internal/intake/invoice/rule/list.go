package rule

import "strings"

// codeList is a set of codes.
type codeList map[string]struct{}

// list returns the set of the codes in a text, separated by white space.
func list(codes string) codeList {
	l := codeList{}
	for code := range strings.FieldsSeq(codes) {
		l[code] = struct{}{}
	}
	return l
}

// has reports whether the list contains the code, compared exactly.
func (l codeList) has(code string) bool { _, ok := l[code]; return ok }

var (
	// vatCodes holds the VAT categories of EN 16931; the list is closed.
	vatCodes = list("S Z E AE K G O L M B")

	// creditTypes holds the type codes (UNTDID 1001) of a UBL credit note, debitTypes those of
	// a UBL invoice.
	creditTypes = list("81 83 261 262 296 308 381 396 420 458 502 503 532")
	// debitTypes are the type codes of invoices, as opposed to credit notes.
	debitTypes = list(`71 80 81 82 84 102 130 202 203 204 211 218 219 295 325 326 331 380 382 383 384 385 386 387 388 389 390 393 394 395 456 457
		471 472 473 500 501 527 553 575 623 633 751 780 817 870 875 876 877 935`)

	// currencies is ISO 4217. formerCurrencies holds withdrawn codes, because invoices are kept
	// for ten years.
	currencies = list(`AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BHD BIF BMD BND BOB BOV BRL BSD BTN BWP BYN BZD CAD CDF CHE CHF CHW CLF CLP CNH CNY COP
		COU CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL HTG HUF IDR ILS INR IQD IRR ISK JMD
		JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MXV MYR MZN NAD NGN
		NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STD SVC SYP SZL THB TJS
		TMT TND TOP TRY TTD TWD TZS UAH UGX USD USN UYI UYU UYW UZS VED VES VND VUV WST XAF XAG XAU XBA XBB XBC XBD XCD XCG XDR XOF XPD XPF XPT
		XSU XTS XUA XXX YER ZAR ZMW ZWG`)
	// formerCurrencies are currencies that ISO 4217 has withdrawn.
	formerCurrencies = list("ANG BGN CUC HRK SLL STN ZWL")

	// countries is ISO 3166-1 with the additions of EN 16931: 1A Kosovo, XI Northern Ireland.
	countries = list(`1A AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV BW BY BZ CA CC CD
		CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO FR GA GB GD GE GF GG GH GI GL
		GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE JM JO JP KE KG KH KI KM KN KP KR KW KY KZ LA LB LC
		LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP MQ MR MS MT MU MV MW MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM
		PA PE PF PG PH PK PL PM PN PR PS PT PW PY QA RE RO RS RU RW SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF
		TG TH TJ TK TL TM TN TO TR TT TV TW TZ UA UG UM US UY UZ VA VC VE VG VI VN VU WF WS XI YE YT ZA ZM ZW`)

	// paymentMeans is UNTDID 4461.
	paymentMeans = list(`1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43
		44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64 65 66 67 68 69 70 74 75 76 77 78 91 92 93 94 95 96 97 98 ZZZ`)

	// allowanceReasons is UNTDID 5189.
	allowanceReasons = list("41 42 60 62 63 64 65 66 67 68 70 71 88 95 100 102 103 104 105")

	// mimes holds the media types allowed for embedded files (EN 16931-1, BT-125).
	mimes = list(`application/pdf image/png image/jpeg text/csv application/vnd.openxmlformats-officedocument.spreadsheetml.sheet
		application/vnd.oasis.opendocument.spreadsheet`)

	// vatex holds the VAT exemption reasons of the EU and France, without the prefix VATEX-.
	vatex = list(`EU-79-C EU-132 EU-132-1A EU-132-1B EU-132-1C EU-132-1D EU-132-1E EU-132-1F EU-132-1G EU-132-1H EU-132-1I EU-132-1J EU-132-1K
		EU-132-1L EU-132-1M EU-132-1N EU-132-1O EU-132-1P EU-132-1Q EU-135-1 EU-135-1-A EU-135-1-B EU-135-1-C EU-135-1-D EU-135-1-E EU-135-1-F
		EU-135-1-G EU-135-1-H EU-135-1-I EU-135-1-J EU-135-1-K EU-135-1-L EU-139 EU-143 EU-143-1A EU-143-1B EU-143-1C EU-143-1D EU-143-1E
		EU-143-1F EU-143-1FA EU-143-1G EU-143-1H EU-143-1I EU-143-1J EU-143-1K EU-143-1L EU-144 EU-146-1E EU-148 EU-148-A EU-148-B EU-148-C
		EU-148-D EU-148-E EU-148-F EU-148-G EU-151 EU-151-1A EU-151-1AA EU-151-1B EU-151-1C EU-151-1D EU-151-1E EU-153 EU-159 EU-309 EU-AE
		EU-D EU-F EU-G EU-I EU-IC EU-J EU-O FR-FRANCHISE FR-CNWVAT FR-CGI261-1 FR-CGI261-2 FR-CGI261-3 FR-CGI261-4 FR-CGI261-5 FR-CGI261-7
		FR-CGI261-8 FR-CGI261A FR-CGI261B FR-CGI261C-1 FR-CGI261C-2 FR-CGI261C-3 FR-CGI261D-1 FR-CGI261D-1BIS FR-CGI261D-2 FR-CGI261D-3
		FR-CGI261D-4 FR-CGI261E-1 FR-CGI261E-2 FR-CGI275 FR-CGI277A FR-CGI295 FR-298SEXDECIESA FR-AE`)
)

// isICD reports whether a code has the form of an ISO 6523 scheme: four digits, not beginning with
// 99. Schemes 99xx exist in the EAS list only.
func isICD(code string) bool { return digits(4, 4)(code) && !strings.HasPrefix(code, "99") }

// isEAS reports whether a code has the form of a scheme of electronic addresses: four digits, or
// one of the few alphabetic schemes.
func isEAS(code string) bool { return digits(4, 4)(code) || list("AN AQ AS AU EM").has(code) }

// isCurrency reports whether a code is a current or former currency.
func isCurrency(code string) bool { return currencies.has(code) || formerCurrencies.has(code) }

// isVATEX reports whether a code begins with VATEX-, ignoring case; the rest is not checked.
func isVATEX(code string) bool { return strings.HasPrefix(strings.ToUpper(code), "VATEX-") }

// isKnownVATEX reports whether a code that begins with VATEX- is in the list. Other codes pass.
func isKnownVATEX(code string) bool {
	return !isVATEX(code) || vatex.has(strings.TrimPrefix(strings.ToUpper(code), "VATEX-"))
}

// digits and capitals return checks that a code has least to most characters, all digits, or all
// digits or capital letters.
func digits(least, most int) func(string) bool { return form(least, most, false) }

// capitals returns a check for codes of least to most capital letters or digits, as form defines
// them.
func capitals(least, most int) func(string) bool { return form(least, most, true) }

// form returns a check on the length of a code and on its characters: digits, and capital letters
// if letter is true.
func form(least, most int, letter bool) func(string) bool {
	return func(code string) bool {
		for _, c := range []byte(code) {
			if !(letter && c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') {
				return false
			}
		}
		return len(code) >= least && len(code) <= most
	}
}

// IsCredit reports whether a document type (BT-3) is a credit note, whose amounts reduce the debt.
func IsCredit(typ string) bool { return creditTypes.has(typ) }
