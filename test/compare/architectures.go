package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"example.org/smartdrive/test/services"
)

var architectures = comparison{
	name:  "architectures",
	id:    "C3",
	title: text{"Five architectures on one workload", "五种架构跑同一负载"},
	columns: []text{
		{"architecture", "架构"},
		{"killed in the middle", "中途杀死"},
		{"uploads", "上传数"},
		{"write transactions per upload", "每次上传的写事务"},
		{"late p50 ms", "延迟 p50 ms"},
		{"late p99 ms", "延迟 p99 ms"},
		{"processor ms per upload, program", "每次上传的 CPU ms，程序"},
		{"processor ms per upload, servers", "每次上传的 CPU ms，服务"},
		{"uploads lost", "丢失的上传"},
		{"charged twice without a check", "不检查就会重复扣费"},
	},
	needs: []string{"mysql", "redis", "kafka"},
	run:   runArchitectures,
}

// Components to kill, besides the servers, which are named by their program.
const (
	noKill      = ""
	killProcess = "process"
)

// architecture is a table row for each of its kills.
type architecture struct {
	kind string
	name text
	// kills lists the components to kill, one run each; noKill is the measured run. The servers
	// among them are all that the architecture uses besides the database.
	kills []string
}

var architectureList = []architecture{
	{"kafka", text{"Redis ZSET and Kafka", "Redis ZSET + Kafka"}, []string{noKill, "redis", "kafka", killProcess}},
	{"redis", text{"Redis ZSET alone", "只用 Redis ZSET"}, []string{noKill, "redis", killProcess}},
	{"rows", text{"database directly: an indexed due time, which each part updates", "直接用数据库：带索引的到期时间，每个分片更新"}, []string{noKill, "mysql", killProcess}},
	{"heap", text{"scheduler in the process: a heap, built again from rows", "进程内调度器：堆，由行重建"}, []string{noKill, killProcess}},
	{rabbit, text{"RabbitMQ: TTL and dead-letter exchange, acknowledged after the write", "RabbitMQ：TTL + 死信交换机，写库之后确认"}, []string{noKill, rabbit, killProcess}},
	{rabbitEarly, text{"RabbitMQ: the same, acknowledged on delivery", "RabbitMQ：同上，送达即确认"}, []string{rabbit, killProcess}},
	{"smartdrive", text{"SmartDrive: its timer engine on Redis", "SmartDrive：它的定时引擎，用 Redis"}, []string{noKill, "redis", killProcess}},
}

const (
	rabbit      = "rabbitmq"
	rabbitEarly = "rabbitmq-early"
)

// workload describes one run to the child process that executes it.
type workload struct {
	Kind, Name string            // kind of the architecture; prefix of its keys, topics and queues
	Addresses  map[string]string // service addresses by name
	Uploads    int
	Window     int // uploads that a client has open at a time, sending them part by part
	Rate       int // parts per second, all clients together
	// Idle is the time without parts after which an upload is due.
	Idle    time.Duration
	AllStop bool // every upload is abandoned; else one in five
	Resume  bool // continue after a kill: send nothing, and only handle uploads that are due
}

const (
	partsOfUpload = 10
	partsOfStop   = 5 // parts of an abandoned upload
	expiries      = 4 // uploads ended in parallel
)

// stops reports whether an upload is abandoned before its last part.
func (w *workload) stops(upload int) bool { return w.AllStop || upload%5 == 0 }

// environment holds the services that all runs share.
type environment struct {
	bench     *bench
	db        *sql.DB
	addresses map[string]string
	prefix    string                      // of all names; keys with it are removed from a shared Redis
	servers   map[string]*services.Server // by name; empty in a fast run
}

