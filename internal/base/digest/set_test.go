package digest

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
)

var (
	hex64 = strings.Repeat("0a", 32)
	hex32 = strings.Repeat("0b", 16)
	bin32 = bytes.Repeat([]byte{0x0a}, 32)
	bin16 = bytes.Repeat([]byte{0x0b}, 16)
)

// wantBad fails unless err is the BadRequest for field and reason.
func wantBad(t *testing.T, err error, field string, reason drive.Reason) {
	t.Helper()
	e, ok := err.(*drive.Error)
	if !ok || e.Kind != drive.BadRequest || e.Args["field"] != field || e.Args["reason"] != string(reason) {
		t.Errorf("error = %v, want bad-request for %s, %s", err, field, reason)
	}
}

func TestParseSet(t *testing.T) {
	t.Parallel()
	all := map[string]string{"blake3": hex64, "sha256": hex64, "sm3": hex64, "md5": hex32}
	got, err := ParseSet(all)
	if err != nil {
		t.Fatal(err)
	}
	want := Set{Blake3: bin32, SHA256: bin32, SM3: bin32, MD5: bin16}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(all, got.Hex()); diff != "" {
		t.Errorf("Hex: -want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]Algo{SHA256, SM3, MD5}, got.Aliases()); diff != "" {
		t.Errorf("Aliases: -want +got:\n%s", diff)
	}
	if s := got.List()[3].String(); s != "md5:"+hex32 {
		t.Errorf("last digest = %s", s)
	}
}

func TestParseSetRejectsMalformed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in     map[string]string
		field  string
		reason drive.Reason
	}{
		"unknown":          {map[string]string{"sha3": hex64}, "digests", drive.NotAllowed},
		"wrong case name":  {map[string]string{"MD5": hex32}, "digests", drive.NotAllowed},
		"empty name":       {map[string]string{"": hex32}, "digests", drive.NotAllowed},
		"empty":            {map[string]string{"md5": ""}, "digests.md5", drive.Malformed},
		"short":            {map[string]string{"md5": hex32[2:]}, "digests.md5", drive.Malformed},
		"long":             {map[string]string{"md5": hex32 + "00"}, "digests.md5", drive.Malformed},
		"md5 as sha256":    {map[string]string{"sha256": hex32}, "digests.sha256", drive.Malformed},
		"upper case":       {map[string]string{"blake3": strings.ToUpper(hex64)}, "digests.blake3", drive.Malformed},
		"no hex":           {map[string]string{"sm3": "zz" + hex64[2:]}, "digests.sm3", drive.Malformed},
		"g":                {map[string]string{"sm3": hex64[1:] + "g"}, "digests.sm3", drive.Malformed},
		"space":            {map[string]string{"sm3": " " + hex64[1:]}, "digests.sm3", drive.Malformed},
		"multi-byte rune":  {map[string]string{"sm3": "é" + hex64[2:]}, "digests.sm3", drive.Malformed},
		"the first of two": {map[string]string{"sm3": "", "md5": ""}, "digests.md5", drive.Malformed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set, err := ParseSet(c.in)
			wantBad(t, err, c.field, c.reason)
			if set != nil {
				t.Errorf("and a set: %v", set)
			}
		})
	}
}

