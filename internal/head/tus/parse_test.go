package tus

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/upload"
)

func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

func TestMetadata(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]metadata{
		"":                                   {},
		"filename " + b64("报告.pdf"):          {"filename": "报告.pdf"},
		"a " + b64("1") + ",b,c ":            {"a": "1", "b": "", "c": ""},
		"a " + b64("1") + ", b " + b64("2"):  {"a": "1", "b": "2"},
		"a":                                  {"a": ""},
		"a MQ":                               nil, // no padding
		"a " + b64("1") + ",a " + b64("2"):   nil, // not unique
		",":                                  nil,
		"a  MQ==":                            nil,
		"a MQ==\r\n":                         nil,
		"a " + strings.Repeat("A", 4<<10):    nil,
		"a MQ==,,b MQ==":                     nil,
		"filename " + b64("x") + " " + "MQ=": nil,
	} {
		got, err := parseMetadata(in)
		if want == nil {
			if !drive.IsKind(err, drive.BadRequest) {
				t.Errorf("%q was taken for %v: %v", in, got, err)
			}
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%q: %v %s", in, err, diff)
		}
	}
}

func TestMetadataTarget(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   metadata
		want string // "": refused
	}{
		{metadata{"filename": "a.txt"}, "/a.txt"},
		{metadata{"name": "a.txt", "relativePath": "null"}, "/a.txt"}, // Uppy
		{metadata{"name": "a.txt", "filename": "b.txt"}, "/b.txt"},
		{metadata{"name": "a.txt", "relativePath": "photos/2026/a.txt"}, "/photos/2026/a.txt"},
		{metadata{"name": "a.txt", "relativePath": "/photos/a.txt", "path": "/in/"}, "/in/photos/a.txt"},
		{metadata{"path": "/docs/", "filename": "a.txt"}, "/docs/a.txt"},
		{metadata{"path": "/docs/b.txt", "filename": "a.txt"}, "/docs/b.txt"},
		{metadata{"path": "docs/b.txt"}, "/docs/b.txt"},
		{metadata{"filename": "../a"}, ""},
		{metadata{"filename": "a/b"}, ""},
		{metadata{"path": "/../a"}, ""},
		{metadata{"path": "//a"}, ""},
		{metadata{"path": "//Team/a", "filename": "b"}, "//Team/a"},
		{metadata{"path": "//Team/", "filename": "b"}, "//Team/b"},
		{metadata{"path": "//Team/in/", "relativePath": "x/b"}, "//Team/in/x/b"},
		{metadata{"path": "///a"}, ""},
		{metadata{"relativePath": "a/../../b"}, ""},
		{metadata{"filename": "a\x00b"}, ""},
		{metadata{"filename": "."}, ""},
	} {
		b, err := c.in.readBegin()
		if got := (drive.Address{Place: b.Place, Path: b.Path}).String(); c.want != "" && (err != nil || got != c.want) || c.want == "" && !drive.IsKind(err, drive.BadName) {
			t.Errorf("%v goes to %s: %v", c.in, got, err)
		}
	}
}

func TestNamelessFilesGetUniqueNames(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, m := range []metadata{{}, {}, {"path": "/"}, {"filename": "null"}} {
		b, err := m.readBegin()
		at := b.Path.String()
		if err != nil || !strings.HasPrefix(at, "/upload-") || seen[at] {
			t.Errorf("%v goes to %s: %v", m, at, err)
		}
		seen[at] = true
	}
}

func TestMetadataOptions(t *testing.T) {
	t.Parallel()
	sum := strings.Repeat("ab", 32)
	b, err := metadata{"filename": "a", "filetype": "text/plain; charset=utf-8", "conflict": "fail", "sha256": sum, "md5": sum[:32]}.readBegin()
	if err != nil || b.Mime != "text/plain; charset=utf-8" || b.Conflict != drive.ConflictFail || !b.Parents || b.Protocol != upload.Tus {
		t.Errorf("read %+v: %v", b, err)
	}
	if diff := cmp.Diff(map[string]string{"sha256": sum, "md5": sum[:32]}, b.Digests.Hex()); diff != "" {
		t.Error(diff)
	}
	if b, err := (metadata{"filename": "a", "type": "text/plain;\r\n x=y"}).readBegin(); err != nil || b.Mime != "" {
		t.Errorf("a type over two lines: %+v, %v", b, err)
	}
	if b, err := (metadata{"filename": "a", "type": "nonsense"}).readBegin(); err != nil || b.Mime != "" || b.Conflict != drive.ConflictRename {
		t.Errorf("read %+v: %v", b, err)
	}
	for _, bad := range []metadata{{"sha256": "ab"}, {"md5": ""}, {"blake3": strings.Repeat("x", 64)}, {"conflict": "merge"}} {
		if _, err := bad.readBegin(); !drive.IsKind(err, drive.BadRequest) {
			t.Errorf("%v was taken: %v", bad, err)
		}
	}
}

