package demo

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"example.org/smartdrive/client"
)

// sharedUpload is an upload to a cluster, its owner, and the owner's client at each instance.
type sharedUpload struct {
	user   client.User
	apis   [2]*client.Client
	upload client.Upload
	file   []byte
}

// beginShared creates a user and begins an upload of random bytes at the first instance. The result
// has a client for each of the two instances.
func (h *harness) beginShared(ctx context.Context, name string, seed uint64) (up sharedUpload, err error) {
	sh := h.shape()
	up.file = randomFile(seed, sh.file)
	if up.user, up.apis[0], err = h.addUser(ctx, name, sh.quota); err != nil {
		return up, err
	}
	if up.apis[1], err = h.second.withToken(up.apis[0].Token()); err != nil {
		return up, err
	}
	up.upload, err = up.apis[0].BeginUpload(ctx, client.NewUpload{Path: "/report.bin", Size: &sh.file, PartSize: sh.part})
	return up, err
}

// sharedState is the state of an upload to a cluster as printed.
type sharedState struct {
	row    uploadRow
	ledger client.Ledger
	timer  timerView
	key    string // ZSET that contains the timer
	parts  []int  // parts in the journal
	record string // Kafka record of the fired timer
}

// showShared reads and prints the state of an upload in S3, Redis, Kafka and MySQL.
func (h *harness) showShared(ctx context.Context, up sharedUpload) (now sharedState, err error) {
	c, id := h.cluster, up.upload.ID
	timer, err := h.timer(ctx, "park", id)
	if err != nil {
		return now, err
	}
	now.timer = timer
	entry := "–"
	if timer.Pending {
		number, err := uuid.Parse(id)
		if err != nil {
			return now, err
		}
		key, at, err := c.timerEntry(ctx, timer, number)
		if err != nil {
			return now, err
		}
		if now.key = key; key != "" {
			entry = fmt.Sprintf("%s  ZSET, score %d (in %s)", key, at.UnixMilli(), time.Until(at).Round(100*time.Millisecond))
		}
	}
	journal, parts, err := c.journal(ctx, id)
	if err != nil {
		return now, err
	}
	now.parts = parts
	stored, err := c.storedParts(ctx, id)
	if err != nil {
		return now, err
	}
	if now.record, err = c.firedRecord(ctx, id); err != nil {
		return now, err
	}
	behind, err := h.consumerLag(ctx)
	if err != nil {
		return now, err
	}
	if now.row, err = h.readRow(ctx, id); err != nil {
		return now, err
	}
	ledger, balances, err := h.ledgerText(ctx, up.user.ID)
	if err != nil {
		return now, err
	}
	now.ledger = ledger
	record := now.record
	if record == "" {
		record = "–"
	}
	h.printTable([]tableRow{
		{bilingual{"S3: parts, bytes", "S3：分片数、字节数"}, stored},
		{bilingual{"Redis: journal of parts", "Redis：分片日志"}, fmt.Sprintf("%s  HASH, parts %v", journal, parts)},
		{bilingual{"Redis: delayed task", "Redis：延时任务"}, entry},
		{bilingual{"  shard, slice, push-backs", "  分桶、时间片、推后次数"}, timer.positionText()},
		{bilingual{"  way of the task", "  任务轨迹"}, timer.stepsText()},
		{bilingual{"Kafka: record", "Kafka：消息"}, record},
		{bilingual{"Kafka: consumer", "Kafka：消费者"}, behind},
		{bilingual{"MySQL: row in uploads", "MySQL：uploads 表"}, now.row.String()},
		{bilingual{"MySQL: ledger", "MySQL：账本"}, balances},
	})
	return now, nil
}

// positionText formats the shard and time slice of a timer, or of its last firing, and how often
// the timer was pushed back.
func (t timerView) positionText() string {
	if t.Pending {
		return fmt.Sprintf("%s, %s, %d", t.Shard, t.Slice, t.PushBacks)
	}
	if fired := t.fired(); fired.Step != "" {
		return fmt.Sprintf("%s, %s, %d", fired.Shard, fired.Slice, fired.PushBacks)
	}
	return "–"
}

// fired returns the last "fired" step, the zero value if there is none.
func (t timerView) fired() (last timerStep) {
	for _, s := range t.Trace {
		if s.Step == "fired" {
			last = s
		}
	}
	return last
}

