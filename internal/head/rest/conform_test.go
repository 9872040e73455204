package rest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"mime"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/head/rest"
)

// published is the document that clients are generated from.
var published = sync.OnceValue(func() (doc map[string]any) {
	mux := http.NewServeMux()
	rest.New(rest.Options{}).Register(mux)
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/openapi.json", nil))
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil {
		panic(err)
	}
	return doc
})

// conforms compares an answer with the document: every test that asks the API asks this, too.
func conforms(t testing.TB, in request, got response) {
	t.Helper()
	op := operationOf(in)
	if op == nil {
		return
	}
	where := in.method + " " + in.path
	described, ok := op["responses"].(map[string]any)[strconv.Itoa(got.StatusCode)].(map[string]any)
	if !ok {
		if got.StatusCode < 500 && got.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("%s: the status %d is not described: %s", where, got.StatusCode, got.body)
		}
		return
	}
	content, _ := described["content"].(map[string]any)
	kind, _, _ := mime.ParseMediaType(got.Header.Get("Content-Type"))
	if isBytes(content) || in.method == http.MethodHead || len(got.body) == 0 {
		return
	}
	media, ok := content[kind].(map[string]any)
	if !ok {
		t.Errorf("%s: %d with a %s is not described", where, got.StatusCode, kind)
		return
	}
	if !strings.HasSuffix(kind, "json") || strings.HasPrefix(kind, "application/x-") {
		return
	}
	var body any
	raw := got.body
	if got.Header.Get("Content-Encoding") == "gzip" {
		raw = inflated(t, raw)
	}
	decode := json.NewDecoder(bytes.NewReader(raw))
	decode.UseNumber() // a preference may be larger than any
	if err := decode.Decode(&body); err != nil {
		t.Errorf("%s: %v", where, err)
		return
	}
	if p, ok := body.(map[string]any); ok && kind == "application/problem+json" {
		codes := strings.Split(described["description"].(string), ", ")
		if code, _ := p["code"].(string); !slices.Contains(codes, code) {
			t.Errorf("%s: the problem %s is none of %s", where, code, codes)
		}
	}
	if fault := unlike(body, media["schema"].(map[string]any), ""); fault != "" {
		t.Errorf("%s: %d is not as described: %s\n%s", where, got.StatusCode, fault, got.body)
	}
}

// isBytes reports whether a response is bytes, which have the media type of their file.
func isBytes(content map[string]any) bool {
	for _, media := range content {
		schema, _ := media.(map[string]any)["schema"].(map[string]any)
		if schema["format"] == "binary" {
			return true
		}
	}
	return false
}

// operationOf finds the most exact path of the document.
func operationOf(in request) map[string]any {
	path, _, _ := strings.Cut(in.path, "?")
	have := strings.Split(path, "/")
	var best map[string]any
	least := math.MaxInt
	for pattern, item := range published()["paths"].(map[string]any) {
		op, _ := item.(map[string]any)[strings.ToLower(in.method)].(map[string]any)
		if wild := wildcardsOf(strings.Split(pattern, "/"), have); op != nil && wild < least {
			best, least = op, wild
		}
	}
	return best
}

// wildcardsOf is how many segments of a path a pattern leaves open; a path that it does not
// describe has very many.
func wildcardsOf(pattern, path []string) (n int) {
	if len(pattern) != len(path) {
		return math.MaxInt
	}
	for i := range pattern {
		if strings.HasPrefix(pattern[i], "{") {
			n++
		} else if pattern[i] != path[i] {
			return math.MaxInt
		}
	}
	return n
}

// unlike says where a value differs from a schema.
func unlike(v any, schema map[string]any, at string) string {
	if ref, ok := schema["$ref"].(string); ok {
		name := ref[strings.LastIndex(ref, "/")+1:]
		return unlike(v, published()["components"].(map[string]any)["schemas"].(map[string]any)[name].(map[string]any), at)
	}
	if either, ok := schema["anyOf"].([]any); ok {
		fault := ""
		for _, one := range either {
			if fault = unlike(v, one.(map[string]any), at); fault == "" {
				return ""
			}
		}
		return fault
	}
	types, ok := schema["type"].([]any)
	if !ok && schema["type"] != nil {
		types = []any{schema["type"]}
	}
	if is := typesOf(v); types != nil && !slices.ContainsFunc(types, func(t any) bool { return slices.Contains(is, t.(string)) }) {
		return fmt.Sprintf("%s is %v instead of %v", at, v, types)
	}
	if enum, ok := schema["enum"].([]any); ok && v != nil && !slices.Contains(enum, v) {
		return fmt.Sprintf("%s is %v, none of %v", at, v, enum)
	}
	switch v := v.(type) {
	case string:
		if _, err := drive.ParseID[drive.NodeID](v); schema["format"] == "uuid" && err != nil {
			return fmt.Sprintf("%s is %q, no UUID", at, v)
		}
		if when, err := time.Parse(time.RFC3339Nano, v); schema["format"] == "date-time" && (err != nil || when.Year() < 1970) {
			return fmt.Sprintf("%s is the time %s", at, v)
		}
	case []any:
		for i, item := range v {
			if inner, ok := schema["items"].(map[string]any); ok {
				if fault := unlike(item, inner, fmt.Sprintf("%s[%d]", at, i)); fault != "" {
					return fault
				}
			}
		}
	case map[string]any:
		return unlikeObject(v, schema, at)
	}
	return ""
}

func unlikeObject(v, schema map[string]any, at string) string {
	required, _ := schema["required"].([]any)
	for _, name := range required {
		if _, ok := v[name.(string)]; !ok {
			return fmt.Sprintf("%s.%s is missing", at, name)
		}
	}
	properties, _ := schema["properties"].(map[string]any)
	other, _ := schema["additionalProperties"].(map[string]any)
	for name, value := range v {
		inner, ok := properties[name].(map[string]any)
		switch {
		case !ok && other != nil:
			inner = other
		case !ok && properties != nil && schema["additionalProperties"] != true:
			return fmt.Sprintf("%s.%s is not described", at, name)
		case !ok:
			continue
		}
		if fault := unlike(value, inner, at+"."+name); fault != "" {
			return fault
		}
	}
	return ""
}

func typesOf(v any) []string {
	switch v := v.(type) {
	case nil:
		return []string{"null"}
	case bool:
		return []string{"boolean"}
	case string:
		return []string{"string"}
	case []any:
		return []string{"array"}
	case json.Number:
		if _, err := v.Int64(); err == nil {
			return []string{"integer", "number"}
		}
		return []string{"number"}
	}
	return []string{"object"}
}
