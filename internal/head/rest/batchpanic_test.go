package rest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"golang.org/x/sync/semaphore"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/usecase/batch"
	"example.org/smartdrive/internal/usecase/files"
)

// breaking is a ResponseWriter that panics.
type breaking struct{ http.ResponseWriter }

func (breaking) Write([]byte) (int, error) { panic("a writer that breaks") }

// A panic in a request's other goroutine is raised again in the request, where it is recovered, so
// the process continues.
func TestWriterPanicReachesRequest(t *testing.T) {
	t.Parallel()
	c := &call{w: breaking{httptest.NewRecorder()}, r: httptest.NewRequest(http.MethodPost, "/batch", nil)}
	l := newAnswerWriter(c)
	for range 3 * maxUnread / 100 { // more than waits for who does not read
		if err := l.addAnswers([]batch.Answer{{N: 1, Op: batch.Trash, Err: drive.Fail(drive.NotFound)}}); err != nil {
			t.Fatal(err)
		}
	}
	defer func() {
		if v := recover(); v != "a writer that breaks" {
			t.Errorf("the request sees %v", v)
		}
	}()
	l.close()
	t.Error("the request does not see the panic")
}

type breakingStore struct{ blob.Store }

func (breakingStore) Caps() blob.StoreCaps { return blob.StoreCaps{HighLatency: true} }

func (breakingStore) Open(context.Context, string) (blob.Object, error) { panic("a store that breaks") }

// If the store panics for a file, that file fails and the stream continues.
func TestStorePanicFailsOnlyFile(t *testing.T) {
	t.Parallel()
	b := batches{files: files.New(files.Options{Store: breakingStore{}}), readAheadBudget: semaphore.NewWeighted(readAheadMemory)}
	for i, turn := range b.readAhead(t.Context(), make([]files.Listed, 20)) {
		if o := <-turn; o.err == nil || !strings.Contains(o.err.Error(), "a store that breaks") {
			t.Errorf("file %d: %v", i, o.err)
		}
	}
}
