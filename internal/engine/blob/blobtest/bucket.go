package blobtest

import (
	"encoding/xml"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Bucket is an in-memory S3 server for requests on many objects: ListObjectsV2, HEAD, DELETE,
// DeleteObjects. It answers after Latency and counts the requests. Objects have a size but no
// bytes.
type Bucket struct {
	Latency time.Duration
	Single  bool            // DeleteObjects is not supported
	Stuck   map[string]bool // keys that cannot be deleted
	Host    string          // host:port; the name of the bucket is ignored

	mu       sync.Mutex
	sizes    map[string]int64
	keys     []string // sorted; nil: to be rebuilt
	requests map[string]int
}

// NewBucket starts a Bucket that stops at the end of the test.
func NewBucket(t testing.TB) *Bucket {
	b := &Bucket{sizes: map[string]int64{}, requests: map[string]int{}}
	srv := httptest.NewServer(http.HandlerFunc(b.serve))
	t.Cleanup(srv.Close)
	b.Host = strings.TrimPrefix(srv.URL, "http://")
	return b
}

// AddObject adds an object.
func (b *Bucket) AddObject(key string, size int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sizes[key], b.keys = size, nil
}

// RemoveObject removes an object.
func (b *Bucket) RemoveObject(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.sizes, key)
	b.keys = nil
}

// Keys returns the keys of all objects, sorted.
func (b *Bucket) Keys() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.sortedLocked())
}

// Requests returns the number of requests of a kind: "list", "head", "delete" or "delete many".
func (b *Bucket) Requests(kind string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.requests[kind]
}

// sortedLocked returns the sorted keys and caches them; the caller holds b.mu and must not change
// them.
func (b *Bucket) sortedLocked() []string {
	if b.keys == nil {
		b.keys = make([]string, 0, len(b.sizes))
		for key := range b.sizes {
			b.keys = append(b.keys, key)
		}
		slices.Sort(b.keys)
	}
	return b.keys
}

// serve answers one request after Latency: list, delete many, delete, head. It counts the request
// by that name. Everything else, and deletions that Single or Stuck exclude, is answered with
// NotImplemented.
func (b *Bucket) serve(w http.ResponseWriter, r *http.Request) {
	if b.Latency > 0 {
		late := time.NewTimer(b.Latency)
		select {
		case <-late.C:
		case <-r.Context().Done():
			late.Stop()
			return
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	q := r.URL.Query()
	_, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case r.Method == http.MethodGet && q.Has("list-type"):
		b.requests["list"]++
		b.listLocked(w, q.Get("prefix"), max(q.Get("start-after"), q.Get("continuation-token")), q.Get("delimiter"), q.Get("max-keys"))
	case r.Method == http.MethodPost && q.Has("delete") && !b.Single:
		b.requests["delete many"]++
		b.deleteLocked(w, r)
	case r.Method == http.MethodDelete && !b.Stuck[key]:
		b.requests["delete"]++
		delete(b.sizes, key)
		b.keys = nil
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodHead:
		b.requests["head"]++
		size, ok := b.sizes[key]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
		w.Header().Set("Last-Modified", time.Unix(0, 0).UTC().Format(http.TimeFormat))
	default:
		w.WriteHeader(http.StatusNotImplemented)
		writeXML(w, errorDocument{Code: "NotImplemented"})
	}
}

// errorDocument is an S3 error document.
type errorDocument struct {
	XMLName xml.Name `xml:"Error"`
	Key     string   `xml:",omitempty"`
	Code    string
}

// writeXML writes v as XML.
func writeXML(w http.ResponseWriter, v any) {
	_ = xml.NewEncoder(w).Encode(v)
}

// deleteLocked answers DeleteObjects: it deletes the objects of the request and reports
// AccessDenied for those in Stuck. A request with more than 1,000 objects or malformed XML is
// refused. The caller holds b.mu.
func (b *Bucket) deleteLocked(w http.ResponseWriter, r *http.Request) {
	type object struct{ Key string }
	var asked struct{ Object []object }
	if err := xml.NewDecoder(r.Body).Decode(&asked); err != nil || len(asked.Object) > 1000 {
		w.WriteHeader(http.StatusBadRequest)
		writeXML(w, errorDocument{Code: "MalformedXML"})
		return
	}
	var result struct {
		XMLName xml.Name `xml:"DeleteResult"`
		Deleted []object
		Error   []errorDocument
	}
	for _, o := range asked.Object {
		if b.Stuck[o.Key] {
			result.Error = append(result.Error, errorDocument{Key: o.Key, Code: "AccessDenied"})
			continue
		}
		delete(b.sizes, o.Key)
		result.Deleted = append(result.Deleted, o)
	}
	b.keys = nil
	writeXML(w, result)
}

// listLocked answers ListObjectsV2 with up to limit keys and common prefixes that begin with prefix
// and follow after, and a token if there are more. The caller holds b.mu.
func (b *Bucket) listLocked(w http.ResponseWriter, prefix, after, delimiter, limit string) {
	type content struct {
		Key  string
		Size int64
	}
	type common struct{ Prefix string }
	var page struct {
		XMLName               xml.Name `xml:"ListBucketResult"`
		IsTruncated           bool
		NextContinuationToken string `xml:",omitempty"`
		Contents              []content
		CommonPrefixes        []common
	}
	most, _ := strconv.Atoi(limit)
	keys := b.sortedLocked()
	from, _ := slices.BinarySearch(keys, max(prefix, after))
	for ; from < len(keys) && strings.HasPrefix(keys[from], prefix); from++ {
		key := keys[from]
		if key <= after && after != "" {
			continue
		}
		if len(page.Contents)+len(page.CommonPrefixes) == most {
			page.IsTruncated = true
			break
		}
		head, _, cut := strings.Cut(key[len(prefix):], delimiter)
		if delimiter == "" || !cut {
			page.Contents = append(page.Contents, content{key, b.sizes[key]})
			page.NextContinuationToken = key
			continue
		}
		below := prefix + head + delimiter
		page.CommonPrefixes = append(page.CommonPrefixes, common{below})
		page.NextContinuationToken = below + "\xff"
		for from+1 < len(keys) && strings.HasPrefix(keys[from+1], below) {
			from++
		}
	}
	writeXML(w, page)
}
