package account

import (
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"smartdrive/internal/base/drive"
)

// scripts are those that a name is written in: a letter of none of them counts as a script of its
// own. The ones of one line are used together (Unicode TR39 §5.2, highly restrictive).
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

// latinBeside is the script that stands beside Latin letters in names everywhere.
var latinBeside = len(scripts) - 1

// checkNewName refuses names that a new user must not have because they look like other names: with
// characters that only look different in their compatibility form (ａ), or with letters of several
// scripts (Latin d after Cyrillic а). Names that users have already stay valid.
func checkNewName(name string) error {
	switch {
	case norm.NFKC.String(name) != name:
		return drive.Bad("name", drive.Malformed, "expected", "no compatibility characters, such as full-width letters")
	case MixesScripts(name):
		return drive.Bad("name", drive.Malformed, "expected", "letters of one script")
	}
	return nil
}

// MixesScripts reports whether a name has letters of several scripts that are not used together.
func MixesScripts(name string) bool {
	seen := map[int]bool{}
	for _, r := range name {
		if !unicode.IsLetter(r) || unicode.Is(unicode.Common, r) {
			continue
		}
		seen[scriptOf(r)] = true
	}
	return len(seen) > 2 || len(seen) == 2 && !(seen[0] && seen[latinBeside])
}

// scriptOf returns the index in scripts of the script that a letter belongs to, or -1.
func scriptOf(r rune) int {
	for i, line := range scripts {
		if unicode.In(r, line...) {
			return i
		}
	}
	return -1
}

// lookalikes are groups of letters, and a digit, that look alike in common fonts, ASCII first: the
// part of Unicode's confusables.txt (TR39) that pairs one character with one, for the scripts of
// scripts in which whole words can be written that way.
var lookalikes = groups(`
	6бᏮⳒ AАΑᎪꓮ aɑаα BꞴВΒᏴꓐ bƄЬᏏ CСᏟⲤꓚ cᴄсꮯⲥ DᎠꓓ dԁᏧꓒ EЕΕᎬꓰ eɛꞓєԑεꮛⲉ eꬲеҽ FꞘϜꓝ fẝꞙꬵք GԌᏀᏳꓖ gƍɡᶃց
	HНΗᎻⲎꓧ hһհᏂ iıɩɪіꙇιᎥꭵ IɪƖǀІΙⲒꓲ JꞲЈͿᎫꓙ jȷյ jјϳ KКΚᏦⲔꓗ kĸᴋкκꮶⲕ Lʟꮮⳑ LԼᏞⳐꓡ lӀӏ MМΜϺᎷⲘꓟ NɴΝⲚꓠ nпπᴨ
	nոռ OОΟՕⲞꓳ oᴏᴑꬽоοσօⲟჿ PРΡᏢⲢꓑ pрρⲣք QԚ qԛգզ RƦᎡᏒꓣ Rʀꭱꮢ rꭇꭈгᴦꮁⲅ SЅՏᏕᏚꓢ sƽꜱѕꮪ TТΤᎢⲦꓔ tᴛтτꭲ UՍꓴ
	uʋᴜꞟꭎꭒυս VѴᏙꓦ vᴠѵνꮩ WԜᎳᏔꓪ wɯᴡѡԝաꮃ wꞷꙍωⲱ XꞳХΧⲬꓫ xх xꭓꭕχⲭ Yyɣʏᶌỿꭚуүγყ YУҮΥᎩᎽⲨꓬ ZΖᏃꓜ zᴢꮓ ßꞵβᏰ ÞϷ
	þƿϸ ţƫțᎿ ƅьꮟ ǶԊ ƧꝚꙄϨ ƨᴤꙅϩ Ǝꓱ ǝəә ȝʒꝫӡⳍჳ ɁʔᎮ ɂꭾ Ɐꓯ ƆϽꓛ ɔᴐↄͻ ƏӘ ƐԐᏋ ɜᴈз ɢԍᏻꮐ ɰպ ɸфφⲫ ƩΣ Ʇꓕ ɅЛΛꓥ
	ʌᴧ ʍᴍмꮇ ƷȜꝪꞫЗӠⳌ ʘꙨ ʙвᏼ ʜнꮋ ΔⲆ λⲖ ϗⳤ ГΓᎱⲄ ИͶ ПΠⲠ ФΦՓⲪ ШⲼ шⲽ ѠᏇ ѰΨⲮ ѱψ Ոꓵ ᴀꭺ ᴅꭰ ᴇꭼ ᴊꭻ ᴎиͷ ᴘᴩꮲ ᴙя
	ẟδծ ῶᏯ ⱵͰᎨᎰ ⱶꮀ ꜾϿ ꜿͽ ꝮⳊ ꞆႠ ꞒЄⲈ Ꞟꓤ ꞶꙌ ꭠљ
`)

// groups returns for each character those that it looks like, itself included.
func groups(table string) map[rune][]rune {
	of := map[rune][]rune{}
	for group := range strings.FieldsSeq(table) {
		for _, r := range group {
			of[r] = append(of[r], []rune(group)...)
		}
	}
	return of
}

// maxLookalikes bounds the names of one script that lookalikesOf returns.
const maxLookalikes = 16

// lookalikesOf returns the slots of the names in one script that a name could be taken for, not its
// own. Where a script has several letters for one, only the first maxLookalikes names are returned.
func lookalikesOf(name string) (slots []any) {
	seen := map[string]bool{slotOf(name): true}
	for script := range scripts {
		for _, other := range writtenIn(script, name) {
			if slot := slotOf(other); !seen[slot] {
				seen[slot] = true
				slots = append(slots, slot)
			}
		}
	}
	return slots
}

// writtenIn returns the names of letters of one script that look like a name, at most
// maxLookalikes.
func writtenIn(script int, name string) []string {
	names := []string{""}
	for _, r := range name {
		var letters []rune
		for _, like := range append([]rune{r}, lookalikes[r]...) {
			at := scriptOf(like)
			fits := at == script || script == 0 && at == latinBeside || !unicode.IsLetter(like)
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