func runArchitectures(ctx context.Context, b *bench, t *table) error {
	e := &environment{bench: b, prefix: unique(), addresses: map[string]string{}, servers: map[string]*services.Server{}}
	if err := e.open(ctx, t); err != nil {
		return err
	}
	idle, rate, quiet := pick(b, 5*time.Second, 500*time.Millisecond), pick(b, 2000, 4000), pick(b, 15*time.Second, 2*time.Second)
	t.set(
		text{
			fmt.Sprintf("uploads of %d parts from %d clients, %d parts per second in all; one upload in five stops after %d parts; the idle limit is %v, and each part pushes it back; completion or expiry is one transaction that ends the row and adds to the ledger", partsOfUpload, pushers, rate, partsOfStop, idle),
			fmt.Sprintf("每次上传 %d 片，%d 个客户端，合计每秒 %d 片；五分之一的上传在第 %d 片之后停止；空闲时限 %v，由每个分片推后；完成或到期是一个事务：结束该行并记入账本", partsOfUpload, pushers, rate, partsOfStop, idle),
		},
		text{
			"late: from the time of the last part plus the idle limit to the write of the ledger; schedulers look every 5 ms, and 4 expiries are written at a time; processor: servers are MariaDB and those of the architecture",
			"延迟：从最后一个分片的时间加空闲时限，到写入账本为止；调度器每 5 毫秒查一次，同时写入 4 个到期；CPU：服务指 MariaDB 和该架构用到的服务",
		},
		text{
			"killed: the uploads of such a row all stop, and come due in two halves, more than a second apart; the component is killed (kill -9) when half of the first half are in the ledger, and started again on its files; Redis has its default snapshots, MariaDB syncs at each commit",
			"中途杀死：这些行的上传全部停止，分两半到期，相隔一秒多；账本记到前一半的一半时杀死该组件（kill -9），再用原来的文件启动；Redis 用默认快照，MariaDB 每次提交都同步",
		},
		text{
			fmt.Sprintf("lost: not in the ledger when nothing has been added for %v; charged twice: expiries that came again, which a consumer that only adds would charge again; all here check the row in the same transaction, so that no upload was", quiet),
			fmt.Sprintf("丢失：账本已有 %v 没有新记录，而上传仍不在其中；重复扣费：同一上传再次到期的次数，只做加法的消费者会再扣一次；这里都在同一事务中检查行的状态，因此没有真正重复", quiet),
		},
	)
	for _, arch := range architectureList {
		for _, kill := range arch.kills {
			w := workload{Kind: arch.kind, Uploads: pick(b, 10_000, 200), Window: 32, Rate: rate, Idle: idle}
			if kill != noKill {
				w.Uploads = pick(b, 1000, 200)
				w.Window, w.AllStop = w.Uploads/2/pushers+1, true
			}
			if !e.has(arch, kill) {
				continue
			}
			b.say("  %s, killed: %s", arch.name.en, cmpOr(kill, "none"))
			o, err := e.measure(ctx, arch, w, kill, quiet)
			if err != nil {
				return fmt.Errorf("%s, killed: %s: %w", arch.name.en, cmpOr(kill, "none"), err)
			}
			o.addTo(t, arch, kill, w.Uploads)
		}
	}
	return nil
}

// open starts servers for this comparison, because it kills them. A fast run uses the shared
// services.
func (e *environment) open(ctx context.Context, t *table) error {
	b := e.bench
	if b.fast {
		address, err := b.mysqlDatabase(ctx)
		if err != nil {
			return err
		}
		if _, e.prefix, err = b.redis(ctx); err != nil {
			return err
		}
		e.addresses = map[string]string{"mysql": address, "redis": b.address["redis"], "kafka": b.address["kafka"]}
		t.warn(text{"NO RABBITMQ IN A FAST RUN, and one kill only", "快速运行不含 RABBITMQ，只杀死一次"})
	} else if err := e.start(ctx, t); err != nil {
		return err
	}
	cfg, err := mysqlConfig(e.addresses["mysql"])
	if err != nil {
		return err
	}
	if e.db, err = openMySQL(cfg, 2); err != nil {
		return err
	}
	b.later(e.db.Close)
	mysql, err := mysqlVersion(ctx, e.db)
	if err != nil {
		return err
	}
	o, err := redis.ParseURL(e.addresses["redis"])
	if err != nil {
		return err
	}
	r := redis.NewClient(o)
	defer r.Close()
	versions := []string{mysql, redisVersion(ctx, r)}
	if !b.fast {
		versions = append(versions, "Apache Kafka "+services.KafkaVersion)
	}
	if address := e.addresses[rabbit]; address != "" {
		v, err := rabbitVersion(address)
		if err != nil {
			return err
		}
		versions = append(versions, "RabbitMQ "+v)
	}
	t.set(same(strings.Join(versions, ", ")))
	return nil
}

