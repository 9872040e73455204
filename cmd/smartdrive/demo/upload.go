package demo

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"example.org/smartdrive/client"
)

// mib is one MiB in bytes.
const mib = 1 << 20

// shape holds the sizes of the worked example in bytes: a file of 100 MB in about 10 parts and a
// quota of five files.
type shape struct{ file, part, quota int64 }

// shape returns the sizes for the chosen options.
func (h *harness) shape() shape {
	switch {
	case h.o.Fast && h.o.Services != nil:
		return shape{80 * mib, 8 * mib, 400 * mib} // S3 parts have at least 5 MiB
	case h.o.Fast:
		return shape{10 * mib, mib, 50 * mib}
	}
	return shape{100 * mib, 8 * mib, 500 * mib} // part sizes are powers of two: 13 parts instead of 10
}

// randomFile returns n random bytes, the same for the same seed.
func randomFile(seed uint64, n int64) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(seed), 1})
	_, _ = r.Read(b) // never fails
	return b
}

// putParts sends the parts from, …, to-1 of an upload, one after the other.
func putParts(ctx context.Context, api *client.Client, u client.Upload, file []byte, from, to int64) error {
	for n := from; n < to; n++ {
		length := min(u.PartSize, int64(len(file))-n*u.PartSize)
		if err := api.PutPart(ctx, u.ID, n, io.NewSectionReader(bytes.NewReader(file), n*u.PartSize, length)); err != nil {
			return fmt.Errorf("part %d: %w", n+1, err)
		}
	}
	return nil
}

// commits is the metric that counts database transactions.
const commits = "smartdrive_db_commits_total"

// show prints the state of an upload: disk, timer, row, ledger, and the user's view.
func (h *harness) show(ctx context.Context, user client.User, api *client.Client, upload string) (client.Ledger, uploadRow, error) {
	_, disk, err := h.stagingUsage()
	if err != nil {
		return client.Ledger{}, uploadRow{}, err
	}
	timer, err := h.timerText(ctx, upload)
	if err != nil {
		return client.Ledger{}, uploadRow{}, err
	}
	row, err := h.readRow(ctx, upload)
	if err != nil {
		return client.Ledger{}, row, err
	}
	ledger, balances, err := h.ledgerText(ctx, user.ID)
	if err != nil {
		return ledger, row, err
	}
	me, err := api.Me(ctx)
	if err != nil {
		return ledger, row, err
	}
	h.printTable([]tableRow{
		{bilingual{"staging on disk", "磁盘暂存"}, disk},
		{bilingual{"delayed task", "延时任务"}, timer},
		{bilingual{"row in uploads", "uploads 表"}, row.String()},
		{bilingual{"ledger", "账本"}, balances},
		{bilingual{"used, as the user sees it", "用户看到的已用空间"}, size(me.Usage.Used)},
	})
	return ledger, row, nil
}

