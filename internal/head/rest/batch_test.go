package rest_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

const batchType = "application/vnd.smartdrive.batch"

// frames composes a batch: a map is a line, bytes follow the line before them.
func frames(t testing.TB, parts ...any) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, p := range parts {
		if raw, ok := p.([]byte); ok {
			b.Write(raw)
			continue
		}
		b.WriteString(asJSON(t, p) + "\n")
	}
	return b.Bytes()
}

type item = map[string]any

func put(path string, content []byte, more ...any) (line item, bytes []byte) {
	line = item{"op": "put", "path": path, "size": len(content)}
	for i := 0; i+1 < len(more); i += 2 {
		line[more[i].(string)] = more[i+1]
	}
	return line, content
}

// batch sends a batch and returns the lines of its answer; the last one says how it ended.
func (u user) batch(t testing.TB, body any, header ...string) (answers []item, end item) {
	t.Helper()
	got := u.send(t, "POST", "/batch", body, append([]string{"Content-Type", batchType}, header...)...)
	if got.StatusCode != http.StatusOK || got.Header.Get("Content-Type") != "application/x-ndjson" {
		t.Fatalf("the batch is answered %s", got)
	}
	return splitAnswers(t, bytes.NewReader(got.body))
}

func splitAnswers(t testing.TB, body io.Reader) (answers []item, end item) {
	t.Helper()
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line item
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		if _, ok := line["n"]; !ok {
			end = line
			continue
		}
		answers = append(answers, line)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return answers, end
}