func TestChecksum(t *testing.T) {
	t.Parallel()
	// echo -n hello | openssl sha1 -binary | base64, and so on
	for in, algo := range map[string]digest.FieldAlgo{
		"sha1 qvTGHdzF6KLavt4PO0gs2a6pQ00=":                   digest.FieldSHA1,
		"md5 XUFAKrxLKna5cZ2REBfFkg==":                        digest.FieldMD5,
		"sha256 LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=": digest.FieldSHA256,
		"crc32 NhCmhg==":                                      digest.FieldCRC32,
	} {
		declared, err := parseChecksum(in)
		if err != nil || declared.Algo != algo {
			t.Errorf("%s: %v %v", in, declared, err)
			continue
		}
		right, wrong := digest.NewVerifier([]digest.FieldDigest{declared}), digest.NewVerifier([]digest.FieldDigest{declared})
		_, _ = right.Write([]byte("hello"))
		_, _ = wrong.Write([]byte("hallo"))
		if err := right.Verify(); err != nil {
			t.Errorf("%s: %v", in, err)
		}
		if err := wrong.Verify(); !drive.IsKind(err, drive.DigestMismatch) {
			t.Errorf("%s is of other bytes, too: %v", in, err)
		}
	}
	for _, in := range []string{"", "sha1", "sha1 ", "sha512 AAAA", "SHA1 qvTGHdzF6KLavt4PO0gs2a6pQ00=", "md5 qvTGHdzF6KLavt4PO0gs2a6pQ00=", "sha1 %%"} {
		if _, err := parseChecksum(in); !drive.IsKind(err, drive.BadRequest) {
			t.Errorf("%q was taken: %v", in, err)
		}
	}
}

func TestConcat(t *testing.T) {
	t.Parallel()
	a, b := drive.NewID[drive.UploadID](), drive.NewID[drive.UploadID]()
	ids := []drive.UploadID{a, b}
	for in, want := range map[string]concat{
		"":        {},
		"partial": {partial: true},
		"final;/tus/" + a.String() + " /tus/" + b.String():                                     {final: true, partials: ids},
		"final;https://d.example/drive/tus/" + a.String() + "  http://x/tus/" + b.String():     {final: true, partials: ids},
		"final;" + a.String() + " " + b.String():                                               {final: true, partials: ids},
		"final; /tus/" + a.String() + " /tus/" + b.String() + " /drive/tus/" + a.String() + "": {final: true, partials: []drive.UploadID{a, b, a}},
	} {
		got, err := parseConcat(in)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(concat{})); diff != "" || err != nil {
			t.Errorf("%q: %v %s", in, err, diff)
		}
	}
	for _, in := range []string{
		"Partial", "final", "final;", "final;/tus/", "final;/files/" + a.String(), "final;/tus/x", "final;/tus/" + a.String() + "?x=1",
		"final;" + strings.Repeat(a.String()+" ", maxPartials+1), "final;%zz",
	} {
		if got, err := parseConcat(in); !drive.IsKind(err, drive.BadRequest) {
			t.Errorf("%q was taken for %v: %v", in, got, err)
		}
	}
}

func TestNumber(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]drive.ByteSize{"0": 0, "007": 7, "9223372036854775807": 1<<63 - 1, "": -1, "-1": -1, "+1": -1, " 1": -1, "1e3": -1, "9223372036854775808": -1} {
		got, err := parseNumber("Upload-Offset", in)
		if want < 0 && !drive.IsKind(err, drive.BadRequest) || want >= 0 && (err != nil || got != want) {
			t.Errorf("%q: %d, %v", in, got, err)
		}
	}
}

func TestEveryErrorKindHasStatus(t *testing.T) {
	t.Parallel()
	want := map[drive.Kind]int{drive.DigestMismatch: 460, drive.InProgress: 423, drive.PartsMissing: 400}
	for _, kind := range drive.Kinds() {
		if got := statusOf(drive.Fail(kind)); got != want[kind] {
			t.Errorf("%s is answered with %d", kind, got)
		}
	}
	if got := statusOf(&completionError{drive.Fail(drive.DigestMismatch)}); got != 0 {
		t.Errorf("a file that is not what was declared is answered with %d", got)
	}
	if got := statusOf(&completionError{drive.Fail(drive.PartsMissing)}); got != 0 {
		t.Errorf("a file that lacks parts is answered with %d", got)
	}
}
