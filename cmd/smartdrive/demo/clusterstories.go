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

	"smartdrive/client"
)

// shared is an upload to a cluster: its owner, and a client of them at each instance.
type shared struct {
	user   client.User
	apis   [2]*client.Client
	upload client.Upload
	file   []byte
}

// begin creates a user and begins an upload at the first instance.
func (st *stage) begin(ctx context.Context, name string, seed uint64) (up shared, err error) {
	sh := st.shape()
	up.file = randomFile(seed, sh.file)
	if up.user, up.apis[0], err = st.addUser(ctx, name, sh.quota); err != nil {
		return up, err
	}
	if up.apis[1], err = st.second.as(up.apis[0].Token()); err != nil {
		return up, err
	}
	up.upload, err = up.apis[0].BeginUpload(ctx, client.Begin{Path: "/report.bin", Size: &sh.file, PartSize: sh.part})
	return up, err
}

// standing is where an upload to a cluster stands, as it was shown.
type standing struct {
	row    uploadRow
	ledger client.Ledger
	timer  timerView
	key    string // of the ZSET that the timer stands in
	parts  []int  // that the journal has accepted
	record string // in Kafka
}

// showShared reads and prints what S3, Redis, Kafka and MySQL hold of an upload.
func (st *stage) showShared(ctx context.Context, up shared) (now standing, err error) {
	c, id := st.cluster, up.upload.ID
	timer, err := st.timer(ctx, "park", id)
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
		key, at, err := c.entry(ctx, timer, number)
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
	stored, err := c.stored(ctx, id)
	if err != nil {
		return now, err
	}
	if now.record, err = c.record(ctx, id); err != nil {
		return now, err
	}
	behind, err := st.behind(ctx)
	if err != nil {
		return now, err
	}
	if now.row, err = st.readRow(ctx, id); err != nil {
		return now, err
	}
	ledger, balances, err := st.ledgerText(ctx, up.user.ID)
	if err != nil {
		return now, err
	}
	now.ledger = ledger
	record := now.record
	if record == "" {
		record = "–"
	}
	st.facts([]fact{
		{text{"S3: parts, bytes", "S3：分片数、字节数"}, stored},
		{text{"Redis: journal of parts", "Redis：分片日志"}, fmt.Sprintf("%s  HASH, parts %v", journal, parts)},
		{text{"Redis: delayed task", "Redis：延时任务"}, entry},
		{text{"  shard, slice, push-backs", "  分桶、时间片、推后次数"}, timer.place()},
		{text{"  way of the task", "  任务轨迹"}, timer.way()},
		{text{"Kafka: record", "Kafka：消息"}, record},
		{text{"Kafka: consumer", "Kafka：消费者"}, behind},
		{text{"MySQL: row in uploads", "MySQL：uploads 表"}, now.row.String()},
		{text{"MySQL: ledger", "MySQL：账本"}, balances},
	})
	return now, nil
}

// place shows where a timer stands in the queue, or where it stood when it fired.
func (t timerView) place() string {
	if t.Pending {
		return fmt.Sprintf("%s, %s, %d", t.Shard, t.Slice, t.PushBacks)
	}
	if fired := t.fired(); fired.Step != "" {
		return fmt.Sprintf("%s, %s, %d", fired.Shard, fired.Slice, fired.PushBacks)
	}
	return "–"
}

// fired returns the last firing of a timer.
func (t timerView) fired() (last timerStep) {
	for _, s := range t.Trace {
		if s.Step == "fired" {
			last = s
		}
	}
	return last
}

// way shows the steps of a timer, and which instance did each.
func (t timerView) way() string {
	var steps []string
	for _, s := range t.Trace {
		steps = append(steps, s.Step+" (#"+s.Instance+")")
	}
	if len(steps) == 0 {
		return "–"
	}
	return strings.Join(steps, " → ")
}

// clusterStatus is what the cluster says of itself.
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

// alive lists the generations of the instances that live.
func (s clusterStatus) alive() (all []int64) {
	for _, i := range s.Instances {
		if i.Alive {
			all = append(all, i.Generation)
		}
	}
	return all
}

func (st *stage) status(ctx context.Context, at *server) (clusterStatus, error) {
	code, body, err := send(ctx, http.MethodGet, at.url()+"/api/v1/admin/status", "", http.Header{"Authorization": {"Bearer " + st.admin.Token()}})
	if err != nil {
		return clusterStatus{}, err
	}
	if code != http.StatusOK {
		return clusterStatus{}, fmt.Errorf("status: %d %s", code, body)
	}
	return decode[clusterStatus]([]byte(body))
}