// start starts the servers. Without RabbitMQ it warns, and the table lacks those rows.
func (e *environment) start(ctx context.Context, t *table) error {
	root, err := services.Checkout()
	if err != nil {
		return err
	}
	tools := services.Open(root, nil)
	start := func(name, program string, o services.Options, find func(context.Context, string, services.Options) (*services.Server, error)) error {
		o.Bound = true
		s, err := e.bench.server(ctx, program, o, find)
		if err == nil {
			e.servers[name], e.addresses[name] = s, s.URL()
		}
		return err
	}
	if err := errors.Join(
		start("mysql", "mariadbd", services.Options{Durable: true}, tools.MySQL),
		start("redis", "redis-server", services.Options{Snapshots: true}, tools.Redis),
		start("kafka", "kafka", services.Options{}, tools.Kafka),
	); err != nil {
		return err
	}
	e.addresses["mysql"] += "smartdrive"
	err = start("epmd", "epmd", services.Options{}, tools.Epmd)
	if err == nil {
		err = start(rabbit, "rabbitmq-server", services.Options{}, tools.RabbitMQ(e.servers["epmd"]))
	}
	if errors.Is(err, errSkipped) {
		lacking := text{"NO RABBITMQ: its rows are missing; apt-get install rabbitmq-server", "缺少 RABBITMQ：没有它的行；apt-get install rabbitmq-server"}
		t.lacking = append(t.lacking, lacking)
		t.warn(lacking)
		e.bench.say("\n!! %s\n", lacking.en)
		return nil
	}
	return err
}

// has reports whether a run is possible. A fast run kills only the process of the heap.
func (e *environment) has(arch architecture, kill string) bool {
	if strings.HasPrefix(arch.kind, rabbit) && e.addresses[rabbit] == "" {
		return false
	}
	return !e.bench.fast || kill == noKill || arch.kind == "heap"
}

// outcome holds the results of a run.
type outcome struct {
	writes           int
	late             []time.Duration
	program, servers time.Duration // processor time; servers is -1 if unknown
	// lost counts uploads that never ended, twice those that came due again after they had
	// ended.
	lost, twice int
}

func (o *outcome) addTo(t *table, arch architecture, kill string, uploads int) {
	if kill != noKill {
		killed := same(map[string]string{"redis": "Redis", "kafka": "Kafka", "mysql": "MariaDB", rabbit: "RabbitMQ"}[kill])
		if kill == killProcess {
			killed = text{"the program", "程序"}
		}
		t.row(arch.name, killed, uploads, nil, nil, nil, nil, nil, o.lost, o.twice)
		return
	}
	n := float64(uploads)
	var servers any
	if o.servers >= 0 {
		servers = milliseconds(o.servers) / n
	}
	t.row(arch.name, nil, uploads, float64(o.writes)/n, milliseconds(percentile(o.late, 50)), milliseconds(percentile(o.late, 99)),
		milliseconds(o.program)/n, servers, o.lost, o.twice)
}

