package account

import (
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"example.org/smartdrive/internal/base/drive"
)

// scripts lists the scripts of names. Scripts in one line may be mixed (Unicode TR39 §5.2, highly
// restrictive); those of the last line also with the first one, Latin (see cjk). Letters of all
// other scripts count as one further script.
var scripts = [][]*unicode.RangeTable{
	{unicode.Latin},
	{unicode.Cyrillic},
	{unicode.Greek},
	{unicode.Armenian},
	{unicode.Cherokee},
	{unicode.Coptic},
	{unicode.Lisu},
	{unicode.Georgian},
	{unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Bopomofo, unicode.Hangul},
}

// cjk is the index of the East Asian scripts, which may be mixed with Latin.
var cjk = len(scripts) - 1

// checkNewName refuses names of new users that can be confused with others: with compatibility
// characters (ａ), or with letters of several scripts (Latin d after Cyrillic а). Existing names
// stay valid.
func checkNewName(name string) error {
	switch {
	case norm.NFKC.String(name) != name:
		return drive.BadField("name", drive.Malformed, "expected", "no compatibility characters, such as full-width letters")
	case MixesScripts(name):
		return drive.BadField("name", drive.Malformed, "expected", "letters of one script")
	}
	return nil
}

// MixesScripts reports whether a name mixes letters of scripts that are not used together.
func MixesScripts(name string) bool {
	seen := map[int]bool{}
	for _, r := range name {
		if !unicode.IsLetter(r) || unicode.Is(unicode.Common, r) {
			continue
		}
		seen[scriptOf(r)] = true
	}
	return len(seen) > 2 || len(seen) == 2 && !(seen[0] && seen[cjk])
}

// scriptOf returns the index of a letter's script in scripts, or -1.
func scriptOf(r rune) int {
	for i, line := range scripts {
		if unicode.In(r, line...) {
			return i
		}
	}
	return -1
}

// lookalikes maps a character to those that look alike in common fonts: the single-character pairs
// of Unicode's confusables.txt (TR39), for the scripts in which whole words can be written that
// way. Each group lists ASCII first.
var lookalikes = parseGroups(`
	6бᏮⳒ AАΑᎪꓮ aɑаα BꞴВΒᏴꓐ bƄЬᏏ CСᏟⲤꓚ cᴄсꮯⲥ DᎠꓓ dԁᏧꓒ EЕΕᎬꓰ eɛꞓєԑεꮛⲉ eꬲеҽ FꞘϜꓝ fẝꞙꬵք GԌᏀᏳꓖ gƍɡᶃց
	HНΗᎻⲎꓧ hһհᏂ iıɩɪіꙇιᎥꭵ IɪƖǀІΙⲒꓲ JꞲЈͿᎫꓙ jȷյ jјϳ KКΚᏦⲔꓗ kĸᴋкκꮶⲕ Lʟꮮⳑ LԼᏞⳐꓡ lӀӏ MМΜϺᎷⲘꓟ NɴΝⲚꓠ nпπᴨ
	nոռ OОΟՕⲞꓳ oᴏᴑꬽоοσօⲟჿ PРΡᏢⲢꓑ pрρⲣք QԚ qԛգզ RƦᎡᏒꓣ Rʀꭱꮢ rꭇꭈгᴦꮁⲅ SЅՏᏕᏚꓢ sƽꜱѕꮪ TТΤᎢⲦꓔ tᴛтτꭲ UՍꓴ
	uʋᴜꞟꭎꭒυս VѴᏙꓦ vᴠѵνꮩ WԜᎳᏔꓪ wɯᴡѡԝաꮃ wꞷꙍωⲱ XꞳХΧⲬꓫ xх xꭓꭕχⲭ Yyɣʏᶌỿꭚуүγყ YУҮΥᎩᎽⲨꓬ ZΖᏃꓜ zᴢꮓ ßꞵβᏰ ÞϷ
	þƿϸ ţƫțᎿ ƅьꮟ ǶԊ ƧꝚꙄϨ ƨᴤꙅϩ Ǝꓱ ǝəә ȝʒꝫӡⳍჳ ɁʔᎮ ɂꭾ Ɐꓯ ƆϽꓛ ɔᴐↄͻ ƏӘ ƐԐᏋ ɜᴈз ɢԍᏻꮐ ɰպ ɸфφⲫ ƩΣ Ʇꓕ ɅЛΛꓥ
	ʌᴧ ʍᴍмꮇ ƷȜꝪꞫЗӠⳌ ʘꙨ ʙвᏼ ʜнꮋ ΔⲆ λⲖ ϗⳤ ГΓᎱⲄ ИͶ ПΠⲠ ФΦՓⲪ ШⲼ шⲽ ѠᏇ ѰΨⲮ ѱψ Ոꓵ ᴀꭺ ᴅꭰ ᴇꭼ ᴊꭻ ᴎиͷ ᴘᴩꮲ ᴙя
	ẟδծ ῶᏯ ⱵͰᎨᎰ ⱶꮀ ꜾϿ ꜿͽ ꝮⳊ ꞆႠ ꞒЄⲈ Ꞟꓤ ꞶꙌ ꭠљ
`)

// parseGroups returns, for each character of the table, its group, itself included.
func parseGroups(table string) map[rune][]rune {
	of := map[rune][]rune{}
	for group := range strings.FieldsSeq(table) {
		for _, r := range group {
			of[r] = append(of[r], []rune(group)...)
		}
	}
	return of
}

// maxLookalikes bounds the names per script that lookalikeSlots returns.
const maxLookalikes = 16

// lookalikeSlots returns the slots of other names, written in one script, that a name can be
// mistaken for: at most maxLookalikes per script.
func lookalikeSlots(name string) (slots []any) {
	seen := map[string]bool{slotOf(name): true}
	for script := range scripts {
		for _, other := range homographs(script, name) {
			if slot := slotOf(other); !seen[slot] {
				seen[slot] = true
				slots = append(slots, slot)
			}
		}
	}
	return slots
}

// homographs returns names in letters of one script that look like name, at most maxLookalikes.
func homographs(script int, name string) []string {
	names := []string{""}
	for _, r := range name {
		var letters []rune
		for _, like := range append([]rune{r}, lookalikes[r]...) {
			at := scriptOf(like)
			fits := at == script || script == 0 && at == cjk || !unicode.IsLetter(like)
			if fits && !slices.Contains(letters, like) {
				letters = append(letters, like)
			}
		}
		var longer []string
		for _, letter := range letters {
			for _, name := range names {
				longer = append(longer, name+string(letter))
			}
		}
		names = longer[:min(len(longer), maxLookalikes)]
	}
	return names
}