// behind shows the consumer of fired park timers, and how many records it has not handled.
func (st *stage) behind(ctx context.Context) (string, error) {
	s, err := st.status(ctx, st.second)
	for _, c := range s.Consumers {
		if strings.HasSuffix(c.Topic, ".park") {
			return fmt.Sprintf("%s, %d behind", c.Consumer, c.Behind), err
		}
	}
	return "–", err
}

// applied waits until an upload is parked and the trace has the whole way of the task: each
// instance writes its own steps, some time later.
func (st *stage) applied(ctx context.Context, upload string) error {
	if err := st.untilState(ctx, upload, "parked"); err != nil {
		return err
	}
	return until(ctx, "the trace of the task", func() (bool, error) {
		t, err := st.timer(ctx, "park", upload)
		for _, step := range []string{"armed", "fired", "published", "consumed", "applied"} {
			if !slices.ContainsFunc(t.Trace, func(s timerStep) bool { return s.Step == step }) {
				return false, err
			}
		}
		return true, err
	})
}

// finish sends the parts from first on through an instance, completes there, and compares the
// download with what was sent.
func (st *stage) finish(ctx context.Context, up shared, api *client.Client, first int64) error {
	if err := putParts(ctx, api, up.upload, up.file, first, int64(up.upload.Parts)); err != nil {
		return err
	}
	done, err := api.CompleteUpload(ctx, up.upload.ID, client.Amend{})
	if err != nil {
		return err
	}
	now, err := st.showShared(ctx, up)
	if err != nil {
		return err
	}
	if err := want(now.row.state == "done" && now.ledger.Finished == int64(len(up.file)) && now.ledger.Reserved == 0 && now.ledger.Unfinished == 0, "after complete %v, %+v", now.row, now.ledger); err != nil {
		return err
	}
	return st.same(ctx, api, done.Node, up.file)
}

