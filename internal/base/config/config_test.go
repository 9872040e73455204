package config

import (
	"errors"
	"flag"
	"io/fs"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"example.org/smartdrive/internal/base/drive"
)

var update = flag.Bool("update", false, "write docs/configuration.md")

const docs = "../../../docs/configuration.md"

// load parses args like the serve command, with a home directory and one file.
func load(args []string, env []string, file string) (Config, error) {
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	flags.Usage = func() {}
	AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		return Config{}, FlagError(err)
	}
	return Load(flags, append([]string{"HOME=/home/ann"}, env...), func(name string) ([]byte, error) {
		if name != "drive.yaml" {
			return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		}
		return []byte(file), nil
	})
}

func TestLoadDefaults(t *testing.T) {
	t.Parallel()
	c, err := load(nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		Data: "/home/ann/.local/share/smartdrive", Blobs: "/home/ann/.local/share/smartdrive", Listen: "127.0.0.1:8320",
		UploadIdle: 30 * time.Second, UploadAbandon: 7 * 24 * time.Hour, UploadMaxAge: 30 * 24 * time.Hour, UploadMaxOpen: 1000, MaxNodes: 1_000_000,
		PartSize: 8 * drive.MiB, Durability: DurabilityProcess, InstantScope: InstantInstance, InstantMax: 64 * drive.GiB,
		DAV: true, DAVLitter: LitterKeep, Nextcloud: true,
		SignOn:       SignOn{Scopes: []string{"profile", "email"}, GroupsClaim: "groups", Create: true, Life: 7 * 24 * time.Hour},
		DefaultQuota: new(10 * drive.GiB), MinFree: drive.GiB, PreviewHelpers: HelpersFound, UserRequests: 32, AddressRequests: 128,
		Scrub: 30 * 24 * time.Hour, TrashKeep: 30 * 24 * time.Hour, ActivityKeep: 180 * 24 * time.Hour, BlobGrace: 15 * time.Minute, LogFormat: "text",
		Namespace: "smartdrive", Roles: Roles{API: true, Scheduler: true, Worker: true, Export: true, Ingest: true}, StartWait: 30 * time.Second,
		ExportAddresses: AddressesPublic, WebhookAddresses: AddressesPublic, ExportMaxDocument: 256 * drive.MiB, ExportMaxEntries: 10_000, ExportMaxSize: 256 * drive.GiB, ExportKeep: 7 * 24 * time.Hour, ExportLate: time.Hour,
		ExportMinFree: 10 * drive.GiB, MigrationKeep: 7 * 24 * time.Hour,
	}
	if diff := cmp.Diff(want, c, cmp.AllowUnexported(Config{})); diff != "" {
		t.Error(diff)
	}
}

func TestTheDefaultQuotaCanBeUnlimited(t *testing.T) {
	t.Parallel()
	c, err := load([]string{"--default-quota=unlimited"}, nil, "")
	if err != nil || c.DefaultQuota != nil {
		t.Errorf("it is %v: %v", c.DefaultQuota, err)
	}
	if _, err := load([]string{"--default-quota=much"}, nil, ""); err == nil || !strings.Contains(err.Error(), "or unlimited") {
		t.Errorf("what is not a size: %v", err)
	}
}