// playUpload plays an upload that stops and is parked by its timer.
func playUpload(ctx context.Context, st *harness) error {
	sh := st.shape()
	file := randomFile(1, sh.file)
	ann, api, err := st.addUser(ctx, "ann", sh.quota)
	if err != nil {
		return err
	}
	st.narrate(bilingual{
		"ann has a quota of %s. She begins an upload of %s in parts of %s; the idle limit is %s. The declared size is reserved at once.",
		"ann 的配额是 %s。她开始上传 %s 的文件，每片 %s，空闲时限 %s。声明的大小立即预留。",
	}, size(sh.quota), size(sh.file), size(sh.part), st.idle())
	declared := sh.file
	u, err := api.BeginUpload(ctx, client.NewUpload{Path: "/report.bin", Size: &declared, PartSize: sh.part})
	if err != nil {
		return err
	}
	ledger, row, err := st.show(ctx, ann, api, u.ID)
	if err != nil {
		return err
	}
	if err := expect(row.state == "active" && row.gen == 1 && ledger.Reserved == sh.file && ledger.Unfinished == 0, "after begin %v, reserved %d", row, ledger.Reserved); err != nil {
		return err
	}

	st.narrate(bilingual{
		"Parts 1 to 3 arrive. Each one pushes the delayed task back; none of them writes to the database.",
		"第 1 到第 3 个分片到达。每个分片把延时任务向后推；全程没有写数据库。",
	})
	before, err := st.metric(ctx, commits)
	if err != nil {
		return err
	}
	if err := putParts(ctx, api, u, file, 0, 3); err != nil {
		return err
	}
	after, err := st.metric(ctx, commits)
	if err != nil {
		return err
	}
	again, _, err := st.show(ctx, ann, api, u.ID)
	if err != nil {
		return err
	}
	rowAfter, err := st.readRow(ctx, u.ID)
	if err != nil {
		return err
	}
	st.printTable([]tableRow{{bilingual{"transactions of the server for 3 parts", "服务端为 3 个分片执行的事务"}, strconv.FormatInt(after-before, 10)}})
	if err := expect(after == before && rowAfter == row && again.Reserved == sh.file, "%d transactions for parts, row %v", after-before, rowAfter); err != nil {
		return err
	}

	st.narrate(bilingual{
		"The client stops. After %s without a byte the task fires once: the reservation is released, and what lies on the disk is charged. The upload is parked.",
		"客户端停止发送。%s 内没有数据，任务触发一次：释放预留，只计入磁盘上实际占用的字节。上传转为暂停（parked）。",
	}, st.idle())
	began := time.Now()
	if err := st.untilState(ctx, u.ID, "parked"); err != nil {
		return err
	}
	waited := time.Since(began)
	ledger, row, err = st.show(ctx, ann, api, u.ID)
	if err != nil {
		return err
	}
	st.printTable([]tableRow{{bilingual{"waited", "等待"}, waited.Round(100 * time.Millisecond).String()}})
	if err := expect(ledger.Reserved == 0 && ledger.Unfinished == row.held && row.held >= 3*sh.part && row.gen == 2, "after park %v, unfinished %d", row, ledger.Unfinished); err != nil {
		return err
	}

	st.narrate(bilingual{
		"The client comes back and sends the rest. The first part reserves the file again; complete moves it to finished.",
		"客户端回来发送其余分片。第一个分片重新预留；全部完成后，数据计入 finished。",
	})
	if err := putParts(ctx, api, u, file, 3, int64(u.Parts)); err != nil {
		return err
	}
	done, err := api.CompleteUpload(ctx, u.ID, client.UploadChange{})
	if err != nil {
		return err
	}
	ledger, row, err = st.show(ctx, ann, api, u.ID)
	if err != nil {
		return err
	}
	if err := expect(ledger.Finished == sh.file && ledger.Reserved == 0 && ledger.Unfinished == 0 && row.state == "done", "after complete %v, finished %d", row, ledger.Finished); err != nil {
		return err
	}
	return st.checkDownload(ctx, api, done.Node, file)
}

// untilState waits until the row of an upload has a state. It fails if waiting takes too long or
// the row is gone.
func (h *harness) untilState(ctx context.Context, upload, state string) error {
	return waitUntil(ctx, "state "+state, func() (bool, error) {
		row, err := h.readRow(ctx, upload)
		return row.state == state, err
	})
}

// checkDownload downloads a file and compares it with the bytes sent. It fails for a nil node or a
// difference.
func (h *harness) checkDownload(ctx context.Context, api *client.Client, n *client.Node, file []byte) error {
	if n == nil {
		return expect(false, "the upload has no file")
	}
	content, err := api.Open(ctx, n.ID, client.Range{})
	if err != nil {
		return err
	}
	defer content.Close()
	got, err := io.ReadAll(content)
	if err != nil {
		return err
	}
	if err := expect(bytes.Equal(got, file), "the download differs from what was sent"); err != nil {
		return err
	}
	h.narrate(bilingual{"Downloaded and compared: %s, byte for byte the same.", "下载并比较：%s，逐字节相同。"}, size(int64(len(got))))
	return nil
}

