package ingest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"runtime/debug"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/intake/invoice"
	"example.org/smartdrive/internal/intake/invoice/envelope"
	"example.org/smartdrive/internal/intake/invoice/syntax"
)

// Attachment is an open file that is embedded in a document. The server stores it only inside the
// file that contains the document, and extracts it each time it is read. The caller must close it.
type Attachment struct {
	io.ReadCloser
	Name string
	Type string // media type, as the document declares it
	Size drive.ByteSize
}

// Enclosed reads the files that are embedded in documents.
type Enclosed struct{ *core }

// EnclosedOf returns the reader of embedded files for the documents of in.
func EnclosedOf(in *Intake) Enclosed { return Enclosed{in.core} }

// Open opens the file embedded in a document whose SHA-256, in hex, is sum. NotFound: the document,
// its file or the embedded file does not exist. The caller must close the Attachment.
func (e Enclosed) Open(ctx context.Context, account drive.AccountID, id drive.DocumentID, sum string) (*Attachment, error) {
	var body []byte
	var file drive.NodeID
	err := e.opt.DB.For(account).QueryRow(ctx, "SELECT file_id, body FROM documents WHERE id = ? AND account_id = ?", id, account).Scan(&file, &body)
	if err != nil {
		return nil, err
	}
	var found error = drive.Fail(drive.NotFound)
	var a invoice.Attachment
	err = attachments(body, func(one invoice.Attachment) {
		if one.SHA256 == sum && one.Size > 0 {
			a, found = one, nil
		}
	})
	if err = errors.Join(err, found); err != nil {
		return nil, err
	}
	nodes, err := e.opt.Tree.FindMany(ctx, e.opt.DB.For(account), account, file)
	if err != nil {
		return nil, err
	}
	n, ok := nodes[file]
	if !ok || n.Trashed != 0 || n.IsFolder() {
		return nil, drive.Fail(drive.NotFound)
	}
	object, err := e.open(ctx, n.Blob)
	if err != nil {
		return nil, err
	}
	out, into := io.Pipe()
	t := &extraction{Reader: bufio.NewReader(out), end: out.Close, over: make(chan struct{})}
	go func() {
		defer close(t.over)
		err := extract(timedReaderAt{func() error { return context.Cause(ctx) }, object}, int64(object.Size()), sum, into)
		if _, bad := errors.AsType[*syntax.Error](err); bad || errors.Is(err, envelope.ErrNoFile) {
			err = drive.Wrap(err, drive.NotFound) // the file was replaced since the document was read
		}
		into.CloseWithError(errors.Join(err, object.Close()))
	}()
	if _, err := t.Peek(1); err != nil && !errors.Is(err, io.EOF) { // an error before the first byte is returned by Open
		return nil, errors.Join(err, t.Close())
	}
	return &Attachment{t, a.Name, a.Type, drive.ByteSize(a.Size)}, nil
}

// extract calls envelope.Extract and turns a panic into an error. It runs in a goroutine of its
// own, where a panic caused by a malicious file would end the process.
func extract(in io.ReaderAt, size int64, sum string, to io.Writer) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic while an embedded file was taken out: %v\n%s", p, debug.Stack())
		}
	}()
	return envelope.Extract(in, size, sum, to)
}

// extraction is the content of an Attachment, which a goroutine extracts into a pipe while it is
// read. The caller must call Close.
type extraction struct {
	*bufio.Reader
	end  func() error
	over chan struct{}
}

// Close stops the extraction and waits for its goroutine. The caller must call it once.
func (t *extraction) Close() error {
	err := t.end()
	<-t.over
	return err
}

// attachments calls fn for each attachment of a packed model. It decodes the model as a stream and
// never holds all of it in memory. It stops at fn's first error and returns it, and fails if packed
// is damaged.
func attachments(packed []byte, fn func(invoice.Attachment)) error {
	d := json.NewDecoder(Inflate(packed))
	depth, key := 0, false // key: the next token at depth 1 is an object key
	for {
		token, err := d.Token()
		if err != nil {
			return fmt.Errorf("read the attachments of a document: %w", err)
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
			key = depth == 1
			continue
		case json.Delim('}'), json.Delim(']'):
			if depth--; depth == 0 {
				return nil
			}
		}
		if depth != 1 {
			continue
		}
		if key && token == "attachments" {
			var all []invoice.Attachment
			if err := d.Decode(&all); err != nil {
				return fmt.Errorf("decode the attachments of a document: %w", err)
			}
			for _, a := range all {
				fn(a)
			}
			continue
		}
		key = !key
	}
}

// isPDF reports whether an attachment is an embedded PDF, by its media type or, without one, its
// extension.
func isPDF(a invoice.Attachment) bool {
	return a.Size > 0 && (strings.EqualFold(a.Type, "application/pdf") || a.Type == "" && strings.EqualFold(path.Ext(a.Name), ".pdf"))
}

// pictures sets the field embedded, in place, of each document that has a visible file and no
// visible PDF, to the SHA-256 of its first embedded PDF. It fails with the error of the query or
// for a damaged model.
func (e Enclosed) pictures(ctx context.Context, account drive.AccountID, all []Document) error {
	at := map[drive.DocumentID]*Document{}
	args := []any{account}
	for i, d := range all {
		if d.PDF == nil && d.File != nil {
			at[d.ID], args = &all[i], append(args, d.ID)
		}
	}
	if len(at) == 0 {
		return nil
	}
	rows, err := e.opt.DB.For(account).Query(ctx, "SELECT id, body FROM documents WHERE account_id = ? AND id IN ("+sqldb.Placeholders(len(at))+")", args...)
	_, err = sqldb.Scan(rows, err, func(_ *struct{}, scan func(...any) error) error {
		var id drive.DocumentID
		var body []byte
		if err := scan(&id, &body); err != nil {
			return err
		}
		return attachments(body, func(a invoice.Attachment) {
			if d := at[id]; d.embedded == "" && isPDF(a) {
				d.embedded = a.SHA256
			}
		})
	})
	if err != nil {
		return fmt.Errorf("look for embedded PDFs: %w", err)
	}
	return nil
}
