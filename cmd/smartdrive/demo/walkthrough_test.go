package demo_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/cmd/smartdrive/demo"
	"example.org/smartdrive/internal/testkit/depth"
	"example.org/smartdrive/internal/testkit/servicetest"
	"example.org/smartdrive/test/process"
)

var update = flag.Bool("update", false, "write what the demo prints into docs/walkthrough*.md")

// shown finds the command and the recorded output of a demo in a page.
var shown = regexp.MustCompile("(?s)```console\n\\$ smartdrive demo( --cluster)? --fast(?: --story ([a-z-]+))? --lang ([a-zA-Z-]+)\n(.*?)```")

// What differs between two runs: ids, numbers, and which parts had arrived at a kill.
var varying = []*regexp.Regexp{
	regexp.MustCompile(`\bdemo[0-9a-f]{8}\b`),
	regexp.MustCompile(`\bblobs/[0-9a-f]{2}\b`),
	regexp.MustCompile(`pre_[\w-]+`),
	regexp.MustCompile(`\[\[[\d \[\]]*\]\]`),
	regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`),
	regexp.MustCompile(`\b[0-9a-f]{8}\b`),
	regexp.MustCompile(`-?\d[\d.:TZhms-]*`),
}

// sampled finds the rows of a cluster that show a sample of a moving state, such as which instances
// own shards at this moment. A loaded machine shows another sample. The demo itself checks the
// states that its stories depend on.
var sampled = regexp.MustCompile(`(Redis: (?:delayed task|owners of shards)|way of the task|Kafka: (?:record|consumer)|MySQL: leases by instance|` +
	`Redis：(?:延时任务|分桶的拥有者)|任务轨迹|Kafka：(?:消息|消费者)|MySQL：各实例持有的租约数) .*`)

// masked returns the lines without what differs between two runs.
func masked(text string) (lines []string) {
	text = sampled.ReplaceAllString(text, "$1 #")
	for _, v := range varying {
		text = v.ReplaceAllString(text, "#")
	}
	for line := range strings.Lines(strings.Trim(text, "\n")) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return lines
}

// TestWalkthroughShowsWhatTheDemoPrints plays every story of the demo, in the languages of the
// pages, and compares what the pages show.
func TestWalkthroughShowsWhatTheDemoPrints(t *testing.T) {
	t.Parallel()
	binary := process.Binary(t)
	for _, page := range []string{"walkthrough.md", "walkthrough.zh-CN.md"} {
		path := filepath.Join("..", "..", "..", "docs", page)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		blocks := shown.FindAllSubmatchIndex(text, -1)
		if len(blocks) != len(demo.Names(false))+1 {
			t.Errorf("%s shows %d runs; there are %d stories and a cluster", page, len(blocks), len(demo.Names(false)))
		}
		printed := make([]string, len(blocks))
		t.Run(page, func(t *testing.T) {
			for i, b := range blocks {
				inCluster, lang, recorded := b[2] >= 0, string(text[b[6]:b[7]]), string(text[b[8]:b[9]])
				o := demo.Options{Binary: binary, Fast: true, Chinese: lang == "zh-CN"}
				name := "cluster"
				if !inCluster {
					name = string(text[b[4]:b[5]])
					o.Stories = []string{name}
				}
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					if inCluster {
						o.Services = servicesOf(t, o.Chinese)
					}
					var out bytes.Buffer
					o.Out = &out
					err := demo.Run(t.Context(), o)
					if err != nil {
						t.Fatalf("%v\n%s", err, out.String())
					}
					all := strings.TrimLeft(out.String(), "\n")
					first, _, _ := strings.Cut(all, "\n\n2. ") // of a cluster, the pages show one story
					printed[i] = strings.TrimRight(first, "\n") + "\n"
					if diff := cmp.Diff(masked(recorded), masked(printed[i])); !*update && diff != "" {
						t.Errorf("%s shows other words than the demo prints (-update writes them):\n%s\n%s", page, diff, out.String())
					}
				})
			}
		})
		if *update {
			for i, b := range slices.Backward(blocks) {
				if printed[i] != "" {
					text = []byte(string(text[:b[8]]) + printed[i] + string(text[b[9]:]))
				}
			}
			if err := os.WriteFile(path, text, 0o644); err != nil { //nolint:gosec // a page that everybody reads
				t.Fatal(err)
			}
		}
	}
}

// servicesOf names the services of the machine. The stories take a minute in a cluster, so one
// language is enough unless the test is deep.
func servicesOf(t *testing.T, again bool) *demo.Services {
	t.Helper()
	if again && !*update {
		depth.Deep(t)
	}
	return &demo.Services{
		DB: servicetest.URL(t, servicetest.MySQL), Redis: servicetest.URL(t, servicetest.Redis),
		Kafka: servicetest.URL(t, servicetest.Kafka), Blobs: servicetest.URL(t, servicetest.S3),
	}
}
