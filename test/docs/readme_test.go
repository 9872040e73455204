package docs

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"example.org/smartdrive/client"
	"example.org/smartdrive/test/process"
)

// notRepeated begins the line that the network words, when the server dies under a client.
const notRepeated = "smartdrive: no answer from the server:"

// differs matches the parts in which a recorded output of the README may differ from that of a
// test.
var differs = []*regexp.Regexp{
	regexp.MustCompile(`password: \S+`),
	regexp.MustCompile(`"blake3":"[^"]*"`),
	regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`),
	regexp.MustCompile(`(~|[A-Z]:)?[\\/][^ ")]*`),
	regexp.MustCompile(`\d[\d.:-]*\s?([KMG]i)?B?`),
}

func withoutDetails(line string) string {
	for _, d := range differs {
		line = d.ReplaceAllString(line, "#")
	}
	return strings.Join(strings.Fields(line), " ")
}

// session runs the commands of the README and records their output.
type session struct {
	t       *testing.T
	binary  string
	dir     string
	env     []string
	printed []string
}

func (s *session) run(stdin string, args ...string) {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), s.binary, args...)
	cmd.Dir = s.dir
	cmd.Env, cmd.Stdin = append(process.Environ(), s.env...), strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	code, err := process.Exit(err)
	if err != nil {
		s.t.Fatalf("smartdrive %v: %v\n%s", args, err, out)
	}
	s.add(string(out))
	if code != 0 {
		s.add(strconv.Itoa(code))
	}
}

func (s *session) add(text string) {
	for line := range strings.Lines(text) {
		s.printed = append(s.printed, withoutDetails(line))
	}
}

// as runs the following commands with another home and data directory.
func (s *session) as(home, data string) {
	s.env = []string{"HOME=" + home, "XDG_CONFIG_HOME=" + home, "AppData=" + home, "SMARTDRIVE_DATA=" + data}
}

// The outputs in the README's "Five minutes" are those of the program, except for numbers and
// names.
func TestTheReadmeShowsWhatIsPrinted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	var log bytes.Buffer
	s := &session{t: t, binary: process.Binary(t), dir: dir}
	server, err := process.Start(process.Options{
		Binary: s.binary, Data: data, Listen: "127.0.0.1:0", Args: []string{"--upload-idle", "500ms", "--min-free", "0", "--log-level", "error"}, Log: &log,
	})
	if err != nil {
		t.Fatal(err)
	}
	url, err := server.Ready(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Kill)
	password, err := os.ReadFile(filepath.Join(data, "initial-password"))
	if err != nil {
		t.Fatal(err)
	}
	const disk, talk, second = "disk.img", "talk.mp4", "second.img"
	content := bytes.Repeat([]byte("0123456789abcdef"), 32<<16) // 32 MiB
	for path, body := range map[string][]byte{disk: content, talk: content[:24<<20], second: nil} {
		if err := os.WriteFile(filepath.Join(dir, path), body, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Truncate(filepath.Join(dir, second), 6<<30); err != nil {
		t.Fatal(err)
	}

	s.as(filepath.Join(dir, "admin"), data)
	s.run(string(password), "login", url, "--user", "admin", "--password-stdin")
	s.beginAndLeave(url, string(password), content)
	s.run("", "put", "--json", disk, "/backup/")
	s.run("", "verify", disk, "/backup/disk.img")
	s.run("", "ls", "-l", "/backup")
	s.run("", "usage")
	s.run("", "put", talk, "/")
	const hers = "velvet otter counts seven kites\n"
	s.run(hers, "admin", "user", "add", "ann", "--quota", "5GiB", "--password", "-")
	s.as(filepath.Join(dir, "ann"), data)
	s.run(hers, "login", url, "--user", "ann", "--password-stdin")
	s.run("", "put", talk, "/mine.mp4")
	s.run("", "usage")
	s.run("", "get", "/mine.mp4", "back.mp4")
	s.run("", "put", second, "/")
	s.run("", "admin", "fsck")
	if code, err := server.Stop(time.Minute); err != nil || code != 0 {
		t.Fatalf("the server ended with code %d: %v\n%s", code, err, log.String())
	}
	s.add(log.String())
	s.add(strings.Join(server.Said(), "\n"))

	_, section, _ := strings.Cut(documents(t)["README.md"], "\n## Five minutes\n")
	section, _, _ = strings.Cut(section, "\n## ")
	shown := 0
	for _, block := range console.FindAllString(section, -1) {
		for line := range strings.Lines(block) {
			if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "$") || strings.HasPrefix(line, "```") || strings.HasPrefix(line, notRepeated) {
				continue
			}
			if shown++; !slices.Contains(s.printed, withoutDetails(line)) {
				t.Errorf("the README shows %s\nwhich nothing printed has the form of:\n%s", withoutDetails(line), strings.Join(s.printed, "\n"))
			}
		}
	}
	if shown < 15 {
		t.Errorf("only %d lines of output were found in the README", shown)
	}
}

// beginAndLeave sends a part of an upload, looks at it, waits until it is parked, looks again, and
// cancels it.
func (s *session) beginAndLeave(url, password string, content []byte) {
	s.t.Helper()
	api, err := client.New(client.Options{BaseURL: url})
	if err != nil {
		s.t.Fatal(err)
	}
	in, err := api.Login(s.t.Context(), "admin", strings.TrimSpace(password))
	if err != nil {
		s.t.Fatal(err)
	}
	api = api.WithToken(in.Token)
	size := int64(len(content))
	up, err := api.BeginUpload(s.t.Context(), client.NewUpload{Path: "/backup/disk.img", Size: &size, PartSize: 1 << 20, Parents: true})
	if err != nil {
		s.t.Fatal(err)
	}
	s.run("", "uploads")
	s.run("", "admin", "ledger", "admin")
	if err := api.PutPart(s.t.Context(), up.ID, 0, io.NewSectionReader(bytes.NewReader(content), 0, 1<<20)); err != nil {
		s.t.Fatal(err)
	}
	process.Eventually(s.t, time.Minute, "the upload is parked", func() error {
		now, err := api.Upload(s.t.Context(), up.ID)
		if err == nil && now.State != client.Parked {
			err = errors.New("it is " + string(now.State))
		}
		return err
	})
	s.run("", "uploads")
	s.run("", "admin", "ledger", "admin")
	if err := api.CancelUpload(s.t.Context(), up.ID); err != nil {
		s.t.Fatal(err)
	}
}