// playResume plays an upload that resumes after client and server were killed.
func playResume(ctx context.Context, st *harness) error {
	sh := st.shape()
	file := randomFile(2, sh.file)
	local := filepath.Join(st.dir, "disk.img")
	if err := os.WriteFile(local, file, 0o600); err != nil {
		return err
	}
	_, api, err := st.addUser(ctx, "bob", sh.quota)
	if err != nil {
		return err
	}
	st.narrate(bilingual{
		"\"smartdrive put\" sends %s at a limited rate; when parts have arrived, the client is killed (kill -9).",
		"“smartdrive put” 限速发送 %s；部分分片到达之后，客户端被 kill -9。",
	}, size(sh.file))
	seconds := int64(2) // for the whole file
	if st.cluster != nil {
		seconds = 10
	}
	slow, err := newThrottle(ctx, st.server.address, sh.file/seconds)
	if err != nil {
		return err
	}
	defer slow.close()
	put := func(server string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, st.o.Binary, "put", local, "/disk.img", "--json", "--part-size", strconv.FormatInt(sh.part, 10), "--server", server) //nolint:gosec // this program
		cmd.Env = append(withoutSettings(os.Environ()), "SMARTDRIVE_TOKEN="+api.Token())
		return cmd
	}
	first := put(slow.url())
	if err := first.Start(); err != nil {
		return err
	}
	u, err := waitForParts(ctx, api, 1)
	if err != nil {
		return err
	}
	_ = first.Process.Kill()
	_ = first.Wait()
	if u, err = api.Upload(ctx, u.ID); err != nil {
		return err
	}
	have := receivedParts(u)
	st.printTable([]tableRow{{bilingual{"parts on the server", "服务器上的分片"}, fmt.Sprintf("%d / %d  %v", have, u.Parts, u.Received)}})
	if err := expect(have > 0 && have < u.Parts, "%d of %d parts arrived", have, u.Parts); err != nil {
		return err
	}

	alive, err := st.killServer(ctx)
	if err != nil {
		return err
	}
	if api, err = alive.withToken(api.Token()); err != nil {
		return err
	}
	now, err := api.Upload(ctx, u.ID)
	if err != nil {
		return err
	}
	st.printTable([]tableRow{{bilingual{"parts on the server", "服务器上的分片"}, fmt.Sprintf("%d / %d  %v", receivedParts(now), now.Parts, now.Received)}})
	if err := expect(receivedParts(now) >= have, "%d parts before, %d after", have, receivedParts(now)); err != nil {
		return err
	}

	st.narrate(bilingual{"The same command again sends only what is missing.", "再次执行同一命令，只发送缺少的部分。"})
	second := put(alive.url())
	out, err := second.Output()
	if err != nil {
		return fmt.Errorf("second run: %w: %s", err, out)
	}
	result, err := decode[struct {
		State       string
		Moved, Size int64
	}](out)
	if err != nil {
		return err
	}
	st.printTable([]tableRow{
		{bilingual{"result", "结果"}, fmt.Sprintf("state=%s size=%s moved=%s", result.State, size(result.Size), size(result.Moved))},
	})
	if err := expect(result.Moved < sh.file && result.Moved <= sh.file-int64(receivedParts(now))*sh.part+2*sh.part, "%d bytes were sent again", result.Moved); err != nil {
		return err
	}
	n, err := api.NodeAt(ctx, "/disk.img")
	if err != nil {
		return err
	}
	return st.checkDownload(ctx, api, &n, file)
}

// killServer kills the server and returns the server to continue with: the same one restarted, or
// the other instance of the cluster.
func (h *harness) killServer(ctx context.Context) (*server, error) {
	if h.cluster != nil {
		h.narrate(bilingual{
			"The instance is killed (kill -9), too. The other one has what was acknowledged: rows in MySQL, bytes in S3, the journal of parts in Redis.",
			"该实例也被 kill -9。已确认的分片在另一个实例上都能看到：行在 MySQL，字节在 S3，分片日志在 Redis。",
		})
		h.server.kill()
		return h.second, nil
	}
	h.narrate(bilingual{
		"The server is killed (kill -9), too, and started again. What it acknowledged is still there.",
		"服务端也被 kill -9，然后重新启动。已确认的分片都还在。",
	})
	h.server.kill()
	return h.server, h.server.start(ctx)
}

