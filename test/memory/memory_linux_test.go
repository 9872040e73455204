package memory

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"example.org/smartdrive/internal/testkit/depth"
	"example.org/smartdrive/test/process"
)

func TestMain(m *testing.M) { process.Main(m) }

// Bounds of resident memory in bytes: of the server, and of all processes that decode images for
// it. The latter have limits of their own, and the kernel ends them first.
const (
	serverBound   = 512 * mib
	childrenBound = 256 * mib
)

// attack is the worst that one kind of request may do.
type attack struct {
	name string
	// prepare creates what the attack needs; its memory is not measured.
	prepare func(*stage) plan
}

// plan is a prepared attack. run returns when memory use has reached its peak; end releases what
// the attack still holds.
type plan struct {
	run func()
	end func()
}

func attacks() []attack {
	return []attack{
		{"zips of shares that nobody reads", shareZips},
		{"zips of folders with long paths", longPaths},
		{"zips of exports that nobody reads", exportZips},
		{"lists of exports, the longest", manifests},
		{"their zips, which are kept in memory", keptLists},
		{"images of many pixels", images},
		{"wrong passwords from many addresses", passwords},
		{"searches", searches},
		{"long lists", lists},
		{"questions for a proof", proofs},
		{"parts that stall", stalled},
		{"PATCHes with SHA-256", checked},
		{"bundles with the largest documents", bundles},
		{"large documents that are looked at", documents},
		{"bodies of JSON", bodies},
		{"pages", pages},
	}
}

func TestPeakMemory(t *testing.T) {
	t.Parallel()
	depth.Normal(t)
	s := newStage(t)
	var table strings.Builder
	var plans []plan
	judge := func(name string) {
		p := s.watch.read()
		t.Logf("%s: %s", name, p)
		fmt.Fprintf(&table, "| %-40s | %4d | %4d | %4d |\n", name, p.server/mib, p.children/mib, p.both/mib)
		if p.server > serverBound || p.children > childrenBound {
			t.Errorf("%s: %s", name, p)
		}
	}
	for _, a := range attacks() {
		if only := os.Getenv("SMARTDRIVE_ATTACK"); !strings.Contains(a.name, only) {
			continue
		}
		p := a.prepare(s)
		plans = append(plans, p)
		s.fresh()
		p.run()
		judge(a.name)
		p.end()
	}
	s.fresh()
	each(len(plans), func(i int) { plans[i].run() })
	judge("all at once")
	for _, p := range plans {
		p.end()
	}
	t.Logf("peaks in MiB:\n| attack | server | children | together |\n|---|---|---|---|\n%s", &table)
}

func nothing() {}
