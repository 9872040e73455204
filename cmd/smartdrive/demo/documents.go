package demo

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.org/smartdrive/client"
	"example.org/smartdrive/internal/intake/bundle"
	"example.org/smartdrive/internal/intake/invoice"
)

// put uploads one small file and creates missing folders.
func put(ctx context.Context, api *client.Client, path string, body []byte) error {
	_, err := api.PutFile(ctx, client.PutFile{Path: path, Size: int64(len(body)), Parents: true, Body: func() (io.Reader, error) { return bytes.NewReader(body), nil }})
	return err
}

// playExport plays an export with failures and its supplement. It fails if the outcome is not as
// told.
func playExport(ctx context.Context, st *harness) error {
	documents := 1000
	if st.o.Fast {
		documents = 200
	}
	const missing = 3
	_, api, err := st.addUser(ctx, "ann", 500*mib)
	if err != nil {
		return err
	}
	st.narrate(bilingual{
		"The disk of ann's shop holds %d documents. A zip of all of them is requested; %d of the list are not there.",
		"ann 的店铺有 %d 份文档。她请求把全部文档打成一个 zip；清单中有 %d 份不存在。",
	}, documents-missing, missing)
	var items []client.BatchItem
	var list strings.Builder
	for i := range documents {
		path := fmt.Sprintf("/shop/%03d/%04d.pdf", i%10, i)
		line, err := json.Marshal(map[string]string{"path": path, "id": fmt.Sprintf("INV-%04d", i), "name": strings.TrimPrefix(path, "/")})
		if err != nil {
			return err
		}
		list.Write(append(line, '\n'))
		if i >= documents-missing {
			continue
		}
		if items, err = addDocument(ctx, api, items, path, i); err != nil {
			return err
		}
	}
	if err := sendBatch(ctx, api, items); err != nil {
		return err
	}
	x, err := api.CreateExportOf(ctx, client.NewExport{Name: "october"}, []byte(list.String()))
	if err != nil {
		return err
	}
	if x, err = st.waitExport(ctx, api, x); err != nil {
		return err
	}
	if err := expect(x.State == "sealed" && x.Total == int64(documents) && x.Collected == int64(documents-missing) && x.Failed == missing, "%s: %d of %d, %d failed", x.State, x.Collected, x.Total, x.Failed); err != nil {
		return err
	}

	st.narrate(bilingual{
		"The zip is downloaded and opened. err.txt in it names what is missing: packed + missing = requested.",
		"下载并打开 zip。其中的 err.txt 列出缺少的文档：成功 + 失败 = 总数。",
	})
	packed, failures, err := st.unzip(ctx, api, x)
	if err != nil {
		return err
	}
	st.printTable([]tableRow{
		{bilingual{"documents in the zip", "zip 中的文档"}, strconv.Itoa(packed)},
		{bilingual{"lines of err.txt", "err.txt 的行数"}, fmt.Sprintf("%d  %q", len(failures), failures[0])},
	})
	if err := expect(packed == documents-missing && len(failures) == missing, "%d packed, %d in err.txt", packed, len(failures)); err != nil {
		return err
	}

	st.narrate(bilingual{"The missing documents are supplied, and a supplement packs them alone.", "补上缺少的文档，补包只打包这几份。"})
	items = nil
	for i := documents - missing; i < documents; i++ {
		if items, err = addDocument(ctx, api, items, fmt.Sprintf("/shop/%03d/%04d.pdf", i%10, i), i); err != nil {
			return err
		}
	}
	if err := sendBatch(ctx, api, items); err != nil {
		return err
	}
	s, err := api.SupplementExport(ctx, x.ID, false, nil)
	if err != nil {
		return err
	}
	if s, err = st.waitExport(ctx, api, s); err != nil {
		return err
	}
	return expect(s.Revision == 2 && s.Collected == missing && s.Failed == 0, "supplement: %d of %d", s.Collected, s.Total)
}

// batchSize is the number of files per request.
const batchSize = 250

// addDocument appends a small PDF to a batch, sends the batch if it is full, and returns the
// remaining items.
func addDocument(ctx context.Context, api *client.Client, items []client.BatchItem, path string, n int) ([]client.BatchItem, error) {
	items = append(items, client.BatchItem{Op: client.BatchPut, Path: path, Parents: true, Content: fmt.Appendf(nil, "%%PDF-1.4\n%% document %d\n%%%%EOF\n", n)})
	if len(items) < batchSize {
		return items, nil
	}
	return nil, sendBatch(ctx, api, items)
}