// waitForParts waits until the only open upload has at least n parts, and returns the upload.
func waitForParts(ctx context.Context, api *client.Client, n int) (u client.Upload, err error) {
	return u, waitUntil(ctx, "parts to arrive", func() (bool, error) {
		list, err := api.Uploads(ctx, client.Page{})
		if err != nil || len(list.Items) == 0 {
			return false, err
		}
		u, err = api.Upload(ctx, list.Items[0].ID)
		return receivedParts(u) >= n, err
	})
}

// receivedParts returns the number of parts that the server has.
func receivedParts(u client.Upload) (n int) {
	for _, span := range u.Received {
		n += int(span[1] - span[0] + 1)
	}
	return n
}

// playAttack plays an account that begins uploads and never completes them. It fails if the outcome
// is not as told.
func playAttack(ctx context.Context, st *harness) error {
	const quota, file = 20 * mib, 6 * mib
	mallory, api, err := st.addUser(ctx, "mallory", quota)
	if err != nil {
		return err
	}
	st.narrate(bilingual{
		"mallory has a quota of %s. She begins uploads of %s, sends all parts but one, and never completes any.",
		"mallory 的配额是 %s。她不断开始上传 %s 的文件，每个都只差一个分片不传，从不完成。",
	}, size(quota), size(file))
	refused := false
	for i := 1; i <= 6; i++ {
		declared := int64(file)
		u, err := api.BeginUpload(ctx, client.NewUpload{Path: fmt.Sprintf("/junk-%d", i), Size: &declared, PartSize: mib})
		outcome := "201"
		switch {
		case client.CodeOf(err) == client.CodeQuota:
			refused, outcome = true, "507 quota"
		case err != nil:
			return err
		default:
			if err := putParts(ctx, api, u, randomFile(uint64(10+i), file), 0, 5); err != nil {
				return err
			}
		}
		ledger, balances, err := st.ledgerText(ctx, mallory.ID)
		if err != nil {
			return err
		}
		st.printTable([]tableRow{{bilingual{fmt.Sprintf("upload %d", i), fmt.Sprintf("第 %d 次", i)}, fmt.Sprintf("%-10s %s", outcome, balances)}})
		if err := expect(ledger.Finished+ledger.Unfinished+ledger.Reserved <= quota, "more than the quota is charged: %s", balances); err != nil {
			return err
		}
	}
	if err := expect(refused, "no upload was refused"); err != nil {
		return err
	}

	st.narrate(bilingual{
		"The uploads go quiet. What lies on the disk stays charged, so the quota holds for unfinished uploads as well.",
		"上传静默之后，磁盘上的字节仍然计入用量：未完成的上传也受配额约束。",
	})
	var ledger client.Ledger
	var balances string
	if err := waitUntil(ctx, "all uploads to be parked", func() (_ bool, err error) {
		ledger, balances, err = st.ledgerText(ctx, mallory.ID)
		return ledger.Reserved == 0, err
	}); err != nil {
		return err
	}
	bytes, disk, err := st.stagingUsage()
	if err != nil {
		return err
	}
	st.printTable([]tableRow{{bilingual{"ledger", "账本"}, balances}, {bilingual{"staging on disk", "磁盘暂存"}, disk}})
	if err := expect(ledger.Unfinished >= 15*mib && ledger.Unfinished <= quota && bytes <= quota+mib, "unfinished %d, on disk %d", ledger.Unfinished, bytes); err != nil {
		return err
	}

	st.narrate(bilingual{"mallory cancels all of them: the space is free at once.", "mallory 取消全部上传：空间立即释放。"})
	for u, err := range api.AllUploads(ctx) {
		if err != nil {
			return err
		}
		if err := api.CancelUpload(ctx, u.ID); err != nil {
			return err
		}
	}
	if err := waitUntil(ctx, "the space to be released", func() (_ bool, err error) {
		ledger, balances, err = st.ledgerText(ctx, mallory.ID)
		return ledger.Unfinished == 0, err
	}); err != nil {
		return err
	}
	st.printTable([]tableRow{{bilingual{"ledger", "账本"}, balances}})
	return nil
}

