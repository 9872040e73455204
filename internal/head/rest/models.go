package rest

import (
	"bytes"
	"io"
	"net/http"
	"slices"

	"example.org/smartdrive/internal/intake/ingest"
)

// noModel is the placeholder of a document's model in encoded JSON. It cannot occur inside of a
// JSON string, where the quotes would be escaped.
const noModel = `"model":null`

// modelsOf returns the deflated models of conflicts in the order of their placeholders.
func modelsOf(all ...ingest.Dispute) [][]byte {
	models := make([][]byte, 0, 2*len(all))
	for _, d := range all {
		models = append(models, d.Old.Packed, d.New.Packed)
	}
	return models
}

// size returns how many bytes of memory the reply occupies while it is sent.
func (rep reply) size(raw []byte) (n int64) {
	n = int64(len(raw))
	for _, m := range rep.models {
		n += int64(len(m))
	}
	return n
}

// sendModels sends JSON and inflates each model at its placeholder, so that no inflated model is
// held in memory. It aborts the connection if a model cannot be inflated. It always returns nil.
func (c *call) sendModels(rep reply, raw []byte) error {
	c.w.WriteHeader(rep.status)
	for _, m := range rep.models {
		before, after, _ := bytes.Cut(raw, []byte(noModel))
		raw = after
		if _, err := c.w.Write(append(slices.Clip(before), `"model":`...)); err != nil { //nolint:gosec // JSON, and said to be
			return nil //nolint:nilerr // the client is gone
		}
		if _, err := io.Copy(c.w, ingest.Inflate(m)); err != nil {
			panic(http.ErrAbortHandler) // a clean end would look complete to the client
		}
	}
	_, _ = c.w.Write(raw) //nolint:gosec // as above; it fails only when the client is gone
	return nil
}