// stepsText formats the steps of a timer with the instance of each.
func (t timerView) stepsText() string {
	var steps []string
	for _, s := range t.Trace {
		steps = append(steps, s.Step+" (#"+s.Instance+")")
	}
	if len(steps) == 0 {
		return "–"
	}
	return strings.Join(steps, " → ")
}

// clusterStatus is the status of the cluster from the admin API.
type clusterStatus struct {
	Instances []struct {
		Generation int64
		Alive      bool
	}
	Leases []struct {
		Name   string
		Holder int64 `json:"generation"`
	}
	Consumers []struct {
		Consumer, Topic string
		Behind          int64
	}
}

// alive returns the generations of the live instances.
func (s clusterStatus) alive() (all []int64) {
	for _, i := range s.Instances {
		if i.Alive {
			all = append(all, i.Generation)
		}
	}
	return all
}

// status returns the cluster's status as the instance at reports it. It fails unless the reply is
// 200.
func (h *harness) status(ctx context.Context, at *server) (clusterStatus, error) {
	code, body, err := request(ctx, http.MethodGet, at.url()+"/api/v1/admin/status", "", http.Header{"Authorization": {"Bearer " + h.admin.Token()}})
	if err != nil {
		return clusterStatus{}, err
	}
	if code != http.StatusOK {
		return clusterStatus{}, fmt.Errorf("status: %d %s", code, body)
	}
	return decode[clusterStatus]([]byte(body))
}

// consumerLag describes the consumer of fired park timers and its number of unprocessed records.
func (h *harness) consumerLag(ctx context.Context) (string, error) {
	s, err := h.status(ctx, h.second)
	for _, c := range s.Consumers {
		if strings.HasSuffix(c.Topic, ".park") {
			return fmt.Sprintf("%s, %d behind", c.Consumer, c.Behind), err
		}
	}
	return "–", err
}

// waitApplied waits until an upload is parked and its timer's trace is complete. Each instance
// writes its own steps with a delay.
func (h *harness) waitApplied(ctx context.Context, upload string) error {
	if err := h.untilState(ctx, upload, "parked"); err != nil {
		return err
	}
	return waitUntil(ctx, "the trace of the task", func() (bool, error) {
		t, err := h.timer(ctx, "park", upload)
		for _, step := range []string{"armed", "fired", "published", "consumed", "applied"} {
			if !slices.ContainsFunc(t.Trace, func(s timerStep) bool { return s.Step == step }) {
				return false, err
			}
		}
		return true, err
	})
}

// finishShared sends the parts from first on through an instance, completes the upload there, and
// compares the download with the file.
func (h *harness) finishShared(ctx context.Context, up sharedUpload, api *client.Client, first int64) error {
	if err := putParts(ctx, api, up.upload, up.file, first, int64(up.upload.Parts)); err != nil {
		return err
	}
	done, err := api.CompleteUpload(ctx, up.upload.ID, client.UploadChange{})
	if err != nil {
		return err
	}
	now, err := h.showShared(ctx, up)
	if err != nil {
		return err
	}
	if err := expect(now.row.state == "done" && now.ledger.Finished == int64(len(up.file)) && now.ledger.Reserved == 0 && now.ledger.Unfinished == 0, "after complete %v, %+v", now.row, now.ledger); err != nil {
		return err
	}
	return h.checkDownload(ctx, api, done.Node, up.file)
}

