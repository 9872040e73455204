package digest

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
)

// The example of RFC 9530 appendix B.1: {"hello": "world"} and a line feed.
const (
	helloBody  = "{\"hello\": \"world\"}\n"
	helloField = "sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:"
)

func TestParseContentDigest(t *testing.T) {
	t.Parallel()
	sha := mustBase64(t, "RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=")
	crc := []byte{0xe3, 0x06, 0x92, 0x83}
	for name, c := range map[string]struct {
		in   string
		want []FieldDigest
	}{
		"absent":             {"", nil},
		"blank":              {"  ", nil},
		"sha-256":            {helloField, []FieldDigest{{FieldSHA256, sha}}},
		"crc32c":             {"crc32c=:4waSgw==:", []FieldDigest{{FieldCRC32C, crc}}},
		"both":               {"crc32c=:4waSgw==: \t,\t" + helloField, []FieldDigest{{FieldSHA256, sha}, {FieldCRC32C, crc}}},
		"unknown beside":     {"sha-512=:AAAA:,*x_9.-=::, " + helloField, []FieldDigest{{FieldSHA256, sha}}},
		"spaces around":      {"  " + helloField + " ", []FieldDigest{{FieldSHA256, sha}}},
		"no padding":         {"crc32c=:4waSgw:", []FieldDigest{{FieldCRC32C, crc}}},
		"padding bits":       {"crc32c=:4waSgz==:", []FieldDigest{{FieldCRC32C, crc}}},
		"the last one holds": {"crc32c=:AAAAAA==:, crc32c=:4waSgw==:", []FieldDigest{{FieldCRC32C, crc}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseContentDigest(c.in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestParseContentDigestRejectsMalformed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in     string
		reason drive.Reason
	}{
		"none known":        {"sha-512=:AAAA:, md5=:AAAA:", drive.NotAllowed},
		"RFC 3230's form":   {"SHA-256=RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=", drive.Malformed},
		"upper case key":    {"SHA-256=:AAAA:", drive.Malformed},
		"no value":          {"sha-256", drive.Malformed},
		"token":             {"sha-256=abc", drive.Malformed},
		"string":            {`sha-256="abc"`, drive.Malformed},
		"boolean":           {"sha-256=?1", drive.Malformed},
		"open end":          {"sha-256=:AAAA", drive.Malformed},
		"parameter":         {helloField + ";a=1", drive.Malformed},
		"trailing comma":    {helloField + ",", drive.Malformed},
		"leading comma":     {"," + helloField, drive.Malformed},
		"two commas":        {helloField + ",," + helloField, drive.Malformed},
		"no comma":          {helloField + " " + helloField, drive.Malformed},
		"space before =":    {"sha-256 =:AAAA:", drive.Malformed},
		"space after =":     {"sha-256= :AAAA:", drive.Malformed},
		"leading tab":       {"\t" + helloField, drive.Malformed},
		"line break inside": {"sha-256=:RK/0qy18MlBSVnWgjwz6\r\nlZEWjP/lF5HF9bvEF8FabDg=:", drive.Malformed},
		"url alphabet":      {"sha-256=:RK_0qy18MlBSVnWgjwz6lZEWjP_lF5HF9bvEF8FabDg=:", drive.Malformed},
		"too much padding":  {"crc32c=:4waSgw===:", drive.Malformed},
		"padding inside":    {"crc32c=:4w==aSgw:", drive.Malformed},
		"one digit over":    {"crc32c=:4waSgwA:", drive.Malformed},
		"empty value":       {"crc32c=::", drive.Malformed},
		"hex":               {"sha-256=:" + strings.Repeat("0", 64) + ":", drive.Malformed},
		"crc of 8 bytes":    {"crc32c=:AAAAAAAAAAA=:", drive.Malformed},
		"bad unknown":       {"foo=bar, " + helloField, drive.Malformed},
		"not ASCII":         {"sha-256=:é:", drive.Malformed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseContentDigest(c.in)
			wantBad(t, err, "Content-Digest", c.reason)
			if got != nil {
				t.Errorf("and digests: %v", got)
			}
		})
	}
}

func TestReprDigest(t *testing.T) {
	t.Parallel()
	set, err := ParseReprDigest(helloField)
	if err != nil {
		t.Fatal(err)
	}
	if got := FormatReprDigest(set); got != helloField {
		t.Errorf("%q, want %q", got, helloField)
	}
	if err := set.Check(direct([]byte(helloBody))); err != nil {
		t.Error(err)
	}
	if got := FormatReprDigest(Set{Blake3: bin32, MD5: bin16}); got != "" {
		t.Errorf("without SHA-256: %q", got)
	}
	if set, err := ParseReprDigest(""); len(set) > 0 || err != nil {
		t.Errorf("absent: %v, %v", set, err)
	}
	_, err = ParseReprDigest("crc32c=:4waSgw==:")
	wantBad(t, err, "Repr-Digest", drive.NotAllowed)
}

func TestVerifier(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		field, body string
		mismatch    string // the algorithm that must be named
	}{
		"nothing declared": {"", "any", ""},
		"right":            {helloField, helloBody, ""},
		"crc32c":           {"crc32c=:4waSgw==:", "123456789", ""},
		"both right":       {"crc32c=:4waSgw==:, sha-256=:FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU=:", "123456789", ""},
		"cut body":         {helloField, helloBody[1:], "sha-256"},
		"empty body":       {helloField, "", "sha-256"},
		"one of two wrong": {"crc32c=:AAAAAA==:, sha-256=:FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU=:", "123456789", "crc32c"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			declared, err := ParseContentDigest(c.field)
			if err != nil {
				t.Fatal(err)
			}
			v := NewVerifier(declared)
			for i := range len(c.body) { // byte by byte
				_, _ = v.Write([]byte{c.body[i]})
			}
			err = v.Verify()
			if c.mismatch == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			e, ok := err.(*drive.Error)
			if !ok || e.Kind != drive.DigestMismatch || e.Args["algorithm"] != c.mismatch {
				t.Fatalf("Verify = %v, want a mismatch of %s", err, c.mismatch)
			}
			if e.Args["declared"] == e.Args["computed"] || e.Args["computed"] == "" {
				t.Errorf("args = %v", e.Args)
			}
		})
	}
}

func mustBase64(t *testing.T, s string) []byte {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func FuzzParseContentDigest(f *testing.F) {
	f.Add(helloField)
	f.Add("crc32c=:4waSgw==:, sha-512=:AAAA:")
	f.Add("a=::,b=:AA==: \t, crc32c=:4waSgw:")
	f.Fuzz(func(t *testing.T, in string) {
		list, err := ParseContentDigest(in)
		if err != nil {
			if !drive.IsKind(err, drive.BadRequest) {
				t.Fatalf("%q: %v", in, err)
			}
			return
		}
		for _, d := range list {
			if len(d.Value) != d.Algo.Size() || !strings.Contains(in, string(d.Algo)+"=:") {
				t.Fatalf("%q: %s of %x", in, d.Algo, d.Value)
			}
		}
		var members []string
		for _, d := range list {
			members = append(members, string(d.Algo)+"=:"+base64.StdEncoding.EncodeToString(d.Value)+":")
		}
		again, err := ParseContentDigest(strings.Join(members, ", "))
		if diff := cmp.Diff(list, again); err != nil || diff != "" {
			t.Fatalf("%q does not survive: %v\n%s", in, err, diff)
		}
	})
}
