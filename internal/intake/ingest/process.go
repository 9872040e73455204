package ingest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"path"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/intake/invoice"
	"example.org/smartdrive/internal/intake/invoice/envelope"
	"example.org/smartdrive/internal/intake/invoice/rule"
	"example.org/smartdrive/internal/intake/invoice/syntax"
)

// Reasons of records, in addition to the codes of syntax.Kind.
const (
	reasonInvalid   = "invalid"        // the document breaks rules; the findings name them
	reasonNoKey     = "no-key"         // issuer, number or date is missing, or the number is too long
	reasonAbsent    = "absent"         // declared, but not in the member
	reasonSurplus   = "surplus"        // in the member, but not declared
	reasonFiltered  = "filtered-"      // prefix: the source's rules exclude the document; followed by the rule
	reasonKnownSide = "known-conflict" // same content as a side of a conflict
)

// processBundle processes the documents of a bundle from its save point on, and marks the bundle as
// done. If the members were not compared with the manifest yet, it does so first. An error of type
// *refusal rejects the bundle, one of type *waiting postpones it. lease.ErrFenced: this worker has
// lost the bundle.
func (in *workers) processBundle(ctx context.Context, b *row) error {
	if !b.Checked {
		if err := in.checker.check(ctx, b); err != nil {
			return err
		}
	}
	in.halt("checked")
	rules, err := in.rulebook.rulesOf(ctx, b.Account, b.Source)
	if err != nil {
		return err
	}
	rows, err := in.opt.DB.Query(ctx, "SELECT "+memberColumns+" FROM bundle_members WHERE bundle_id = ? ORDER BY n", b.ID)
	members, err := sqldb.Scan(rows, err, scanMember)
	if err != nil {
		return fmt.Errorf("read the members of bundle %s: %w", b.ID, err)
	}
	r := &run{workers: in, b: b, rules: rules, at: b.Save, pdfs: pdfsOf(members)}
	for _, m := range members {
		if m.N <= b.Save.member {
			continue
		}
		err := r.member(ctx, m)
		if errors.Is(err, errDamaged) {
			return in.late(ctx, b, reasonDamaged, m.Name)
		}
		if err != nil {
			return fmt.Errorf("member %d of bundle %s: %w", m.N, b.ID, err)
		}
	}
	if err := r.flush(ctx); err != nil {
		return err
	}
	in.halt("flushed")
	if err := in.library.settleByRule(ctx, b, rules.Conflicts); err != nil {
		return err
	}
	return in.queue.end(ctx, b)
}

// run is the state of one worker that processes a bundle.
type run struct {
	*workers
	b     *row
	rules matcher
	at    pos                     // position after the last item of batch
	pdfs  map[string]drive.NodeID // see pdfsOf

	began drive.Time // when this turn stored its first batch; 0: it has stored none

	batch []item
	bytes int              // size of the models in batch
	wrong map[int64]string // members that could not be decoded as a whole, and the reason, by number
}

// pdfsOf returns the members that are PDFs, by name in lower case without the extension. They may
// be the pictures of documents: the PDFs that show them.
func pdfsOf(members []member) map[string]drive.NodeID {
	all := map[string]drive.NodeID{}
	for _, m := range members {
		if name := strings.ToLower(m.Name); strings.HasSuffix(name, ".pdf") {
			all[strings.TrimSuffix(name, ".pdf")] = m.Node
		}
	}
	return all
}

// member processes the documents of a member from the save point on. It adds one record for all
// declared documents that are absent, or for all surplus ones. It fails with lease.ErrFenced if the
// bundle is lost, and otherwise with an error that makes the bundle retried.
func (r *run) member(ctx context.Context, m member) error {
	found := int64(0)
	if m.Documents > 0 {
		var err error
		if found, err = r.documents(ctx, m); err != nil {
			return err
		}
	}
	if m.Documents == 0 && r.b.declared == 0 {
		var err error
		if found, err = r.undeclared(ctx, m); err != nil {
			return err
		}
	}
	if found < m.Documents {
		r.add(item{member: m.N, index: found, outcome: Reject, reason: reasonAbsent, counts: m.Documents - found})
	}
	if found > m.Documents {
		r.add(item{member: m.N, index: m.Documents, outcome: Reject, reason: reasonSurplus, counts: found - m.Documents, surplus: true})
	}
	r.at = pos{member: m.N}
	return r.flushFull(ctx)
}