// playSharedUpload plays a story for the reader: an upload to two instances stops, is parked after
// the idle limit, and is finished later.
func playSharedUpload(ctx context.Context, st *harness) error {
	sh := st.shape()
	st.narrate(bilingual{
		"Two instances over MySQL, Redis, Kafka and S3. ann begins an upload of %s in parts of %s at the first one; the idle limit is %s.",
		"两个实例共用 MySQL、Redis、Kafka 和 S3。ann 在第一个实例上开始上传 %s 的文件，每片 %s，空闲时限 %s。",
	}, size(sh.file), size(sh.part), st.idle())
	up, err := st.beginShared(ctx, "ann", 21)
	if err != nil {
		return err
	}
	begun, err := st.showShared(ctx, up)
	if err != nil {
		return err
	}
	if err := expect(begun.row.state == "active" && begun.key != "" && begun.record == "" && begun.ledger.Reserved == sh.file, "after begin %+v", begun); err != nil {
		return err
	}

	st.narrate(bilingual{
		"Part 1 goes to the first instance, part 2 to the second, part 3 to the first. Each pushes the task back in Redis; MySQL is not written.",
		"第 1、3 个分片发给第一个实例，第 2 个发给第二个实例。每个分片都在 Redis 中把任务向后推；不写 MySQL。",
	})
	for n := range int64(3) {
		if err := putParts(ctx, up.apis[n%2], up.upload, up.file, n, n+1); err != nil {
			return err
		}
	}
	pushed, err := st.showShared(ctx, up)
	if err != nil {
		return err
	}
	if err := expect(pushed.row == begun.row && pushed.timer.PushBacks > 0 && slices.Equal(pushed.parts, []int{0, 1, 2}) && pushed.ledger.Reserved == sh.file, "after three parts %+v", pushed); err != nil {
		return err
	}

	st.narrate(bilingual{
		"The client stops. After %s the scheduler that owns the shard fires the task, Kafka carries it to a consumer, and the consumer parks the upload in one transaction.",
		"客户端停止发送。%s 之后，负责该分桶的调度器触发任务，经 Kafka 送到消费者，消费者用一个事务把上传转为暂停（parked）。",
	}, st.idle())
	if err := st.waitApplied(ctx, up.upload.ID); err != nil {
		return err
	}
	parked, err := st.showShared(ctx, up)
	if err != nil {
		return err
	}
	if err := expect(parked.row.gen == 2 && parked.row.held >= 3*sh.part && parked.ledger.Unfinished == parked.row.held && parked.ledger.Reserved == 0 && parked.record != "" && parked.timer.fired().PushBacks > 0, "after park %+v", parked); err != nil {
		return err
	}

	st.narrate(bilingual{"The client comes back at the second instance, sends the rest and completes there.", "客户端回到第二个实例，发送其余分片并在那里完成。"})
	return st.finishShared(ctx, up, up.apis[1], 3)
}

