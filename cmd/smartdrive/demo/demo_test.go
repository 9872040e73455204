package demo_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"example.org/smartdrive/cmd/smartdrive/demo"
	"example.org/smartdrive/test/process"
)

func TestMain(m *testing.M) { process.Main(m) }

// TestJSON plays a story with one JSON object in each line.
func TestJSON(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	err := demo.Run(t.Context(), demo.Options{Binary: process.Binary(t), Stories: []string{"pre-id"}, Fast: true, JSON: true, Out: &out})
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for scan := bufio.NewScanner(&out); scan.Scan(); {
		var e struct {
			Story string
			Rows  []struct{ Name, Value string }
		}
		if err := json.Unmarshal(scan.Bytes(), &e); err != nil || e.Story != "pre-id" {
			t.Fatalf("line %q: story %q, %v", scan.Text(), e.Story, err)
		}
		rows += len(e.Rows)
	}
	if rows < 8 {
		t.Errorf("%d rows, want the id, its end, five answers and the count", rows)
	}
}

// TestUnknownStory checks that an unknown story is refused and that the error lists the stories.
func TestUnknownStory(t *testing.T) {
	t.Parallel()
	err := demo.Run(t.Context(), demo.Options{Stories: []string{"nothing"}})
	if err == nil || !bytes.Contains([]byte(err.Error()), []byte("pre-id")) {
		t.Errorf("error %v, want one that names the stories", err)
	}
}

// TestClusterNeedsServices checks that a cluster without services is refused before a story begins,
// with the command that starts them, in the language of the demo.
func TestClusterNeedsServices(t *testing.T) {
	t.Parallel()
	for _, chinese := range []bool{false, true} {
		var out bytes.Buffer
		err := demo.Run(t.Context(), demo.Options{Services: &demo.Services{DB: "mysql://x"}, Chinese: chinese, Out: &out})
		if err == nil || !strings.Contains(err.Error(), "make services") || strings.Contains(err.Error(), "需要") != chinese || out.Len() > 0 {
			t.Errorf("error %v, output %q", err, out.String())
		}
	}
}