func TestFlagOverridesVariableOverridesFile(t *testing.T) {
	t.Parallel()
	const file = "upload-idle: 3s\nuser-requests: 3\ndefault-quota: 3GiB\nlisten:\n"
	env := []string{"SMARTDRIVE_UPLOAD_IDLE=2s", "SMARTDRIVE_USER_REQUESTS=2", "SMARTDRIVE_CONFIG=drive.yaml", "SMARTDRIVE_MIN_FREE="}
	c, err := load([]string{"--upload-idle=1s"}, env, file)
	if err != nil {
		t.Fatal(err)
	}
	got := []any{c.UploadIdle, c.UserRequests, *c.DefaultQuota, c.MinFree, c.Listen}
	want := []any{time.Second, 2, 3 * drive.GiB, drive.GiB, "127.0.0.1:8320"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestListForms(t *testing.T) {
	t.Parallel()
	want := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	for name, in := range map[string]struct {
		args, env []string
		file      string
	}{
		"one flag":  {args: []string{"--trusted-proxies=10.1.2.3/8, ::1"}},
		"two flags": {args: []string{"--trusted-proxies=10.0.0.0/8", "--trusted-proxies=::1"}},
		"variable":  {env: []string{"SMARTDRIVE_TRUSTED_PROXIES=10.0.0.0/8,::1"}},
		"YAML":      {args: []string{"--config=drive.yaml"}, file: "trusted-proxies:\n  - 10.0.0.0/8\n  - \"::1\"\n"},
		"YAML text": {args: []string{"--config=drive.yaml"}, file: "trusted-proxies: 10.0.0.0/8,::1\n"},
	} {
		c, err := load(in.args, in.env, in.file)
		if diff := cmp.Diff(want, c.TrustedProxies, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); err != nil || diff != "" {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
}

// TestLoadErrorsNameSettingAndRemedy checks that errors name the setting, its source and the
// allowed values.
func TestLoadErrorsNameSettingAndRemedy(t *testing.T) {
	t.Parallel()
	file := []string{"--config=drive.yaml"}
	tests := []struct {
		args, env []string
		file      string
		want      string // each line is a part of the error
	}{
		{args: []string{"--upload-idel=1s"}, want: "no flag --upload-idel\ndid you mean --upload-idle?"},
		{args: []string{"--upload-idle=50ms"}, want: "--upload-idle: 50ms is out of range; use 100ms to 24h"},
		{args: []string{"--upload-idle=30"}, want: `--upload-idle: "30" is not a duration; write it as 100ms, 30s`},
		{env: []string{"SMARTDRIVE_UPLOAD_IDLE=soon"}, want: `--upload-idle (SMARTDRIVE_UPLOAD_IDLE): "soon"`},
		{args: []string{"--part-size=5MiB"}, want: "--part-size: 5MiB is not possible; use a power of two from 1MiB to 1GiB"},
		{args: []string{"--part-size=512KiB"}, want: "--part-size\npower of two"},
		{args: []string{"--part-size=big"}, want: `--part-size: "big" is not a size`},
		{args: []string{"--listen=8320"}, want: `--listen: "8320" is not HOST:PORT`},
		{args: []string{"--listen=:99999"}, want: `--listen: "99999" is not a port`},
		{args: []string{"--listen="}, want: "--listen"},
		{args: []string{"--base-url=example.org"}, want: "--base-url\nhttps://example.org"},
		{args: []string{"--base-url=https://example.org/a//b"}, want: "--base-url\nsingle slashes"},
		{args: []string{"--base-url=https://example.org/api"}, want: "--base-url\nchoose another name"},
		{args: []string{"--trusted-proxies=proxy"}, want: `--trusted-proxies: "proxy" is neither`},
		{args: []string{"--cors-origins=https://a.example/"}, want: "--cors-origins\nwithout a path"},
		{args: []string{"--tls-cert=a.pem"}, want: "--tls-cert and --tls-key\nset both or none"},
		{args: []string{"--download-redirect=25h"}, want: "--download-redirect: 25h is out of range; use 1m to 24h"},
		{args: []string{"--download-redirect=1s"}, want: "--download-redirect: 1s is out of range"},
		{args: []string{"--durability=full"}, want: `--durability: "full" is not one of process, part`},
		{args: []string{"--instant-scope=all"}, want: "--instant-scope\ninstance, user, off"},
		{args: []string{"--user-requests=0"}, want: "--user-requests\nfrom 1 to 10000"},
		{args: []string{"--upload-max-age=1h"}, want: "--upload-max-age: 1h is less than --upload-abandon (168h)"},
		{args: []string{"--data=~/drive"}, want: "--data\nis not expanded"},
		{args: []string{"--log-level=loud"}, want: "--log-level\ndebug, info, warn, error"},
		{args: []string{"--upload-idle=x", "--part-size=y"}, want: "--upload-idle\n--part-size"},
		{args: []string{"--config=none.yaml"}, want: "--config: open none.yaml"},
		{args: file, file: "upload_idle: 1s\n", want: "drive.yaml\nline 1\nno key upload_idle; did you mean upload-idle?"},
		{args: file, file: "colour: red\n", want: "no key colour"},
		{args: file, file: "config: other.yaml\n", want: "no key config"},
		{args: file, file: "\nscrub: 1h\nscrub: 2h\n", want: "drive.yaml"},
		{args: file, file: "listen: [a, b]\n", want: "line 1: listen: expected is a single value"},
		{args: file, file: "upload-idle: 1ms\n", want: "--upload-idle (in drive.yaml): 1ms is out of range"},
		{args: file, file: "- a\n", want: "expected is a mapping"},
		{args: file, file: "scrub: 1h\n---\nscrub: 2h\n", want: "more than one document"},
		{env: []string{"HOME=", "XDG_DATA_HOME=relative"}, want: "--data\nsay which directory"},
	}
	for _, tt := range tests {
		_, err := load(tt.args, tt.env, tt.file)
		if err == nil {
			t.Errorf("%v %v %q: no error, want %q", tt.args, tt.env, tt.file, tt.want)
			continue
		}
		for part := range strings.SplitSeq(tt.want, "\n") {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%v %v %q:\n got %v\nwant %q in it", tt.args, tt.env, tt.file, err, part)
			}
		}
	}
}

func TestAllowedValues(t *testing.T) {
	t.Parallel()
	c, err := load([]string{
		"--base-url=https://example.org/drive/", "--scrub=0", "--trash-keep=30d", "--cors-origins=https://A.example:8443,*",
		"--listen=[::1]:0", "--part-size=16777216", "--blobs=/mnt/blobs", "--min-free=0", "--log-level=debug",
	}, []string{"XDG_DATA_HOME=/data"}, "")
	if err != nil {
		t.Fatal(err)
	}
	got := []any{c.SubPath(), c.Scrub, c.TrashKeep, c.CORSOrigins, c.PartSize, c.Data, c.Blobs, c.MinFree, c.LogLevel.String()}
	want := []any{"/drive", time.Duration(0), 30 * 24 * time.Hour, []string{"https://a.example:8443", "*"}, 16 * drive.MiB, "/data/smartdrive", "/mnt/blobs", drive.ByteSize(0), "DEBUG"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestMistypedVariableIsNoted(t *testing.T) {
	t.Parallel()
	c, err := load(nil, []string{"SMARTDRIVE_UPLOADIDLE=1s", "SMARTDRIVE_TOKEN=x", "SMARTDRIVE_SERVICE_HOST=10.0.0.1", "OTHER=1"}, "")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"SMARTDRIVE_UPLOADIDLE is not a setting and was ignored; did you mean SMARTDRIVE_UPLOAD_IDLE?"}
	if diff := cmp.Diff(want, c.Warnings); diff != "" {
		t.Error(diff)
	}
}

// TestSecretFileVariableIsNotNoted: a variable with the file of a secret is a setting.
func TestSecretFileVariableIsNotNoted(t *testing.T) {
	t.Parallel()
	for _, s := range settings {
		env := environment{s.variable() + "_FILE=/run/secrets/it"}
		if warnings := env.warnings(); s.secret && len(warnings) != 0 {
			t.Errorf("warnings %q", warnings)
		}
	}
}

func TestHelpListsFlagsWithDefaults(t *testing.T) {
	t.Parallel()
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	AddFlags(flags)
	help := flags.FlagUsages()
	for _, s := range settings {
		if !strings.Contains(help, "--"+s.name+" "+s.form) || !strings.Contains(help, s.def) {
			t.Errorf("the help lacks --%s %s or its default %q:\n%s", s.name, s.form, s.def, help)
		}
	}
}

func TestTheDocsAreUpToDate(t *testing.T) {
	t.Parallel()
	if *update {
		if err := os.WriteFile(docs, []byte(Markdown()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Markdown(), string(got)); diff != "" {
		t.Errorf("docs/configuration.md differs; run go test ./internal/base/config -update\n%s", diff)
	}
}

func TestExampleIsUpToDate(t *testing.T) {
	t.Parallel()
	const file = "../../../deploy/config.yaml"
	if *update {
		if err := os.WriteFile(file, []byte(Example()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Example(), string(got)); diff != "" {
		t.Errorf("deploy/config.yaml differs; run go test ./internal/base/config -update\n%s", diff)
	}
}

// The example changes the data directory and nothing else, and each of its keys can be set to what
// it shows as the default.
func TestExampleShowsTheDefaults(t *testing.T) {
	t.Parallel()
	want, err := load([]string{"--data=" + packagedData}, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(Example(), "\n")
	for i, line := range lines {
		key, _, _ := strings.Cut(strings.TrimPrefix(line, "#"), ":")
		if s := find(key); s != nil && s.def != "" {
			lines[i] = strings.TrimPrefix(line, "#")
		}
	}
	for name, text := range map[string]string{"as it is": Example(), "defaults set": strings.Join(lines, "\n")} {
		got, err := load([]string{"--config=drive.yaml"}, nil, text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got.file, got.given = want.file, want.given
		if !reflect.DeepEqual(want, got) {
			t.Errorf("%s: the settings are %+v, the defaults %+v", name, got, want)
		}
	}
}

// FuzzFile checks arbitrary files for panics and for settings outside of their limits.
func FuzzFile(f *testing.F) {
	for _, s := range []string{"", "upload-idle: 1s\n", "trusted-proxies: [10.0.0.0/8]\n", "a: &a [*a]\n", "? {a: b}\n: c\n", "part-size: !!int 1048576\n", "---\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, file string) {
		c, err := load([]string{"--config=drive.yaml"}, nil, file)
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			return
		}
		if c.UploadIdle < 100*time.Millisecond || c.PartSize&(c.PartSize-1) != 0 || c.PartSize < drive.MiB || c.UserRequests < 1 || c.Listen == "" {
			t.Errorf("accepted %+v", c)
		}
	})
}

func TestSignOn(t *testing.T) {
	t.Parallel()
	both := func(issuer string) []string {
		return []string{"--oidc-issuer", issuer, "--oidc-client", "drive", "--base-url", "https://drive.example.org"}
	}
	if _, err := load(both("https://id.example.org")[:4], nil, ""); err == nil || !strings.Contains(err.Error(), "--base-url") {
		t.Errorf("without the address that people use: %v", err)
	}
	for _, issuer := range []string{"https://id.example.org/realms/main", "https://id.example.org/", "http://127.0.0.1:9000", "http://[::1]:9000", "http://localhost:9000"} {
		c, err := load(both(issuer), nil, "")
		if err != nil || c.SignOn.Issuer != issuer || c.SignOn.Name == "" {
			t.Errorf("%s: %+v, %v", issuer, c.SignOn, err)
		}
	}
	for _, issuer := range []string{"id.example.org", "ftp://id.example.org", "https://", "http://id.example.org", "https://u:p@id.example.org", "https://id.example.org/?a=b", "https://id.example.org/.well-known/openid-configuration", "https://[::1"} {
		if _, err := load(both(issuer), nil, ""); err == nil || !strings.Contains(err.Error(), "--oidc-issuer") {
			t.Errorf("%s: %v", issuer, err)
		}
	}
	for _, alone := range [][]string{both("https://id.example.org")[:2], both("https://id.example.org")[2:]} {
		if _, err := load(alone, nil, ""); err == nil || !strings.Contains(err.Error(), alone[0]) {
			t.Errorf("%s alone: %v", alone[0], err)
		}
	}
	for _, issuer := range []string{"https://accounts.google.com", "https://login.microsoftonline.com/common/v2.0"} {
		if _, err := load(both(issuer), nil, ""); err == nil || !strings.Contains(err.Error(), "--oidc-issuer") {
			t.Errorf("%s: %v", issuer, err)
		}
	}
	if _, err := load(append(both("https://accounts.google.com"), "--oidc-create=off"), nil, ""); err != nil {
		t.Error(err)
	}
	if _, err := load(nil, []string{"SMARTDRIVE_OIDC_SECRET=s"}, ""); err == nil || !strings.Contains(err.Error(), "--oidc-secret") {
		t.Errorf("a secret alone: %v", err)
	}
	c, err := load(append(both("https://id.example.org"), "--oidc-name", "Example", "--oidc-scopes", "groups, email", "--oidc-create", "off"), []string{"SMARTDRIVE_OIDC_SECRET=s"}, "")
	if err != nil || c.SignOn.Name != "Example" || !slices.Equal(c.SignOn.Scopes, []string{"groups", "email"}) || c.SignOn.Create || c.SignOn.Secret != "s" {
		t.Errorf("%+v, %v", c.SignOn, err)
	}
}