// playEmptiedRedis plays the loss of all Redis data during an upload. It fails if the outcome is
// not as told.
func playEmptiedRedis(ctx context.Context, st *harness) error {
	sh := st.shape()
	st.narrate(bilingual{"carol begins an upload of %s and sends two parts.", "carol 开始上传 %s 的文件，发送两个分片。"}, size(sh.file))
	up, err := st.beginShared(ctx, "carol", 22)
	if err != nil {
		return err
	}
	if err := putParts(ctx, up.apis[0], up.upload, up.file, 0, 2); err != nil {
		return err
	}
	if _, err := st.showShared(ctx, up); err != nil {
		return err
	}

	st.narrate(bilingual{
		"Every key of the cluster is deleted from Redis: timers, slices, journals. An instance notices it and arms the timers again from the rows in MySQL.",
		"删除集群在 Redis 中的全部键：延时任务、时间片、分片日志。某个实例会发现，并根据 MySQL 中的行重新装入延时任务。",
	})
	keys, err := st.cluster.emptyRedis(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := waitUntil(ctx, "the timer to be armed again", func() (bool, error) {
		t, err := st.timer(ctx, "park", up.upload.ID)
		return t.Pending || len(t.Trace) > 0, err
	}); err != nil {
		return err
	}
	st.printTable([]tableRow{
		{bilingual{"keys deleted", "删除的键"}, strconv.Itoa(keys)},
		{bilingual{"armed again after", "重新装入用时"}, time.Since(began).Round(100 * time.Millisecond).String()},
	})
	if _, err := st.showShared(ctx, up); err != nil {
		return err
	}

	st.narrate(bilingual{
		"Part 3 goes to the second instance: it finds parts 1 and 2 in S3 and makes the journal again.",
		"第 3 个分片发给第二个实例：它在 S3 中找到第 1、2 个分片，重建分片日志。",
	})
	if err := putParts(ctx, up.apis[1], up.upload, up.file, 2, 3); err != nil {
		return err
	}
	again, err := st.showShared(ctx, up)
	if err != nil {
		return err
	}
	if err := expect(slices.Equal(again.parts, []int{0, 1, 2}), "the journal has parts %v", again.parts); err != nil {
		return err
	}

	st.narrate(bilingual{"The client stops; the task fires as if nothing had been lost.", "客户端停止发送；任务照常触发，如同什么都没有丢失。"})
	if err := st.waitApplied(ctx, up.upload.ID); err != nil {
		return err
	}
	parked, err := st.showShared(ctx, up)
	if err != nil {
		return err
	}
	if err := expect(parked.row.held >= 3*sh.part && parked.ledger.Unfinished == parked.row.held && parked.ledger.Reserved == 0, "after park %+v", parked); err != nil {
		return err
	}

	st.narrate(bilingual{"The rest is sent, and the file is whole.", "发送其余分片，文件完整。"})
	return st.finishShared(ctx, up, up.apis[0], 3)
}

// playDeadInstance plays the death of an instance during an upload. It fails if the outcome is not
// as told.
func playDeadInstance(ctx context.Context, st *harness) error {
	sh := st.shape()
	st.narrate(bilingual{"dave begins an upload of %s at the first instance and sends two parts.", "dave 在第一个实例上开始上传 %s 的文件，发送两个分片。"}, size(sh.file))
	up, err := st.beginShared(ctx, "dave", 23)
	if err != nil {
		return err
	}
	if err := putParts(ctx, up.apis[0], up.upload, up.file, 0, 2); err != nil {
		return err
	}
	if err := st.showInstances(ctx, st.server); err != nil {
		return err
	}

	st.narrate(bilingual{
		"The first instance is killed (kill -9). Part 3 goes to the second one, which serves it at once.",
		"第一个实例被 kill -9。第 3 个分片发给第二个实例，立即得到处理。",
	})
	st.server.kill()
	if st.admin, err = st.second.withToken(st.admin.Token()); err != nil {
		return err
	}
	if err := putParts(ctx, up.apis[1], up.upload, up.file, 2, 3); err != nil {
		return err
	}
	now, err := st.showShared(ctx, up)
	if err != nil {
		return err
	}
	if err := expect(slices.Equal(now.parts, []int{0, 1, 2}), "the journal has parts %v", now.parts); err != nil {
		return err
	}

	st.narrate(bilingual{
		"The client stops. Within seconds the survivor owns all shards in Redis and all partitions in Kafka, and the task fires there.",
		"客户端停止发送。数秒之内，剩下的实例接管 Redis 的全部分桶和 Kafka 的全部分区，任务在那里触发。",
	})
	began := time.Now()
	if err := st.waitApplied(ctx, up.upload.ID); err != nil {
		return err
	}
	waited := time.Since(began)
	parked, err := st.showShared(ctx, up)
	if err != nil {
		return err
	}
	st.printTable([]tableRow{{bilingual{"waited", "等待"}, waited.Round(100 * time.Millisecond).String()}})

	st.narrate(bilingual{"The leases of the dead instance pass to the survivor.", "死亡实例持有的租约转给剩下的实例。"})
	var s clusterStatus
	if err := waitUntil(ctx, "the survivor to hold all leases", func() (bool, error) {
		var err error
		s, err = st.status(ctx, st.second)
		all := s.alive()
		for _, l := range s.Leases {
			if len(all) != 1 || l.Holder != all[0] && l.Holder != 0 {
				return false, err
			}
		}
		return len(all) == 1, err
	}); err != nil {
		return err
	}
	if err := st.showInstances(ctx, st.second); err != nil {
		return err
	}
	survivor := strconv.FormatInt(s.alive()[0], 10)
	if err := expect(parked.timer.fired().Instance == survivor && parked.ledger.Unfinished == parked.row.held && parked.row.held >= 3*sh.part, "fired by %+v, survivor %s, row %v", parked.timer.fired(), survivor, parked.row); err != nil {
		return err
	}

	st.narrate(bilingual{"The upload ends at the survivor.", "上传在剩下的实例上完成。"})
	return st.finishShared(ctx, up, up.apis[1], 3)
}

// showInstances prints the live instances, in MySQL and in Redis, and the number of leases each
// holds.
func (h *harness) showInstances(ctx context.Context, at *server) error {
	s, err := h.status(ctx, at)
	if err != nil {
		return err
	}
	live, err := h.cluster.redis.ZRange(ctx, "{"+h.cluster.name+":timers}:live", 0, -1).Result()
	if err != nil {
		return err
	}
	slices.Sort(live)
	var leases []string
	for _, i := range s.alive() {
		n := 0
		for _, l := range s.Leases {
			if l.Holder == i {
				n++
			}
		}
		leases = append(leases, fmt.Sprintf("#%d: %d", i, n))
	}
	h.printTable([]tableRow{
		{bilingual{"MySQL: instances that live", "MySQL：存活的实例"}, fmt.Sprint(s.alive())},
		{bilingual{"MySQL: leases by instance", "MySQL：各实例持有的租约数"}, strings.Join(leases, ", ")},
		{bilingual{"Redis: owners of shards", "Redis：分桶的拥有者"}, fmt.Sprint(live)},
	})
	return nil
}