// sendBatch sends a batch and returns the first error of an item.
func sendBatch(ctx context.Context, api *client.Client, items []client.BatchItem) error {
	if len(items) == 0 {
		return nil
	}
	answers, err := api.Batch(ctx, items)
	if err != nil {
		return err
	}
	for i, a := range answers {
		if a.Err != nil {
			return fmt.Errorf("batch: %s: %w", items[i].Path, a.Err)
		}
	}
	return nil
}

// waitExport waits until an export has ended, prints its counts and returns its last state. It
// fails if waiting takes too long.
func (h *harness) waitExport(ctx context.Context, api *client.Client, x client.Export) (client.Export, error) {
	began := time.Now()
	err := waitUntil(ctx, "the export", func() (_ bool, err error) {
		x, err = api.Export(ctx, x.ID)
		return x.Ended(), err
	})
	if err != nil {
		return x, err
	}
	h.printTable([]tableRow{{bilingual{"export", "批次"}, fmt.Sprintf("%s  state=%s total=%d collected=%d failed=%d zip=%d bytes (%s)",
		x.Filename(), x.State, x.Total, x.Collected, x.Failed, x.Size, time.Since(began).Round(100*time.Millisecond))}})
	return x, nil
}

// unzip downloads the zip of an export. It returns the number of documents and the lines of
// err.txt.
func (h *harness) unzip(ctx context.Context, api *client.Client, x client.Export) (packed int, failures []string, err error) {
	local := filepath.Join(h.dir, x.Filename())
	if err := api.GetExport(ctx, x, local, nil); err != nil {
		return 0, nil, err
	}
	r, err := zip.OpenReader(local)
	if err != nil {
		return 0, nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	for _, f := range r.File {
		switch {
		case strings.HasSuffix(f.Name, "err.txt"):
			body, err := f.Open()
			if err != nil {
				return 0, nil, err
			}
			raw, err := io.ReadAll(body)
			if err != nil {
				return 0, nil, err
			}
			failures = strings.Split(strings.TrimSpace(string(raw)), "\r\n")[1:] // after the header
		case !strings.HasSuffix(f.Name, "/"):
			packed++
		}
	}
	if len(failures) == 0 {
		return 0, nil, errors.New("the zip has no err.txt")
	}
	return packed, failures, nil
}

// playIntake plays accepted, rejected, duplicate and conflicting documents. It fails if the outcome
// is not as told.
func playIntake(ctx context.Context, st *harness) error {
	_, api, err := st.addUser(ctx, "ann", 50*mib)
	if err != nil {
		return err
	}
	st.narrate(bilingual{
		"acme sends a bundle of 4 invoices. The arrival of meta.json is the event that starts the intake. One invoice does not add up.",
		"acme 发来 4 张发票的数据包。meta.json 到达即触发抽取。其中一张的合计不对。",
	})
	wrong := newInvoice("A-4", 400)
	wrong.Totals.Gross = wrong.Totals.Gross.Add(invoice.NewDecimal(1, 0))
	first, err := st.sendBundle(ctx, api, newInvoice("A-1", 100), newInvoice("A-2", 200), newInvoice("A-3", 300), wrong)
	if err != nil {
		return err
	}
	if err := expect(first.Accepted == 3 && first.Rejected == 1, "%+v", first); err != nil {
		return err
	}

	st.narrate(bilingual{
		"A second bundle repeats A-1 as it was, sends A-2 with another amount, and a new A-5.",
		"第二个数据包：A-1 与之前相同，A-2 金额不同，A-5 是新的。",
	})
	second, err := st.sendBundle(ctx, api, newInvoice("A-1", 100), newInvoice("A-2", 999), newInvoice("A-5", 500))
	if err != nil {
		return err
	}
	if err := expect(second.Accepted == 1 && second.Duplicate == 1 && second.Conflict == 1, "%+v", second); err != nil {
		return err
	}

	st.narrate(bilingual{"The conflict waits for a person, who decides for the new one.", "冲突等待人工裁决；这里选择保留新的。"})
	settled, err := api.SettleConflicts(ctx, "acme", "new")
	if err != nil {
		return err
	}
	left := 0
	for _, err := range api.AllConflicts(ctx) {
		if err != nil {
			return err
		}
		left++
	}
	accepted := 0
	for _, err := range api.AllDocuments(ctx, url.Values{}) {
		if err != nil {
			return err
		}
		accepted++
	}
	st.printTable([]tableRow{
		{bilingual{"decided", "已裁决"}, fmt.Sprintf("settled=%d left=%d", settled.Settled, settled.Left)},
		{bilingual{"conflicts left", "剩余冲突"}, strconv.Itoa(left)},
		{bilingual{"documents", "单据"}, strconv.Itoa(accepted)},
	})
	return expect(left == 0 && accepted == 4, "%d conflicts left, %d documents", left, accepted)
}

// newInvoice returns a valid EN 16931 invoice with one line of a net amount in euros.
func newInvoice(number string, euros int64) *invoice.Document {
	net, tax, rate := invoice.NewDecimal(euros*100, 2), invoice.NewDecimal(euros*19, 2), invoice.NewDecimal(19, 0)
	gross := net.Add(tax)
	return &invoice.Document{
		Profile: "urn:cen.eu:en16931:2017", Number: number, Date: invoice.NewDate(2026, 10, 5), Type: "380", Currency: "EUR", Due: invoice.NewDate(2026, 11, 5),
		Seller: invoice.Party{Name: "Muster AG", VATID: "DE123456789", Address: &invoice.Address{City: "Berlin", Zone: "10115", Country: "DE"}},
		Buyer:  invoice.Party{Name: "Beispiel GmbH", VATID: "DE987654321", Address: &invoice.Address{City: "Bonn", Zone: "53111", Country: "DE"}},
		Totals: invoice.Totals{Lines: net, Net: net, Tax: tax, Gross: gross, Payable: gross},
		Taxes:  []invoice.Tax{{Category: "S", Rate: rate, Base: net, Amount: tax}},
		Lines:  []invoice.Line{{ID: "1", Name: "Ware", Quantity: invoice.NewDecimal(1, 0), Unit: "C62", Price: net, Net: net, Category: "S", Rate: rate}},
	}
}

// sendBundle uploads a bundle of the source acme, waits until it is processed, and prints the
// outcome of each document.
func (h *harness) sendBundle(ctx context.Context, api *client.Client, documents ...*invoice.Document) (client.Bundle, error) {
	var lines bytes.Buffer
	for _, d := range documents {
		if err := json.NewEncoder(&lines).Encode(d); err != nil {
			return client.Bundle{}, err
		}
	}
	const name = "invoices.ndjson"
	sum := sha256.Sum256(lines.Bytes())
	m := bundle.Manifest{Schema: bundle.Schema, ID: bundle.NewID(), Source: "acme", CreatedAt: time.Now()}
	m.Members = append(m.Members, bundle.Member{Name: name, Size: int64(lines.Len()), SHA256: hex.EncodeToString(sum[:]), Documents: len(documents)})
	meta, err := m.Encode()
	if err != nil {
		return client.Bundle{}, err
	}
	folder := bundle.Folder(m.Source, m.ID).String() + "/"
	if err := put(ctx, api, folder+name, lines.Bytes()); err != nil {
		return client.Bundle{}, err
	}
	if err := put(ctx, api, folder+"meta.json", meta); err != nil {
		return client.Bundle{}, err
	}
	var b client.Bundle
	if err := waitUntil(ctx, "the bundle", func() (bool, error) {
		for found, err := range api.AllBundles(ctx, url.Values{}) {
			if err != nil {
				return false, err
			}
			if found.SenderID == m.ID {
				b = found
			}
		}
		return b.State == "done" || b.State == "rejected", nil
	}); err != nil {
		return b, err
	}
	facts := []tableRow{{bilingual{"bundle", "数据包"}, fmt.Sprintf("state=%s declared=%d accepted=%d rejected=%d duplicate=%d conflict=%d",
		b.State, b.Declared, b.Accepted, b.Rejected, b.Duplicate, b.Conflict)}}
	var records []client.BundleRecord
	for r, err := range api.AllBundleRecords(ctx, b.ID, "") {
		if err != nil {
			return b, err
		}
		records = append(records, r)
	}
	slices.SortFunc(records, func(a, b client.BundleRecord) int { return int(a.Index - b.Index) })
	for _, r := range records {
		why := r.Reason
		if len(r.Findings) > 0 {
			why += " " + r.Findings[0].Rule
		}
		facts = append(facts, tableRow{bilingual{"  " + r.Number, "  " + r.Number}, strings.TrimSpace(r.Outcome + "  " + why)})
	}
	h.printTable(facts)
	return b, expect(b.Accepted+b.Rejected+b.Duplicate+b.Conflict == b.Declared, "the counts do not add up: %+v", b)
}