// measure runs the workload in a child process, kills one component on the way, and evaluates the
// ledger.
func (e *environment) measure(ctx context.Context, arch architecture, w workload, kill string, quiet time.Duration) (*outcome, error) {
	if err := execAll(ctx, e.db,
		"DROP TABLE IF EXISTS uploads, ledger",
		"CREATE TABLE uploads (id INT PRIMARY KEY, due BIGINT NOT NULL, ended BOOLEAN NOT NULL, KEY (ended, due))",
		"CREATE TABLE ledger (id INT AUTO_INCREMENT PRIMARY KEY, upload INT NOT NULL, due BIGINT NOT NULL, written BIGINT NOT NULL, counted BOOLEAN NOT NULL)"); err != nil {
		return nil, err
	}
	if kill == "redis" { // clear snapshots of earlier runs
		if err := errors.Join(e.servers[kill].Wipe(ctx), e.servers[kill].Start(ctx)); err != nil {
			return nil, err
		}
	}
	w.Name, w.Addresses = e.prefix+unique(), e.addresses
	before := e.serverTime(arch)
	c, err := startWorker(ctx, w, e.bench.log)
	if err != nil {
		return nil, err
	}
	defer func() { c.kill() }() // c may have been replaced
	if kill == noKill {
		err = e.await(ctx, w.Uploads, true, time.Minute)
	} else if err = e.await(ctx, w.Uploads/4, false, time.Minute); err == nil {
		if kill == killProcess {
			c.kill()
			w.Resume = true
			if c, err = startWorker(ctx, w, e.bench.log); err != nil {
				return nil, err
			}
		} else {
			err = errors.Join(e.servers[kill].Kill(ctx), e.servers[kill].Start(ctx))
		}
		if err == nil {
			err = e.await(ctx, w.Uploads, true, max(quiet, 15*time.Second))
		}
		if err == nil {
			err = e.await(ctx, math.MaxInt, false, quiet)
		}
	}
	if err != nil {
		return nil, err
	}
	o := &outcome{servers: e.serverTime(arch) - before}
	if before < 0 {
		o.servers = -1
	}
	if o.writes, err = c.stop(); err != nil && kill == noKill {
		return nil, err
	}
	o.program = c.cmd.ProcessState.UserTime() + c.cmd.ProcessState.SystemTime()
	if err := e.readLedger(ctx, w, o); err != nil {
		return nil, err
	}
	if kill == noKill && o.lost > 0 {
		return nil, fmt.Errorf("%d uploads have not ended although nothing was killed", o.lost)
	}
	return o, nil
}

