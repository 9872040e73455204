package docs

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"example.org/smartdrive/client"
	"example.org/smartdrive/test/process"
)

var (
	typedLine  = regexp.MustCompile(`(?m)^\$ (.+)$`)
	shellWord  = regexp.MustCompile(`'[^']*'|\S+`)
	assignment = regexp.MustCompile(`^[A-Z_]+=`)
)

// typed returns the lines behind "$ " of all console blocks, in words: without quotes, assignments
// before the command, and comments.
func typed(text string) (all [][]string) {
	for _, block := range console.FindAllStringSubmatch(text, -1) {
		for _, line := range typedLine.FindAllStringSubmatch(block[1], -1) {
			var words []string
			for _, w := range shellWord.FindAllString(line[1], -1) {
				if w == "#" {
					break
				}
				if len(words) > 0 || !assignment.MatchString(w) {
					words = append(words, strings.Trim(w, "'"))
				}
			}
			all = append(all, words)
		}
	}
	return all
}

// The packages of "go test" and "go run" exist, and so do the tests and benchmarks that -run and
// -bench select. (test/compare checks the names of comparisons.)
func TestGoCommandsExist(t *testing.T) {
	t.Parallel()
	checked := 0
	for path, text := range documents(t) {
		for _, words := range typed(text) {
			if len(words) < 3 || words[0] != "go" || words[1] != "test" && words[1] != "run" {
				continue
			}
			checked++
			functions := functionsOf(t, path, words[2])
			for i, flag := range words[:len(words)-1] {
				kind := map[string]string{"-run": "Test", "-bench": "Benchmark"}[flag]
				if pattern := words[i+1]; kind != "" && pattern != "XXX" { // XXX selects no test on purpose
					checkPattern(t, path, pattern, kind, functions)
				}
			}
		}
	}
	if checked < 10 {
		t.Errorf("only %d commands were found: does this test still read the documents?", checked)
	}
}

// functionsOf returns the names of the tests and benchmarks of a package that compile here. It
// reports an error for path if there is no such package.
func functionsOf(t *testing.T, path, pkg string) (names []string) {
	t.Helper()
	const format = `{{$dir := .Dir}}{{range .TestGoFiles}}{{$dir}}/{{.}}{{"\n"}}{{end}}{{range .XTestGoFiles}}{{$dir}}/{{.}}{{"\n"}}{{end}}`
	cmd := exec.CommandContext(t.Context(), "go", "list", "-f", format, pkg)
	cmd.Dir = root
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil || strings.Contains(said.String(), "matched no packages") {
		t.Errorf("%s: there is no package %s: %v\n%s", path, pkg, err, said.String())
	}
	for file := range strings.FieldsSeq(string(out)) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range testFunc.FindAllStringSubmatch(string(text), -1) {
			names = append(names, m[1])
		}
	}
	return names
}

// checkPattern reports an error for each alternative of a pattern that selects no function of this
// kind.
func checkPattern(t *testing.T, path, pattern, kind string, functions []string) {
	t.Helper()
	alternatives := []string{pattern}
	if !strings.Contains(pattern, "(") {
		alternatives = strings.Split(pattern, "|")
	}
alternative:
	for _, a := range alternatives {
		for _, f := range functions {
			if strings.HasPrefix(f, kind) && regexp.MustCompile(a).MatchString(f) {
				continue alternative
			}
		}
		t.Errorf("%s: %s selects no %s", path, a, kind)
	}
}

// What the walkthrough shows of smartdrive, other than the demo, can be typed while a server runs:
// each command ends with exit 0 and prints something.
func TestTheWalkthroughsCommandsRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	var log bytes.Buffer
	s := &session{t: t, binary: process.Binary(t), dir: dir}
	server, err := process.Start(process.Options{
		Binary: s.binary, Data: data, Listen: "127.0.0.1:0", Args: []string{"--min-free", "0", "--log-level", "error"}, Log: &log,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Kill)
	url, err := server.Ready(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	password, err := os.ReadFile(filepath.Join(data, "initial-password"))
	if err != nil {
		t.Fatal(err)
	}
	s.as(filepath.Join(dir, "admin"), data)
	s.run(string(password), "login", url, "--user", "admin", "--password-stdin")
	upload := openUpload(t, url, strings.TrimSpace(string(password)))

	for _, page := range []string{"docs/walkthrough.md", "docs/walkthrough.zh-CN.md"} {
		ran := 0
		for _, words := range typed(documents(t)[page]) {
			if filepath.Base(words[0]) != "smartdrive" || words[1] == "demo" {
				continue
			}
			args := strings.Fields(strings.ReplaceAll(strings.Join(words[1:], " "), "UPLOAD-ID", upload))
			cmd := exec.CommandContext(t.Context(), s.binary, args...)
			cmd.Env = append(process.Environ(), s.env...)
			out, err := cmd.CombinedOutput()
			if err != nil || len(out) == 0 && words[len(words)-1] != "ls" {
				t.Errorf("%s: smartdrive %s: %v\n%s", page, strings.Join(args, " "), err, out)
			}
			ran++
		}
		if ran < 3 {
			t.Errorf("%s: only %d commands were found", page, ran)
		}
	}
}

// openUpload returns the id of an upload that waits for its parts.
func openUpload(t *testing.T, url, password string) string {
	t.Helper()
	api, err := client.New(client.Options{BaseURL: url})
	if err != nil {
		t.Fatal(err)
	}
	in, err := api.Login(t.Context(), "admin", password)
	if err != nil {
		t.Fatal(err)
	}
	size := int64(10 << 20)
	up, err := api.WithToken(in.Token).BeginUpload(t.Context(), client.NewUpload{Path: "/disk.img", Size: &size})
	if err != nil {
		t.Fatal(err)
	}
	return up.ID
}