// outcomes are the answers in short: "201", "409 name-taken".
func outcomes(answers []item) string {
	var all []string
	for _, a := range answers {
		text := fmt.Sprint(a["status"])
		if p, ok := a["problem"].(map[string]any); ok {
			text += " " + fmt.Sprint(p["code"])
		}
		if a["replayed"] == true {
			text += " again"
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

func TestBatchItemsEqualSingleRequests(t *testing.T) {
	t.Parallel()
	u := newStack(t, uploadtest.Options{}).newUser(t, "ann", 5<<20)
	big := bytes.Repeat([]byte("big content"), 1<<20/11+1)[:1<<20]
	sum := sha256.Sum256(big)
	l1, b1 := put("/docs/a.txt", []byte("one"))
	l2, b2 := put("/docs/a.txt", []byte("two"), "conflict", "fail")
	l3, b3 := put("/docs/a.txt", []byte("three"), "conflict", "rename")
	l4, b4 := put("/docs/a.txt", []byte("four"), "mtime", "2020-01-02T03:04:05.678Z", "mime", "text/x-own")
	l5, b5 := put("/new/deep/b.bin", big, "parents", true, "digests", item{"sha256": hex.EncodeToString(sum[:])})
	l6, b6 := put("/docs/wrong", []byte("six"), "digests", item{"sha256": hex.EncodeToString(sum[:])})
	l7, b7 := put("/nowhere/c", []byte("seven"))
	l8, b8 := put("/docs/a.txt", []byte("eight"), "if_none_match", "*")
	l9, b9 := put("/docs/fresh", []byte("nine"), "if_none_match", "*")
	answers, end := u.batch(t, frames(t,
		item{"op": "folder", "path": "/docs"}, item{"op": "folder", "path": "/docs"},
		l1, b1, l2, b2, l3, b3, l4, b4, l5, b5, l6, b6, l7, b7, l8, b8, l9, b9,
		item{"op": "claim", "path": "/docs/copy.bin", "size": len(big), "digests": item{"sha256": hex.EncodeToString(sum[:])}},
		item{"op": "claim", "path": "/docs/none.bin", "size": len(big), "digests": item{"sha256": hex.EncodeToString(sum[1:]) + "00"}},
		item{"op": "move", "path": "/docs/fresh", "to": "/new/moved"},
		item{"op": "move", "path": "/docs", "to": "/docs/in"},
		item{"op": "trash", "path": "/new/moved"}, item{"op": "trash", "path": "/new/moved"},
		item{"op": "put", "size": 3}, []byte("bad"),
		item{"op": "put", "path": "/docs/x", "size": 0, "surprise": 1},
	))
	want := "201, 409 name-taken, 201, 409 name-taken, 201, 200, 201, 422 digest-mismatch, 404 not-found, 412 precondition, 201, " +
		"201, 404 not-found, 200, 409 cycle, 204, 404 not-found, 400 bad-request, 400 bad-request"
	if got := outcomes(answers); got != want {
		t.Errorf("the answers are\n%s, want\n%s", got, want)
	}
	if end["status"] != 200.0 {
		t.Errorf("the end is %v", end)
	}
	node := u.get(t, "/nodes?path=/docs/a.txt").json(t, http.StatusOK)
	if node["mtime"] != "2020-01-02T03:04:05.678Z" || node["mime"] != "text/x-own" {
		t.Errorf("the node is %v", node)
	}
	if got := u.get(t, "/nodes/"+node["id"].(string)+"/content"); string(got.body) != "four" {
		t.Errorf("the content is %s", got)
	}
	if shown := answersAlone(t, u, "/docs/a.txt"); asJSON(t, shown) != asJSON(t, node) {
		t.Errorf("shown %v, want %v", shown, node)
	}
	u.checkLedger(t)
}

// answersAlone is the node as a batch shows it that touches it.
func answersAlone(t *testing.T, u user, path string) any {
	t.Helper()
	answers, _ := u.batch(t, frames(t, item{"op": "move", "path": path}))
	return answers[0]["node"]
}

// checkLedger compares the account's ledger with its rows, and contents with bytes: nothing lies
// about.
func (u user) checkLedger(t *testing.T) {
	t.Helper()
	me := u.get(t, "/me").json(t, http.StatusOK)
	account, err := drive.ParseID[drive.AccountID](me["account"].(map[string]any)["id"].(string))
	if err != nil {
		t.Fatal(err)
	}
	u.CheckLedger(t, drive.Who{Account: account})
	if left := u.CheckBlobs(t); len(left) > 0 {
		t.Errorf("in the store lie %v, which no row names", left)
	}
}

func TestBatchResumesUnderItsKey(t *testing.T) {
	t.Parallel()
	u := newStack(t, uploadtest.Options{}).newUser(t, "ann", 0)
	l0, b0 := put("/a", []byte("zero"), "conflict", "rename", "n", 0)
	l1, b1 := put("/a", []byte("one"), "conflict", "rename", "n", 1)
	l2, b2 := put("/a", []byte("two"), "conflict", "fail", "n", 2)
	l3, b3 := put("/b", []byte("three"), "conflict", "fail", "n", 3)
	key := []string{"Idempotency-Key", "k"}
	answers, end := u.batch(t, frames(t, l0, b0, l1, b1, l2, b2, l3, b3[:2]), key...) // cut
	if got := outcomes(answers); got != "201, 201, 409 name-taken" || end["status"] != 400.0 {
		t.Fatalf("the first attempt is answered %s, %v", got, end)
	}
	if len(u.get(t, "/nodes/root/children").items(t)) != 2 {
		t.Fatal("something of the item that was cut is left")
	}
	answers, end = u.batch(t, frames(t, l0, b0, l1, b1, l2, b2, l3, b3), key...)
	if got := outcomes(answers); got != "201 again, 201 again, 409 name-taken again, 201" || end["status"] != 200.0 {
		t.Fatalf("the repeat is answered %s, %v", got, end)
	}
	if name := answers[1]["node"].(map[string]any)["name"]; name != "a (2)" {
		t.Errorf("the repeat shows %v", name)
	}
	answers, _ = u.batch(t, frames(t, l1, []byte("ONE"), l3, b3), key...)
	if got := outcomes(answers); got != "422 key-reused, 201 again" {
		t.Errorf("other bytes under the same key are answered %s", got)
	}
	if n := len(u.get(t, "/nodes/root/children").items(t)); n != 3 {
		t.Errorf("there are %d files", n)
	}
	u.checkLedger(t)
}

// If a client disappears, the repeat of its batch takes over, and the first request fails from then
// on.
func TestRepeatTakesOverBatch(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	u := s.newUser(t, "ann", 0)
	srv := httptest.NewServer(s.server)
	defer srv.Close()
	open := func(body io.Reader) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+"/api/v1/batch", body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", batchType)
		r.Header.Set("Authorization", "Bearer "+u.token)
		r.Header.Set("Idempotency-Key", "k")
		got, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	l0, b0 := put("/a", []byte("zero"), "n", 0, "conflict", "fail")
	l1, b1 := put("/b", []byte("one"), "n", 1, "conflict", "fail")
	from, to := io.Pipe()
	go to.Write(frames(t, l0, b0))
	first := open(from) // returns with the first answer, while the body still comes
	defer first.Body.Close()
	answers := bufio.NewReader(first.Body)
	if line, err := answers.ReadString('\n'); err != nil || !strings.Contains(line, `"status":201`) {
		t.Fatalf("%s, %v", line, err)
	}
	second := open(bytes.NewReader(frames(t, l0, b0, l1, b1)))
	got, _ := splitAnswers(t, second.Body)
	second.Body.Close()
	if outcomes(got) != "201 again, 201" {
		t.Errorf("the repeat is answered %s", outcomes(got))
	}
	go func() {
		to.Write(frames(t, l1, b1))
		to.Close()
	}()
	late, end := splitAnswers(t, answers)
	if p, _ := end["problem"].(map[string]any); len(late) != 0 || p["code"] != drive.InProgress.String() {
		t.Errorf("the attempt that was taken over is answered %v, %v", late, end)
	}
	u.checkLedger(t)
}

func TestUnreadableBatchIsRefused(t *testing.T) {
	t.Parallel()
	u := newStack(t, uploadtest.Options{}).newUser(t, "ann", 0)
	good, content := put("/good", []byte("good"))
	for _, c := range []struct {
		name string
		body []byte
		kind drive.Kind
	}{
		{"no JSON", []byte("hello\n"), drive.BadRequest},
		{"no end of line", []byte(`{"op":"folder","path":"/x"}`), drive.BadRequest},
		{"a line that is too long", append(bytes.Repeat([]byte(" "), 40<<10), '\n'), drive.BadRequest},
		{"an unknown op", []byte(`{"op":"dance"}` + "\n"), drive.BadRequest},
		{"no size", []byte(`{"op":"put","path":"/x"}` + "\n"), drive.BadRequest},
		{"a size below zero", []byte(`{"op":"put","path":"/x","size":-1}` + "\n"), drive.BadRequest},
		{"a size that no batch has", []byte(`{"op":"put","path":"/x","size":99999999999}` + "\n"), drive.TooLarge},
		{"a number too high", []byte(`{"n":1000,"op":"trash","path":"/x"}` + "\n"), drive.BadRequest},
		{"cut in a file", []byte(`{"op":"put","path":"/x","size":10}` + "\nabc"), drive.BadRequest},
	} {
		got := u.send(t, "POST", "/batch", c.body, "Content-Type", batchType)
		got.problem(t, c.kind, nil)
		answers, end := u.batch(t, append(frames(t, good, content), c.body...))
		if p, _ := end["problem"].(map[string]any); len(answers) != 1 || p["code"] != c.kind.String() {
			t.Errorf("%s, behind a good item: %v, %v", c.name, outcomes(answers), end)
		}
	}
	u.send(t, "POST", "/batch", []byte("{}\n"), "Content-Type", "application/json").problem(t, drive.MediaType, nil)
	u.send(t, "POST", "/batch", []byte("{}\n"), "Content-Type", batchType, "Content-Encoding", "gzip").problem(t, drive.MediaType, nil)
	if answers, end := u.batch(t, []byte{}); len(answers) != 0 || end["status"] != 200.0 {
		t.Errorf("an empty batch is answered %v, %v", answers, end)
	}
	if n := len(u.get(t, "/nodes/root/children").items(t)); n != 1 {
		t.Errorf("there are %d files, want the good one", n)
	}
	u.checkLedger(t)
}

func TestManyFilesInABatch(t *testing.T) {
	t.Parallel()
	u := newStack(t, uploadtest.Options{}).newUser(t, "ann", 600*100)
	var parts []any
	for i := range 1000 {
		line, content := put(fmt.Sprintf("/d%d/%d", i%7, i), bytes.Repeat([]byte{byte(i), byte(i >> 8)}, 50), "parents", true)
		parts = append(parts, line, content)
	}
	answers, end := u.batch(t, frames(t, parts...))
	if len(answers) != 1000 || end["status"] != 200.0 {
		t.Fatalf("%d answers, %v", len(answers), end)
	}
	made := 0
	for i, a := range answers {
		if a["n"] != float64(i) {
			t.Fatalf("answer %d is that of %v", i, a["n"])
		}
		switch a["status"] {
		case 201.0:
			made++
		case 507.0:
		default:
			t.Fatalf("%v", a)
		}
	}
	if made != 600 { // the quota is exact
		t.Errorf("%d files are there", made)
	}
	u.checkLedger(t)
}