func TestSetJSON(t *testing.T) {
	t.Parallel()
	const in = `{"md5":"900150983cd24fb0d6963f7d28e17f72"}`
	var s Set
	if err := json.Unmarshal([]byte(in), &s); err != nil {
		t.Fatal(err)
	}
	if out, err := json.Marshal(s); err != nil || string(out) != in {
		t.Errorf("%s, %v; want %s", out, err, in)
	}
	if out, err := json.Marshal(struct{ D Set }{}); err != nil || string(out) != `{"D":{}}` {
		t.Errorf("no digests: %s, %v", out, err)
	}
	for _, bad := range []string{`{"md5":1}`, `[]`, `"md5"`, `{"md5":null}`, `{"crc":"00"}`} {
		if err := json.Unmarshal([]byte(bad), &s); !drive.IsKind(err, drive.BadRequest) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestSetComparisons(t *testing.T) {
	t.Parallel()
	other := bytes.Repeat([]byte{9}, 32)
	for name, c := range map[string]struct {
		a, b          Set
		equal, same   bool
		strongA       bool
		checkAgainstB drive.Kind
		checkPasses   bool
	}{
		"nothing":                 {nil, Set{}, true, false, false, 0, true},
		"equal strong":            {Set{SHA256: bin32}, Set{SHA256: bin32}, true, true, true, 0, true},
		"strong and more":         {Set{SHA256: bin32}, Set{SHA256: bin32, MD5: bin16}, false, true, true, 0, true},
		"only md5":                {Set{MD5: bin16}, Set{MD5: bin16}, true, false, false, 0, true},
		"md5 equal, sha256 not":   {Set{MD5: bin16, SHA256: bin32}, Set{MD5: bin16, SHA256: other}, false, false, true, drive.DigestMismatch, false},
		"blake3 equal, md5 not":   {Set{MD5: other[:16], Blake3: bin32}, Set{MD5: bin16, Blake3: bin32}, false, false, true, drive.DigestMismatch, false},
		"nothing in common":       {Set{SM3: bin32}, Set{SHA256: bin32}, false, false, true, drive.Internal, false},
		"declared, not computed":  {Set{MD5: bin16}, Set{Blake3: bin32}, false, false, false, drive.Internal, false},
		"same bytes, other names": {Set{Blake3: bin32}, Set{SHA256: bin32}, false, false, true, drive.Internal, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.a.Equal(c.b) != c.equal || c.b.Equal(c.a) != c.equal {
				t.Errorf("Equal is not %v both ways", c.equal)
			}
			if c.a.SameContent(c.b) != c.same || c.b.SameContent(c.a) != c.same {
				t.Errorf("SameContent is not %v both ways", c.same)
			}
			if c.a.Strong() != c.strongA {
				t.Errorf("Strong = %v", c.a.Strong())
			}
			if err := c.a.Check(c.b); (err == nil) != c.checkPasses || (err != nil && drive.KindOf(err) != c.checkAgainstB) {
				t.Errorf("Check = %v", err)
			}
		})
	}
}

func TestCheckReportsMismatch(t *testing.T) {
	t.Parallel()
	err := Set{MD5: bin16}.Check(Set{MD5: make([]byte, 16)})
	want := drive.Args{"algorithm": "md5", "declared": hex32, "computed": strings.Repeat("0", 32)}
	if diff := cmp.Diff(want, err.(*drive.Error).Args); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestSumAndCVText(t *testing.T) {
	t.Parallel()
	var got struct {
		Sum Sum
		CV  CV
	}
	in := `{"Sum":"` + hex64 + `","CV":"` + hex64 + `"}`
	if err := json.Unmarshal([]byte(in), &got); err != nil {
		t.Fatal(err)
	}
	if out, err := json.Marshal(got); err != nil || string(out) != in {
		t.Errorf("%s, %v; want %s", out, err, in)
	}
	if got.Sum.IsZero() || got.CV.IsZero() || !(Sum{}).IsZero() || !(CV{}).IsZero() {
		t.Error("IsZero is wrong")
	}
	for _, bad := range []string{"", hex64 + "0", hex64[1:], strings.ToUpper(hex64)} {
		if s, err := ParseSum(bad); !drive.IsKind(err, drive.BadRequest) || !s.IsZero() {
			t.Errorf("ParseSum(%q) = %v, %v", bad, s, err)
		}
		if cv, err := ParseCV(bad); !drive.IsKind(err, drive.BadRequest) || !cv.IsZero() {
			t.Errorf("ParseCV(%q) = %v, %v", bad, cv, err)
		}
	}
	if s, err := ParseSum(hex64); err != nil || s != got.Sum {
		t.Errorf("ParseSum = %v, %v", s, err)
	}
	if cv, err := ParseCV(hex64); err != nil || cv != got.CV {
		t.Errorf("ParseCV = %v, %v", cv, err)
	}
}

func FuzzParseSet(f *testing.F) {
	f.Add("md5", hex32)
	f.Add("sha256", hex64)
	f.Add("blake3", hex64[:63]+"G")
	f.Fuzz(func(t *testing.T, name, value string) {
		in := map[string]string{name: value}
		set, err := ParseSet(in)
		if err != nil {
			if !drive.IsKind(err, drive.BadRequest) {
				t.Fatalf("%q: %v", in, err)
			}
			return
		}
		if diff := cmp.Diff(in, set.Hex()); diff != "" {
			t.Fatalf("what was accepted has another spelling: -in +out:\n%s", diff)
		}
		var again Set
		if b, err := json.Marshal(set); err != nil || json.Unmarshal(b, &again) != nil || !again.Equal(set) {
			t.Fatalf("%q does not survive JSON: %v", in, err)
		}
	})
}