// playInstant plays instant uploads, with and without proof of the content. It fails if the outcome
// is not as told.
func playInstant(ctx context.Context, st *harness) error {
	file := randomFile(3, 12*mib)
	_, ann, err := st.addUser(ctx, "ann", 200*mib)
	if err != nil {
		return err
	}
	bob, bobs, err := st.addUser(ctx, "bob", 200*mib)
	if err != nil {
		return err
	}
	_, eves, err := st.addUser(ctx, "eve", 50*mib)
	if err != nil {
		return err
	}
	st.narrate(bilingual{"ann uploads talk.mp4 (%s).", "ann 上传 talk.mp4（%s）。"}, size(int64(len(file))))
	n, err := ann.PutFile(ctx, client.PutFile{Path: "/talk.mp4", Size: int64(len(file)), Body: func() (io.Reader, error) { return bytes.NewReader(file), nil }})
	if err != nil {
		return err
	}
	st.printTable([]tableRow{{bilingual{"BLAKE3", "BLAKE3"}, n.Digests["blake3"]}})

	st.narrate(bilingual{
		"eve knows the digest, but not the file. The server asks a question that only somebody with every byte can answer; eve guesses.",
		"eve 只知道哈希，没有文件。服务器提出只有持有全部字节的人才能回答的质询；eve 只能猜。",
	})
	declared := int64(len(file))
	claim := client.NewUpload{Path: "/stolen.mp4", Size: &declared, Digests: n.Digests}
	u, err := eves.BeginUpload(ctx, claim)
	if err != nil {
		return err
	}
	if err := expect(u.Challenge != nil && u.State == client.Active, "eve's claim: state %s", u.State); err != nil {
		return err
	}
	guessed, err := eves.Prove(ctx, u.ID, "blake3", n.Digests["blake3"])
	if err != nil && client.CodeOf(err) == "" {
		return err
	}
	if err == nil {
		u = guessed
	}
	_, missing := eves.NodeAt(ctx, "/stolen.mp4")
	st.printTable([]tableRow{
		{bilingual{"eve's upload after the guess", "猜测之后 eve 的上传"}, fmt.Sprintf("state=%s", u.State)},
		{bilingual{"/stolen.mp4", "/stolen.mp4"}, string(client.CodeOf(missing))},
	})
	if err := expect(client.CodeOf(missing) == client.CodeNotFound && u.State != client.Done, "eve has the file"); err != nil {
		return err
	}

	st.narrate(bilingual{
		"bob has the same file. \"smartdrive put\" proves it, and not one byte of it is sent.",
		"bob 有同一个文件。“smartdrive put” 回答质询，文件的字节一个也不发送。",
	})
	local := filepath.Join(st.dir, "mine.mp4")
	if err := os.WriteFile(local, file, 0o600); err != nil {
		return err
	}
	result, err := st.putFile(ctx, bobs, local, "/mine.mp4", st.server.url())
	if err != nil {
		return err
	}
	_, balances, err := st.ledgerText(ctx, bob.ID)
	if err != nil {
		return err
	}
	contents, err := st.countRows(ctx, "SELECT COUNT(*) FROM blobs")
	if err != nil {
		return err
	}
	st.printTable([]tableRow{
		{bilingual{"result", "结果"}, fmt.Sprintf("state=%s moved=%d", result.State, result.Moved)},
		{bilingual{"bob's ledger", "bob 的账本"}, balances},
		{bilingual{"contents stored", "存储的内容"}, strconv.FormatInt(contents, 10)},
	})
	if err := expect(result.State == "instant" && result.Moved == 0 && contents == 1, "%s, %d bytes moved, %d contents", result.State, result.Moved, contents); err != nil {
		return err
	}
	return st.playLarge(ctx, ann, bobs)
}