// undeclared counts the documents in a PDF or archive of a bundle that declares no documents at
// all. Otherwise a sender that mistakes such files for pictures would be told that all is done. It
// fails with an error of the store or the cause of ctx.
func (r *run) undeclared(ctx context.Context, m member) (int64, error) {
	object, err := r.openSound(ctx, m.Blob)
	if err != nil {
		return 0, err
	}
	defer object.Close() //nolint:errcheck // it was only read
	head := make([]byte, 1024)
	n, err := object.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	kind := envelope.Sniff(head[:n])
	if kind == envelope.None {
		return 0, nil
	}
	found, err := envelope.Count(kind, timedReaderAt{func() error { return context.Cause(ctx) }, object}, int64(object.Size()))
	return int64(found), err
}

// largeDecode is the permission to decode a member that may take much memory. One worker of the
// process has it at a time.
type largeDecode struct {
	place chan struct{}
	held  bool
}

// hold waits for the permission, unless the worker has it. It fails with the cause of ctx.
func (a *largeDecode) hold(ctx context.Context) error {
	if a.held {
		return nil
	}
	select {
	case a.place <- struct{}{}:
		a.held = true
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// release returns the permission, if the worker has it.
func (a *largeDecode) release() {
	if a.held {
		<-a.place
		a.held = false
	}
}

// open opens the content of a member and decodes its documents while the caller iterates. If the
// member, or an unpacked document in it, is larger than envelope.LargeDocument, it first waits
// until no other worker decodes such a member. Without an error the caller must call end once it
// has read the documents. It fails with a *syntax.Error for a format that is not supported,
// errDamaged, or an error of the store.
func (in *workers) open(ctx context.Context, m member) (documents iter.Seq2[*invoice.Document, error], end func(), err error) {
	a := &largeDecode{place: in.large}
	defer func() {
		if err != nil {
			a.release()
		}
	}()
	if m.Size > envelope.LargeDocument {
		if err := a.hold(ctx); err != nil {
			return nil, nil, err
		}
	}
	object, err := in.openSound(ctx, m.Blob)
	if err != nil {
		return nil, nil, err
	}
	end = func() {
		object.Close() //nolint:errcheck,gosec // it was only read
		a.release()
	}
	documents, err = decode(ctx, object, envelope.Limits{Large: func() error { return a.hold(ctx) }})
	if err != nil {
		object.Close() //nolint:errcheck,gosec // it was only read
	}
	return documents, end, err
}

// documents decodes a member, adds the outcome of each declared document to the batch, and returns
// the number of documents in the member. Those before the save point are skipped. If the member
// cannot be decoded as a whole, it rejects all of it and returns the declared number. It fails with
// the error of storing a batch or of the store.
func (r *run) documents(ctx context.Context, m member) (found int64, err error) {
	documents, end, err := r.open(ctx, m)
	if fault, bad := errors.AsType[*syntax.Error](err); bad {
		r.rejectMember(m, fault)
		return m.Documents, nil
	}
	if err != nil {
		return 0, err
	}
	defer end()
	skip := int64(0)
	if r.b.Save.member == m.N-1 {
		skip = r.b.Save.index
	}
	for doc, err := range documents {
		var fault *syntax.Error
		if err != nil && !errors.As(err, &fault) {
			return 0, err
		}
		if found++; found <= skip || found > m.Documents {
			continue
		}
		one := item{member: m.N, index: found - 1, counts: 1}
		if fault != nil {
			one.outcome, one.reason, one.findings = Reject, fault.Kind.String(), findingOf(fault)
		} else if err := r.validate(&one, doc, m); err != nil {
			return 0, err
		}
		r.add(one)
		r.at = pos{m.N - 1, found}
		if err := r.flushFull(ctx); err != nil {
			return 0, err
		}
	}
	return found, nil
}

// findingOf returns a decoder's error as the JSON of one finding.
func findingOf(fault *syntax.Error) string {
	return encodeFindings([]DocumentFinding{{Rule: fault.Kind.String(), Severity: rule.Fatal.String(), Text: fault.Error(), Line: fault.Line}})
}

// decode returns the documents of a member, in order. If the format is not supported, the error is
// a *syntax.Error.
func decode(ctx context.Context, object blob.Object, limits envelope.Limits) (iter.Seq2[*invoice.Document, error], error) {
	in := bufio.NewReaderSize(bounded(ctx, object), 64<<10)
	head, err := in.Peek(syntax.SniffBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if kind := envelope.Sniff(head); kind != envelope.None {
		return envelope.Decode(kind, timedReaderAt{func() error { return context.Cause(ctx) }, object}, int64(object.Size()), limits), nil
	}
	format := syntax.Sniff(head)
	if format == syntax.Unknown {
		return nil, syntax.Unread(head)
	}
	return syntax.Decode(format, in, limits.Limits), nil
}

// rejectMember adds one record that rejects all documents of a member from the save point on.
func (r *run) rejectMember(m member, fault *syntax.Error) {
	reason, index := fault.Kind.String(), int64(0)
	if r.b.Save.member == m.N-1 {
		index = r.b.Save.index
	}
	if index < m.Documents {
		r.add(item{member: m.N, index: index, outcome: Reject, reason: reason, findings: findingOf(fault), counts: m.Documents - index})
	}
	if r.wrong == nil {
		r.wrong = map[int64]string{}
	}
	r.wrong[m.N] = reason
}

// add appends an item to the batch and its packed bytes to the batch's size. The caller must flush.
func (r *run) add(one item) {
	r.batch = append(r.batch, one)
	if one.doc != nil {
		r.bytes += len(one.doc.body)
	}
}

// flushFull stores the batch if it has batchSize items or batchBytes bytes; else it does nothing.
// errTurnOver: the batch is stored, and another account waits.
func (r *run) flushFull(ctx context.Context) error {
	if len(r.batch) < batchSize && r.bytes < int(batchBytes) {
		return nil
	}
	if err := r.flush(ctx); err != nil {
		return err
	}
	return r.endTurn(ctx)
}

// endTurn returns errTurnOver if the worker should return the bundle to the queue: an account
// without a running bundle waits, no worker of this process is idle, and this turn has stored
// batches for turnSlice. The time before the first batch does not count: decoding again what
// earlier turns stored must not use up the turn.
func (r *run) endTurn(ctx context.Context) error {
	now, err := r.now(ctx)
	if err != nil {
		return err
	}
	if r.began == 0 {
		r.began = now
	}
	if now.Sub(r.began) < turnSlice || len(r.slots) < cap(r.slots) {
		return nil
	}
	wait, err := r.queue.othersWait(ctx, now)
	if err == nil && wait {
		err = errTurnOver
	}
	return err
}

// flush stores the batch and the save point in one transaction, and empties the batch. Without
// items and progress it does nothing. lease.ErrFenced: this worker has lost the bundle.
func (r *run) flush(ctx context.Context) error {
	if len(r.batch) == 0 && r.at == r.b.Save {
		return nil
	}
	if err := r.store(ctx, r.batch, r.at); err != nil {
		return err
	}
	clear(r.batch)
	r.batch, r.bytes, r.wrong = r.batch[:0], 0, nil
	r.halt("stored")
	return nil
}

// pdfOf returns the PDF member that shows a document; zero if there is none. It compares names
// without case, in this order: the names of the document's attachments, the name of the member
// without its extension (if the member holds one document), and the document's number.
func (r *run) pdfOf(m member, number string, named []string) drive.NodeID {
	if len(r.pdfs) == 0 {
		return drive.NodeID{}
	}
	stem := strings.TrimSuffix(m.Name, path.Ext(m.Name))
	for _, name := range append(named, stem, number) {
		if id, ok := r.pdfs[strings.TrimSuffix(strings.ToLower(name), ".pdf")]; ok && (name != stem || m.Documents == 1) {
			return id
		}
	}
	return drive.NodeID{}
}

// bounded returns a reader of the whole object that fails with ctx's cause once ctx is done.
func bounded(ctx context.Context, object interface {
	io.ReaderAt
	Size() drive.ByteSize
},
) io.Reader {
	return &boundedReader{over: func() error { return context.Cause(ctx) }, r: io.NewSectionReader(object, 0, int64(object.Size()))}
}

// timedReaderAt is a reader at any offset that fails once over returns an error.
type timedReaderAt struct {
	over func() error
	io.ReaderAt
}

// ReadAt reads unless over returns an error, which it returns instead.
func (t timedReaderAt) ReadAt(p []byte, off int64) (int, error) {
	if err := t.over(); err != nil {
		return 0, err
	}
	return t.ReaderAt.ReadAt(p, off)
}

// boundedReader is a reader that fails once over returns an error.
type boundedReader struct {
	over func() error
	r    io.Reader
}

// Read reads unless over returns an error, which it returns instead.
func (b *boundedReader) Read(p []byte) (int, error) {
	if err := b.over(); err != nil {
		return 0, err
	}
	return b.r.Read(p)
}
