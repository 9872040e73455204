package webhook_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"example.org/smartdrive/internal/testkit/servicetest"
)

// TestDocumentedChecks: the verification code in docs/events.md accepts correctly signed requests
// and nothing else.
func TestDocumentedChecks(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ language, program, file, call string }{
		{"python", "python3", "check.py", `
import sys
for line in sys.stdin:
    secret, headers, body = json.loads(line)
    print("yes" if verify(secret, headers, body.encode()) else "no")
`},
		{"js", "node", "check.mjs", `
import { createInterface } from "node:readline";
for await (const line of createInterface({ input: process.stdin })) {
  const [secret, headers, body] = JSON.parse(line);
  console.log(verify(secret, headers, Buffer.from(body)) ? "yes" : "no");
}
`},
	} {
		t.Run(c.language, func(t *testing.T) {
			t.Parallel()
			program := servicetest.Tool(t, c.program)
			_, rest, _ := strings.Cut(string(page), "```"+c.language+"\n")
			code, _, found := strings.Cut(rest, "```")
			if !found {
				t.Fatalf("docs/events.md shows nothing in %s", c.language)
			}
			if c.language == "python" {
				c.call = "\nimport json" + c.call
			}
			file := filepath.Join(t.TempDir(), c.file)
			if err := os.WriteFile(file, []byte(code+c.call), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), program, file)
			cmd.Stdin = strings.NewReader(deliveries(t))
			out, err := cmd.CombinedOutput()
			if got := strings.Join(strings.Fields(string(out)), " "); err != nil || got != "yes yes no no no no" {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// deliveries returns test requests: one signed, one signed with two secrets, and four that are not
// signed correctly and recently.
func deliveries(t *testing.T) string {
	t.Helper()
	const secret, other, body = "whsec_c2VjcmV0IG9mIHRoZSByZWNlaXZlcg==", "whsec_YW5vdGhlciBzZWNyZXQ=", `{"name":"文件.txt"}`
	stamp := func(ago time.Duration) string { return strconv.FormatInt(time.Now().Add(-ago).Unix(), 10) }
	var b strings.Builder
	for _, d := range []struct{ secret, stamp, id, body string }{
		{secret, stamp(0), "1-a", body},
		{other + " " + secret, stamp(0), "1-a", body},
		{other, stamp(0), "1-a", body},
		{secret, stamp(time.Hour), "1-a", body},
		{secret, stamp(0), "1-b", body},
		{secret, stamp(0), "1-a", body + " "},
	} {
		headers := map[string]string{"webhook-id": "1-a", "webhook-timestamp": d.stamp, "webhook-signature": signAll(d.secret, d.id, d.stamp, []byte(d.body))}
		line, err := json.Marshal([]any{secret, headers, body})
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(line, '\n'))
	}
	return b.String()
}

// signAll signs with each of several secrets.
func signAll(secrets, id, stamp string, body []byte) string {
	var all []string
	for s := range strings.FieldsSeq(secrets) {
		all = append(all, sign(s, id, stamp, body))
	}
	return strings.Join(all, " ")
}