// playLarge makes a second user upload a file that is too large for the server to verify while the
// client waits.
func (h *harness) playLarge(ctx context.Context, ann, bobs *client.Client) error {
	file := randomFile(4, 80*mib)
	local := filepath.Join(h.dir, "large.iso")
	if err := os.WriteFile(local, file, 0o600); err != nil {
		return err
	}
	const link = 2 * mib // bytes per second
	h.narrate(bilingual{
		"ann uploads large.iso (%s). bob puts the same file over a link of %s/s: he begins to send it, and the server checks his answer in the background.",
		"ann 上传 large.iso（%s）。bob 通过 %s/s 的链路上传同一个文件：他先开始发送，服务器在后台核对他的应答。",
	}, size(int64(len(file))), size(link))
	if _, err := ann.PutFile(ctx, client.PutFile{Path: "/large.iso", Size: int64(len(file)), Body: func() (io.Reader, error) { return bytes.NewReader(file), nil }}); err != nil {
		return err
	}
	slow, err := newThrottle(ctx, h.server.address, link)
	if err != nil {
		return err
	}
	defer slow.close()
	began := time.Now()
	result, err := h.putFile(ctx, bobs, local, "/large.iso", slow.url())
	if err != nil {
		return err
	}
	took := time.Since(began)
	h.printTable([]tableRow{
		{bilingual{"result", "结果"}, "state=" + result.State},
		{bilingual{"time, and time of sending it", "用时，以及完整发送所需的时间"}, fmt.Sprintf("%s, %s", took.Round(100*time.Millisecond), time.Duration(len(file)/link)*time.Second)},
	})
	return expect(result.State == "instant" && took < time.Duration(len(file)/link)*time.Second, "%s after %s", result.State, took)
}

// putResult is the output of "smartdrive put --json".
type putResult struct {
	State string
	Moved int64
}

// putFile uploads a local file with the command line client and returns its output.
func (h *harness) putFile(ctx context.Context, api *client.Client, local, path, server string) (putResult, error) {
	cmd := exec.CommandContext(ctx, h.o.Binary, "put", local, path, "--json", "--server", server) //nolint:gosec // this program
	cmd.Env = append(withoutSettings(os.Environ()), "SMARTDRIVE_TOKEN="+api.Token())
	out, err := cmd.Output()
	if err != nil {
		return putResult{}, fmt.Errorf("smartdrive put: %w: %s", err, out)
	}
	return decode[putResult](out)
}

// playPreID plays a repeated request with one prepared idempotency key. It fails if the outcome is
// not as told.
func playPreID(ctx context.Context, st *harness) error {
	_, api, err := st.addUser(ctx, "ann", 50*mib)
	if err != nil {
		return err
	}
	st.narrate(bilingual{
		"The page fetches a pre_id before the form is shown. Its user clicks \"create\" five times, and all requests carry it.",
		"页面先领取 pre_id 再显示表单。用户连点五次“新建”，每个请求都带着它。",
	})
	preID, expires, err := api.Prepare(ctx)
	if err != nil {
		return err
	}
	st.printTable([]tableRow{
		{bilingual{"pre_id", "pre_id"}, preID[:min(len(preID), 24)] + "…"},
		{bilingual{"usable until", "有效期至"}, expires.UTC().Format(time.RFC3339)},
	})
	type answer struct {
		status int
		body   string
		err    error
	}
	answers := make(chan answer)
	header := http.Header{"Authorization": {"Bearer " + api.Token()}, "Content-Type": {"application/json"}, "Idempotency-Key": {preID}}
	const clicks = 5
	for range clicks {
		go func() {
			status, body, err := request(ctx, http.MethodPost, st.server.url()+"/api/v1/nodes", `{"path":"/orders/42","type":"folder","parents":true,"conflict":"rename"}`, header)
			answers <- answer{status, body, err}
		}()
	}
	ids := map[string]bool{}
	for range clicks {
		a := <-answers
		if a.err != nil {
			return a.err
		}
		node, err := decode[client.Node]([]byte(a.body))
		if err != nil {
			return err
		}
		st.printTable([]tableRow{{bilingual{"answer", "应答"}, fmt.Sprintf("%d  %s  %s", a.status, node.ID, node.Path)}})
		if a.status < 300 {
			ids[node.ID] = true
		}
	}
	made, err := st.countRows(ctx, "SELECT COUNT(*) FROM nodes WHERE name LIKE '42%'")
	if err != nil {
		return err
	}
	st.printTable([]tableRow{{bilingual{"rows in nodes", "nodes 表的行数"}, strconv.FormatInt(made, 10)}})
	return expect(len(ids) == 1 && made == 1, "%d folders for %d clicks", made, clicks)
}