// await returns when the ledger has n entries and, with allEnded, no upload is open. If nothing is
// added for quiet, it returns nil with allEnded or n = MaxInt, and otherwise an error.
func (e *environment) await(ctx context.Context, n int, allEnded bool, quiet time.Duration) error {
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	last, changed := 0, time.Now()
	for {
		entries, open := 0, 0
		err := e.db.QueryRowContext(ctx, "SELECT COALESCE(MAX(id), 0) FROM ledger").Scan(&entries)
		if err == nil && entries >= n && allEnded {
			err = e.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM uploads WHERE ended = 0").Scan(&open)
		}
		if err == nil && entries >= n && open == 0 {
			return nil
		}
		if err == nil && entries != last {
			last, changed = entries, time.Now()
		}
		if time.Since(changed) > quiet {
			if n == math.MaxInt || allEnded {
				return nil
			}
			return fmt.Errorf("the ledger stays at %d entries: %w", entries, err)
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// readLedger fills in the results that are in the ledger. It fails if an upload was charged twice.
func (e *environment) readLedger(ctx context.Context, w workload, o *outcome) (err error) {
	var entries, counted, uploads int
	err = e.db.QueryRowContext(ctx, "SELECT COUNT(*), COALESCE(SUM(counted), 0), COUNT(DISTINCT IF(counted, upload, NULL)) FROM ledger").Scan(&entries, &counted, &uploads)
	if err == nil && counted != uploads {
		err = fmt.Errorf("%d uploads were charged %d times in spite of the check", uploads, counted)
	}
	if err != nil {
		return err
	}
	o.lost, o.twice = w.Uploads-counted, entries-counted
	rows, err := e.db.QueryContext(ctx, "SELECT written - due FROM ledger WHERE counted AND due > 0")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var ms int64
		if err := rows.Scan(&ms); err != nil {
			return err
		}
		o.late = append(o.late, time.Duration(ms)*time.Millisecond)
	}
	return rows.Err()
}

// serverTime returns the processor time of the database and of the servers that the architecture
// uses, or -1 if it is unknown.
func (e *environment) serverTime(arch architecture) (all time.Duration) {
	for _, name := range append([]string{"mysql"}, arch.kills...) {
		if name == noKill || name == killProcess || name == "mysql" && all > 0 {
			continue
		}
		s := e.servers[name]
		if s == nil {
			return -1
		}
		used, ok := processTime(s.PID())
		if !ok {
			return -1
		}
		all += used
	}
	return all
}

// processTime returns the processor time of a process from /proc; false if that is unavailable.
func processTime(pid int) (time.Duration, bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // the name ends with ')'
	if err != nil || len(fields) < 13 {
		return 0, false
	}
	ticks := 0
	for _, f := range fields[11:13] { // user and system, in hundredths of a second
		n, _ := strconv.Atoi(f) // digits
		ticks += n
	}
	return time.Duration(10*ticks) * time.Millisecond, true
}

// worker is a child process that executes a workload until its standard input is closed.
type worker struct {
	cmd  *exec.Cmd
	in   io.Closer
	out  bytes.Buffer
	done bool
}

const childArchitecture = "architecture:"

func startWorker(ctx context.Context, w workload, log io.Writer) (*worker, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(w)
	if err != nil {
		return nil, err
	}
	c := &worker{cmd: exec.CommandContext(ctx, program)}
	c.cmd.Env = append(os.Environ(), childVariable+"="+childArchitecture+string(raw))
	c.cmd.Stdout, c.cmd.Stderr = &c.out, log
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	return c, nil
}

// kill kills the process if it is running.
func (c *worker) kill() {
	if c != nil && !c.done {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait() // it was killed
		c.done = true
	}
}

// stop lets the process finish and returns its number of write transactions.
func (c *worker) stop() (writes int, err error) {
	c.done = true
	timeout := time.AfterFunc(time.Minute, func() { _ = c.cmd.Process.Kill() })
	defer timeout.Stop()
	if err := errors.Join(c.in.Close(), c.cmd.Wait()); err != nil {
		return 0, err
	}
	return writes, json.Unmarshal(c.out.Bytes(), &writes)
}

// work is the main function of a worker: it sends the uploads, ends those that are due, and prints
// the number of its write transactions once its input is closed.
func work(ctx context.Context, raw string) error {
	var w workload
	if err := json.Unmarshal([]byte(raw), &w); err != nil {
		return err
	}
	cfg, err := mysqlConfig(w.Addresses["mysql"])
	if err != nil {
		return err
	}
	db, err := openMySQL(cfg, 2*pushers)
	if err != nil {
		return err
	}
	defer db.Close()
	l := &ledger{db: db, workload: w, due: make([]atomic.Int64, w.Uploads)}
	tasks, err := newTaskRunner(ctx, l)
	if err != nil {
		return err
	}
	working, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // until it is closed
		stop()
	}()
	all, working := errgroup.WithContext(working)
	all.Go(func() error { return tasks.run(working) })
	if !w.Resume {
		all.Go(func() error { return l.send(working, tasks) })
	}
	if err := all.Wait(); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(l.writes.Load())
}

// ledger is what all architectures share: the clients, a row for each upload, and an entry for each
// ended upload.
type ledger struct {
	workload

	db     *sql.DB
	writes atomic.Int64
	due    []atomic.Int64 // due time by upload, as the client knows; 0 for uploads of an earlier process
}

// completed replaces the due time of a completed upload, so that late tasks of it are ignored.
const completed = math.MaxInt64

// send acts as the clients: it begins the uploads, sends their parts and completes four in five.
func (l *ledger) send(ctx context.Context, tasks taskRunner) error {
	return parallel(ctx, pushers, func(ctx context.Context, client int) error {
		var mine []int
		for u := client; u < l.Uploads; u += pushers {
			mine = append(mine, u)
		}
		pace := time.NewTicker(time.Second * pushers / time.Duration(l.Rate))
		defer pace.Stop()
		for group := range slices.Chunk(mine, l.Window) {
			for part := range partsOfUpload {
				for _, u := range group {
					if part >= partsOfStop && l.stops(u) {
						continue
					}
					select {
					case <-pace.C:
					case <-ctx.Done():
						return nil
					}
					if err := retry(ctx, func() error { return l.part(ctx, tasks, u, part) }); err != nil {
						return err
					}
				}
			}
		}
		return nil
	})
}

// part receives a part and postpones the task of its upload. The first part begins the upload, the
// last part completes it.
func (l *ledger) part(ctx context.Context, tasks taskRunner, upload, part int) error {
	due := time.Now().Add(l.Idle).UnixMilli()
	l.due[upload].Store(due)
	if part == 0 {
		l.writes.Add(1)
		_, err := l.db.ExecContext(ctx, "INSERT IGNORE INTO uploads (id, due, ended) VALUES (?, ?, 0)", upload, due)
		if err != nil {
			return err
		}
		if err := tasks.add(ctx, upload, due); err != nil {
			return err
		}
	}
	if err := tasks.pushBack(ctx, upload, due); err != nil || part < partsOfUpload-1 {
		return err
	}
	l.due[upload].Store(completed)
	if err := tasks.drop(ctx, upload); err != nil {
		return err
	}
	return l.end(ctx, upload)
}

// end ends the row of an upload and adds to the ledger, in one transaction. If the upload had
// already ended, its entry does not count.
func (l *ledger) end(ctx context.Context, upload int) error {
	l.writes.Add(1)
	return transaction(ctx, l.db, func(tx *sql.Tx) error {
		ended, err := tx.ExecContext(ctx, "UPDATE uploads SET ended = 1 WHERE id = ? AND ended = 0", upload)
		if err != nil {
			return err
		}
		n, err := ended.RowsAffected()
		if err != nil {
			return err
		}
		due := l.due[upload].Load()
		if due == completed {
			due = 0
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO ledger (upload, due, written, counted) VALUES (?, ?, ?, ?)", upload, due, time.Now().UnixMilli(), n == 1)
		return err
	})
}

// endAll ends uploads, several in parallel, and retries until ctx is done.
func (l *ledger) endAll(ctx context.Context, uploads []int) error {
	var all errgroup.Group
	all.SetLimit(expiries)
	for _, u := range uploads {
		all.Go(func() error { return retry(ctx, func() error { return l.end(ctx, u) }) })
	}
	return all.Wait()
}

// open returns the uploads that have not ended.
func (l *ledger) open(ctx context.Context) (map[int]int64, error) {
	return readTasks(ctx, l.db, "SELECT id, due FROM uploads WHERE ended = 0")
}

// retry calls do until it succeeds or ctx is done, and returns nil in both cases. It reports a
// persistent failure once.
func retry(ctx context.Context, do func() error) error {
	pause := time.NewTicker(20 * time.Millisecond)
	defer pause.Stop()
	for try := 0; ; try++ {
		err := do()
		if err == nil || ctx.Err() != nil {
			return nil
		}
		if try == 500 {
			fmt.Fprintln(os.Stderr, "compare: still failing:", err)
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return nil
		}
	}
}