func playSharedUpload(ctx context.Context, st *stage) error {
	sh := st.shape()
	st.say(text{
		"Two instances over MySQL, Redis, Kafka and S3. ann begins an upload of %s in parts of %s at the first one; the idle limit is %s.",
		"两个实例共用 MySQL、Redis、Kafka 和 S3。ann 在第一个实例上开始上传 %s 的文件，每片 %s，静默上限 %s。",
	}, size(sh.file), size(sh.part), st.idle())
	up, err := st.begin(ctx, "ann", 21)
	if err != nil {
		return err
	}
	begun, err := st.showShared(ctx, up)
	if err != nil {
		return err
	}
	if err := want(begun.row.state == "active" && begun.key != "" && begun.record == "" && begun.ledger.Reserved == sh.file, "after begin %+v", begun); err != nil {
		return err
	}

	st.say(text{
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
	if err := want(pushed.row == begun.row && pushed.timer.PushBacks > 0 && slices.Equal(pushed.parts, []int{0, 1, 2}) && pushed.ledger.Reserved == sh.file, "after three parts %+v", pushed); err != nil {
		return err
	}

	st.say(text{
		"The client stops. After %s the scheduler that owns the shard fires the task, Kafka carries it to a consumer, and the consumer parks the upload in one transaction.",
		"客户端停止发送。%s 之后，负责该分桶的调度器触发任务，经 Kafka 送到消费者，消费者用一个事务把上传转为暂停（parked）。",
	}, st.idle())
	if err := st.applied(ctx, up.upload.ID); err != nil {
		return err
	}
	parked, err := st.showShared(ctx, up)
	if err != nil {
		return err
	}
	if err := want(parked.row.gen == 2 && parked.row.held >= 3*sh.part && parked.ledger.Unfinished == parked.row.held && parked.ledger.Reserved == 0 && parked.record != "" && parked.timer.fired().PushBacks > 0, "after park %+v", parked); err != nil {
		return err
	}

	st.say(text{"The client comes back at the second instance, sends the rest and completes there.", "客户端回到第二个实例，发送其余分片并在那里完成。"})
	return st.finish(ctx, up, up.apis[1], 3)
}

func playEmptiedRedis(ctx context.Context, st *stage) error {
	sh := st.shape()
	st.say(text{"carol begins an upload of %s and sends two parts.", "carol 开始上传 %s 的文件，发送两个分片。"}, size(sh.file))
	up, err := st.begin(ctx, "carol", 22)
	if err != nil {
		return err
	}
	if err := putParts(ctx, up.apis[0], up.upload, up.file, 0, 2); err != nil {
		return err
	}
	if _, err := st.showShared(ctx, up); err != nil {
		return err
	}

	st.say(text{
		"Every key of the cluster is deleted from Redis: timers, slices, journals. An instance notices it and arms the timers again from the rows in MySQL.",
		"删除集群在 Redis 中的全部键：延时任务、时间片、分片日志。某个实例会发现，并根据 MySQL 中的行重新装入延时任务。",
	})
	keys, err := st.cluster.emptyRedis(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := until(ctx, "the timer to be armed again", func() (bool, error) {
		t, err := st.timer(ctx, "park", up.upload.ID)
		return t.Pending || len(t.Trace) > 0, err
	}); err != nil {
		return err
	}
	st.facts([]fact{
		{text{"keys deleted", "删除的键"}, strconv.Itoa(keys)},
		{text{"armed again after", "重新装入用时"}, time.Since(began).Round(100 * time.Millisecond).String()},
	})
	if _, err := st.showShared(ctx, up); err != nil {
		return err
	}

	st.say(text{
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
	if err := want(slices.Equal(again.parts, []int{0, 1, 2}), "the journal has parts %v", again.parts); err != nil {
		return err
	}

	st.say(text{"The client stops; the task fires as if nothing had been lost.", "客户端停止发送；任务照常触发，如同什么都没有丢失。"})
	if err := st.applied(ctx, up.upload.ID); err != nil {
		return err
	}
	parked, err := st.showShared(ctx, up)
	if err != nil {
		return err
	}
	if err := want(parked.row.held >= 3*sh.part && parked.ledger.Unfinished == parked.row.held && parked.ledger.Reserved == 0, "after park %+v", parked); err != nil {
		return err
	}

	st.say(text{"The rest is sent, and the file is whole.", "发送其余分片，文件完整。"})
	return st.finish(ctx, up, up.apis[0], 3)
}

func playDeadInstance(ctx context.Context, st *stage) error {
	sh := st.shape()
	st.say(text{"dave begins an upload of %s at the first instance and sends two parts.", "dave 在第一个实例上开始上传 %s 的文件，发送两个分片。"}, size(sh.file))
	up, err := st.begin(ctx, "dave", 23)
	if err != nil {
		return err
	}
	if err := putParts(ctx, up.apis[0], up.upload, up.file, 0, 2); err != nil {
		return err
	}
	if err := st.showInstances(ctx, st.server); err != nil {
		return err
	}

	st.say(text{
		"The first instance is killed (kill -9). Part 3 goes to the second one, which serves it at once.",
		"第一个实例被 kill -9。第 3 个分片发给第二个实例，立即得到处理。",
	})
	st.server.kill()
	if st.admin, err = st.second.as(st.admin.Token()); err != nil {
		return err
	}
	if err := putParts(ctx, up.apis[1], up.upload, up.file, 2, 3); err != nil {
		return err
	}
	now, err := st.showShared(ctx, up)
	if err != nil {
		return err
	}
	if err := want(slices.Equal(now.parts, []int{0, 1, 2}), "the journal has parts %v", now.parts); err != nil {
		return err
	}

	st.say(text{
		"The client stops. Within seconds the survivor owns all shards in Redis and all partitions in Kafka, and the task fires there.",
		"客户端停止发送。数秒之内，剩下的实例接管 Redis 的全部分桶和 Kafka 的全部分区，任务在那里触发。",
	})
	began := time.Now()
	if err := st.applied(ctx, up.upload.ID); err != nil {
		return err
	}
	waited := time.Since(began)
	parked, err := st.showShared(ctx, up)
	if err != nil {
		return err
	}
	st.facts([]fact{{text{"waited", "等待"}, waited.Round(100 * time.Millisecond).String()}})

	st.say(text{"The leases of the dead instance pass to the survivor.", "死亡实例持有的租约转给剩下的实例。"})
	var s clusterStatus
	if err := until(ctx, "the survivor to hold all leases", func() (bool, error) {
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
	if err := want(parked.timer.fired().Instance == survivor && parked.ledger.Unfinished == parked.row.held && parked.row.held >= 3*sh.part, "fired by %+v, survivor %s, row %v", parked.timer.fired(), survivor, parked.row); err != nil {
		return err
	}

	st.say(text{"The upload ends at the survivor.", "上传在剩下的实例上完成。"})
	return st.finish(ctx, up, up.apis[1], 3)
}

// showInstances prints which instances live, in MySQL and in Redis, and how many leases each holds.
func (st *stage) showInstances(ctx context.Context, at *server) error {
	s, err := st.status(ctx, at)
	if err != nil {
		return err
	}
	live, err := st.cluster.redis.ZRange(ctx, "{"+st.cluster.name+":timers}:live", 0, -1).Result()
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
	st.facts([]fact{
		{text{"MySQL: instances that live", "MySQL：存活的实例"}, fmt.Sprint(s.alive())},
		{text{"MySQL: leases by instance", "MySQL：各实例持有的租约数"}, strings.Join(leases, ", ")},
		{text{"Redis: owners of shards", "Redis：分桶的拥有者"}, fmt.Sprint(live)},
	})
	return nil
}
