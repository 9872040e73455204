package columns

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/testkit/depth"
	"example.org/smartdrive/internal/testkit/servicetest"
)

func TestMain(m *testing.M) {
	// A first user with a password that the tests know.
	if err := os.Setenv("SMARTDRIVE_ADMIN_PASSWORD", password); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// number is a number of the environment.
func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// A script gets the same replies on every column. SMARTDRIVE_COLUMNS is the number of scripts,
// SMARTDRIVE_COLUMNS_LENGTH the number of operations of each, and SMARTDRIVE_COLUMNS_SEED the seed
// of the first one: a script that found a difference is repeated by its seed.
func TestOneScriptHasTheSameAnswersOnAllColumns(t *testing.T) {
	t.Parallel()
	columns := start(t, available(t), "--upload-idle", "1h")
	length, first := number(t, "SMARTDRIVE_COLUMNS_LENGTH", 200), number(t, "SMARTDRIVE_COLUMNS_SEED", 1)
	for i := range number(t, "SMARTDRIVE_COLUMNS", depth.Pick(1, 1, 3)) {
		seed := uint64(first + i)
		script, began := newScript(seed, length), time.Now()
		if diff := compare(t, columns, seed, script); diff != nil {
			report(t, columns, seed, script[:min(diff.op, length)], diff)
			return
		}
		played := time.Since(began)
		sound(t, columns)
		t.Logf("seed %d: %d operations in %s, and checked in %s", seed, length, played.Round(time.Millisecond), (time.Since(began) - played).Round(time.Millisecond))
	}
}

// available returns the columns whose services this machine has. For each other column it runs a
// subtest that is skipped with the reason.
func available(t *testing.T) (all []makeup) {
	t.Helper()
	for _, m := range makeups {
		t.Run(m.name, func(t *testing.T) { //nolint:paralleltest // it is only asked
			for _, s := range m.needs {
				servicetest.URL(t, s)
			}
			all = append(all, m)
		})
	}
	return all
}

// unlike is where two columns differ.
type unlike struct {
	column    string
	op        int // 0: at the beginning; the script's first operation is 1
	said, was string
	fault     error
}

// runs tells the runs of a test process apart.
var runs struct {
	sync.Mutex
	n uint64
}

// compare plays a script on all columns concurrently, with its own users and contents. It returns
// nil if the replies are equal.
func compare(t *testing.T, columns []*column, seed uint64, script []op) *unlike {
	t.Helper()
	runs.Lock()
	runs.n++
	run := runs.n
	runs.Unlock()
	salt := servicetest.Unique()
	actors := make([]*actor, len(columns))
	var all sync.WaitGroup
	for i, c := range columns {
		actors[i] = newActor(c, seed<<16|run, salt)
		all.Go(func() { actors[i].play(script) })
	}
	all.Wait()
	contents.Clear()
	var first *unlike
	for _, a := range actors {
		if d := actors[0].compareTo(a); d != nil && (first == nil || d.op < first.op) {
			first = d
		}
	}
	return first
}

func (a *actor) compareTo(b *actor) *unlike {
	for i := range min(len(a.said), len(b.said)) {
		said, was := overlook(b.column, b.said[i]), overlook(b.column, a.said[i])
		fault := b.broken
		if i < len(b.said)-1 {
			fault = nil
		}
		if said != was || fault != nil {
			return &unlike{b.name, i, said, was, fault}
		}
	}
	if len(a.said) != len(b.said) {
		return &unlike{b.name, min(len(a.said), len(b.said)), "", "", errors.Join(a.broken, b.broken)}
	}
	return nil
}

// report fails the test with a difference and the shortest script for it that is found in a minute.
func report(t *testing.T, columns []*column, seed uint64, script []op, diff *unlike) {
	t.Helper()
	of := slices.DeleteFunc(slices.Clone(columns), func(c *column) bool { return c != columns[0] && c.name != diff.column })
	short, diff := shrink(t, of, seed, script, diff)
	var b strings.Builder
	for _, o := range short {
		fmt.Fprintln(&b, " ", o)
	}
	t.Errorf("seed %d: %s differs from %s at operation %d of\n%s%v\n%s\n%s", seed, diff.column, columns[0].name, diff.op, b.String(), diff.fault,
		diff.was, cmp.Diff(strings.Split(diff.was, "\n"), strings.Split(diff.said, "\n")))
}

// shrink removes operations from a script while it still causes a difference, first half of them,
// at last single ones.
func shrink(t *testing.T, columns []*column, seed uint64, script []op, diff *unlike) ([]op, *unlike) {
	t.Helper()
	until := time.Now().Add(time.Minute)
	for size := len(script) / 2; size > 0 && time.Now().Before(until); size /= 2 {
		for at := 0; at < len(script) && time.Now().Before(until); {
			less := slices.Delete(slices.Clone(script), at, min(at+size, len(script)))
			if d := compare(t, columns, seed, less); d != nil {
				script, diff = less[:min(d.op, len(less))], d
			} else {
				at += size
			}
		}
	}
	return script, diff
}

// sound checks each column.
func sound(t *testing.T, columns []*column) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	errs := make([]error, len(columns))
	var all sync.WaitGroup
	for i, c := range columns {
		all.Go(func() { errs[i] = c.fsck(ctx) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}
