package main

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"example.org/smartdrive/internal/engine/timer"
	"example.org/smartdrive/internal/engine/timer/memory"
	"example.org/smartdrive/test/services"
)

var places = comparison{
	name:  "places",
	id:    "C2",
	title: text{"Where delayed tasks live", "延时任务放在哪里"},
	columns: []text{
		{"place", "存放位置"},
		{"push-backs/s", "每秒推后"},
		{"late p50 ms", "延迟 p50 ms"},
		{"late p99 ms", "延迟 p99 ms"},
		{"tasks", "任务数"},
		{"tasks lost after kill -9", "kill -9 之后丢失的任务"},
		{"push-backs lost", "丢失的推后"},
	},
	run: runPlaces,
}

// taskPlace stores delayed tasks, numbered from 0. Due times are in Unix ms.
type taskPlace interface {
	// insert adds n tasks with numbers from from on; due returns each task's due time.
	insert(ctx context.Context, from, n int, due func(task int) int64) error
	// pushBack postpones a task to due.
	pushBack(ctx context.Context, task int, due int64) error
	// takeDue removes at most 100 due tasks and returns their due times.
	takeDue(ctx context.Context, now int64) (due []int64, err error)
	// all returns the due time of each pending task.
	all(ctx context.Context) (map[int]int64, error)
}

// pushers is the number of concurrent clients that postpone tasks.
const pushers = 16

func runPlaces(ctx context.Context, b *bench, t *table) error {
	root, err := services.Checkout()
	if err != nil {
		return err
	}
	tools := services.Open(root, nil)
	t.set(
		text{
			fmt.Sprintf("%d clients push single tasks back; late: tasks come due evenly over a second, and a scheduler looks every 5 ms", pushers),
			fmt.Sprintf("%d 个客户端逐个推后任务；延迟：任务在一秒内均匀到期，调度器每 5 毫秒查一次", pushers),
		},
		text{
			"kill -9: every task is pushed back once, each push-back is acknowledged, and the process that holds them is killed and started again on its files; power failures are another matter",
			"kill -9：每个任务推后一次并得到确认，随即杀死存放它们的进程，再用原来的文件启动；断电是另一回事",
		},
		text{
			"servers of this comparison alone, on loopback; SQLite and the memory queue are in the process that is killed",
			"服务器只供本比较使用，经回环地址访问；SQLite 和内存队列就在被杀死的进程里",
		},
	)
	for _, r := range []struct {
		name text
		o    services.Options
	}{
		{text{"Redis ZSET, as configured by default (snapshots)", "Redis ZSET，默认配置（快照）"}, services.Options{Snapshots: true, Bound: true}},
		{text{"Redis ZSET, append-only file synced each second", "Redis ZSET，AOF 每秒同步"}, services.Options{Bound: true}},
	} {
		s, err := b.server(ctx, "redis-server", r.o, tools.Redis)
		if err != nil {
			return err
		}
		client := redis.NewClient(&redis.Options{Addr: s.Addr(), PoolSize: pushers})
		b.later(client.Close)
		if err := measurePlace(ctx, b, t, r.name, zsetPlace{client}, killServer(s, func(ctx context.Context) error { return client.Ping(ctx).Err() })); err != nil {
			return fmt.Errorf("%s: %w", r.name.en, err)
		}
	}
	s, err := b.server(ctx, "mariadbd", services.Options{Durable: true, Bound: true}, tools.MySQL)
	if err != nil {
		return err
	}
	cfg, err := mysqlConfig(s.URL() + "smartdrive")
	if err != nil {
		return err
	}
	db, err := openMySQL(cfg, pushers)
	if err != nil {
		return err
	}
	b.later(db.Close)
	version, err := mysqlVersion(ctx, db)
	if err != nil {
		return err
	}
	rows, err := newRowPlace(ctx, db)
	if err != nil {
		return err
	}
	name := text{version + ", rows with an index, synced at each commit", version + "，行加索引，每次提交同步"}
	if err := measurePlace(ctx, b, t, name, rows, killServer(s, db.PingContext)); err != nil {
		return fmt.Errorf("%s: %w", name.en, err)
	}
	for _, c := range []struct {
		kind string
		name text
	}{
		{childSQLite, text{"SQLite rows with an index, synced at each commit", "SQLite 行加索引，每次提交同步"}},
		{childMemory, text{"SmartDrive: memory, built again from rows", "SmartDrive：内存，由行重建"}},
	} {
		dir, err := b.tempDir()
		if err != nil {
			return err
		}
		p, shut, err := openChildPlace(ctx, c.kind, filepath.Join(dir, "measured"))
		if err != nil {
			return err
		}
		b.later(shut)
		kill := func(ctx context.Context, tasks int, due int64) (taskPlace, error) {
			return killChild(ctx, b, c.kind, filepath.Join(dir, "killed"), tasks, due)
		}
		if err := measurePlace(ctx, b, t, c.name, p, kill); err != nil {
			return fmt.Errorf("%s: %w", c.name.en, err)
		}
	}
	return nil
}

// server starts a server in a temporary directory. It is killed at the end of the run.
func (b *bench) server(ctx context.Context, program string, o services.Options, find func(context.Context, string, services.Options) (*services.Server, error)) (*services.Server, error) {
	dir, err := b.tempDir()
	if err != nil {
		return nil, err
	}
	s, err := find(ctx, filepath.Join(dir, "server"), o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w (%w)", strings.ToUpper(program), errSkipped, err)
	}
	b.say("  starting %s", program)
	b.later(func() error { return s.Kill(context.WithoutCancel(ctx)) })
	return s, s.Start(ctx)
}

// killing postpones all tasks to due, kills the process that stores them, and returns the place
// after its restart; nil means the measured place itself.
type killing func(ctx context.Context, tasks int, due int64) (taskPlace, error)

// killServer returns a killing for a place in a server. The tasks are already postponed.
func killServer(s *services.Server, ready func(context.Context) error) killing {
	return func(ctx context.Context, _ int, _ int64) (taskPlace, error) {
		if err := errors.Join(s.Kill(ctx), s.Start(ctx)); err != nil {
			return nil, err
		}
		for try := 0; ; try++ { // old connections are broken
			if err := ready(ctx); err == nil || try == pushers {
				return nil, err
			}
		}
	}
}

// measurePlace measures a place and adds a row to the table.
func measurePlace(ctx context.Context, b *bench, t *table, name text, p taskPlace, kill killing) error {
	b.say("  %s", name.en)
	tasks := pick(b, 10_000, 200)
	hour := time.Now().Add(time.Hour).UnixMilli()
	if err := p.insert(ctx, 0, tasks, func(int) int64 { return hour }); err != nil {
		return err
	}
	var pushed atomic.Int64
	began, long := time.Now(), pick(b, 5*time.Second, 200*time.Millisecond)
	err := parallel(ctx, pushers, func(ctx context.Context, i int) error {
		for n := i; time.Since(began) < long; n += pushers {
			if err := p.pushBack(ctx, n%tasks, hour+int64(n)); err != nil {
				return err
			}
			pushed.Add(1)
		}
		return nil
	})
	if err != nil {
		return err
	}
	rate := float64(pushed.Load()) / time.Since(began).Seconds()
	late, err := lateness(ctx, p, tasks, pick(b, 5_000, 200))
	if err != nil {
		return err
	}

	later := hour + time.Hour.Milliseconds()
	if err := parallel(ctx, pushers, func(ctx context.Context, i int) error {
		for task := i; task < tasks; task += pushers {
			if err := p.pushBack(ctx, task, later); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	after, err := kill(ctx, tasks, later)
	if err != nil {
		return err
	}
	if after == nil {
		after = p
	}
	left, err := after.all(ctx)
	if err != nil {
		return err
	}
	lost, forgotten := 0, 0
	for task := range tasks {
		if due, there := left[task]; !there {
			lost++
		} else if due < later {
			forgotten++
		}
	}
	t.row(name, rate, milliseconds(percentile(late, 50)), milliseconds(percentile(late, 99)), tasks, lost, forgotten)
	return nil
}

// lateness lets n tasks come due within a second and returns how late each one is taken.
func lateness(ctx context.Context, p taskPlace, from, n int) ([]time.Duration, error) {
	first := time.Now().Add(300 * time.Millisecond).UnixMilli()
	if err := p.insert(ctx, from, n, func(task int) int64 { return first + int64(task-from)*1000/int64(n) }); err != nil {
		return nil, err
	}
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	var late []time.Duration
	for len(late) < n {
		due, err := p.takeDue(ctx, time.Now().UnixMilli())
		if err != nil {
			return nil, err
		}
		now := time.Now().UnixMilli()
		for _, d := range due {
			late = append(late, time.Duration(now-d)*time.Millisecond)
		}
		if len(due) == 0 {
			select {
			case <-look.C:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	}
	return late, nil
}

// zsetPlace is a sorted set in Redis.
type zsetPlace struct{ redis *redis.Client }

const zsetKey = "tasks"

func (z zsetPlace) insert(ctx context.Context, from, n int, due func(int) int64) error {
	members := make([]redis.Z, n)
	for i := range members {
		members[i] = redis.Z{Member: from + i, Score: float64(due(from + i))}
	}
	return z.redis.ZAdd(ctx, zsetKey, members...).Err()
}

func (z zsetPlace) pushBack(ctx context.Context, task int, due int64) error {
	return z.redis.ZAdd(ctx, zsetKey, redis.Z{Member: task, Score: float64(due)}).Err()
}

var takeWithScores = redis.NewScript(`local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'WITHSCORES', 'LIMIT', 0, 100)
local scores = {}
for i = 1, #due, 2 do redis.call('ZREM', KEYS[1], due[i]); scores[#scores + 1] = tonumber(due[i + 1]) end
return scores`)

func (z zsetPlace) takeDue(ctx context.Context, now int64) ([]int64, error) {
	return takeWithScores.Run(ctx, z.redis, []string{zsetKey}, now).Int64Slice()
}

func (z zsetPlace) all(ctx context.Context) (map[int]int64, error) {
	left := map[int]int64{}
	list, err := z.redis.ZRangeWithScores(ctx, zsetKey, 0, -1).Result()
	for _, m := range list {
		task, _ := strconv.Atoi(m.Member.(string))
		left[task] = int64(m.Score)
	}
	return left, err
}

// rowPlace is a database table with an index on the due time.
type rowPlace struct{ db *sql.DB }

func newRowPlace(ctx context.Context, db *sql.DB) (rowPlace, error) {
	return rowPlace{db}, execAll(ctx, db, "CREATE TABLE tasks (id INT NOT NULL PRIMARY KEY, due BIGINT NOT NULL)", "CREATE INDEX tasks_due ON tasks (due)")
}

func (r rowPlace) insert(ctx context.Context, from, n int, due func(int) int64) error {
	return fillTable(ctx, r.db, row{"INSERT INTO tasks (id, due) VALUES ", func(f file) ([]any, bool) {
		return []any{from + f.i, due(from + f.i)}, true
	}}, n)
}

func (r rowPlace) pushBack(ctx context.Context, task int, due int64) error {
	_, err := r.db.ExecContext(ctx, "UPDATE tasks SET due = ? WHERE id = ?", due, task)
	return err
}

func (r rowPlace) takeDue(ctx context.Context, now int64) (due []int64, err error) {
	err = transaction(ctx, r.db, func(tx *sql.Tx) error {
		tasks, err := readTasks(ctx, tx, "SELECT id, due FROM tasks WHERE due <= ? ORDER BY due LIMIT 100", now)
		var ids []any
		for id, d := range tasks {
			ids, due = append(ids, id), append(due, d)
		}
		if err == nil && len(ids) > 0 {
			_, err = tx.ExecContext(ctx, "DELETE FROM tasks WHERE id IN (?"+strings.Repeat(", ?", len(ids)-1)+")", ids...)
		}
		return err
	})
	return due, err
}

func (r rowPlace) all(ctx context.Context) (map[int]int64, error) {
	return readTasks(ctx, r.db, "SELECT id, due FROM tasks")
}

// readTasks runs a query for (id, due) and returns the due time by task.
func readTasks(ctx context.Context, q interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}, query string, args ...any,
) (tasks map[int]int64, err error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	tasks = map[int]int64{}
	for rows.Next() {
		var id int
		var due int64
		if err := rows.Scan(&id, &due); err != nil {
			return nil, err
		}
		tasks[id] = due
	}
	return tasks, rows.Err()
}

// memoryPlace is SmartDrive's queue in memory. As with rows of uploads, its table stores the tasks
// and their first due time; a push-back does not change it.
type memoryPlace struct {
	rows  rowPlace
	queue *memory.Queue
}

func (m memoryPlace) insert(ctx context.Context, from, n int, due func(int) int64) error {
	if err := m.rows.insert(ctx, from, n, due); err != nil {
		return err
	}
	return m.arm(ctx, from, n, due)
}

// arm adds the timers of n tasks to the queue.
func (m memoryPlace) arm(ctx context.Context, from, n int, due func(int) int64) error {
	entries := make([]timer.Entry, n)
	for i := range entries {
		entries[i] = timer.Entry{Key: timerKey(int32(from + i)), Gen: 1, Idle: max(time.Until(time.UnixMilli(due(from+i))), time.Millisecond)}
	}
	return m.queue.Arm(ctx, entries)
}

func (m memoryPlace) pushBack(_ context.Context, task int, _ int64) error {
	m.queue.Touch(timerKey(int32(task)))
	return nil
}

func (m memoryPlace) takeDue(ctx context.Context, _ int64) ([]int64, error) {
	batch, err := m.queue.Lease(ctx, timer.Park, batchSize, time.Minute)
	if err != nil || len(batch.Fired) == 0 {
		return nil, err
	}
	due, done := make([]int64, len(batch.Fired)), make([]timer.Outcome, len(batch.Fired))
	for i, f := range batch.Fired {
		due[i] = f.Due.Std().UnixMilli()
		done[i] = timer.Outcome{Key: f.Key, Token: f.Token, Verdict: timer.Done}
	}
	_, err = m.queue.Settle(ctx, done)
	return due, err
}

// all returns the tasks in the table, from which the queue is rebuilt with a new idle time.
func (m memoryPlace) all(ctx context.Context) (map[int]int64, error) { return m.rows.all(ctx) }

// Kinds of child processes.
const (
	childVariable = "SMARTDRIVE_COMPARE_CHILD" // KIND:PATH:TASKS:DUE
	childSQLite   = "sqlite"
	childMemory   = "memory"
)

// openChildPlace opens or creates a place at path and returns a function to close it.
func openChildPlace(ctx context.Context, kind, path string) (taskPlace, func() error, error) {
	db, err := openSQLite(path, 1)
	if err != nil {
		return nil, nil, err
	}
	rows := rowPlace{db}
	if _, err := os.Stat(path); err != nil {
		rows, err = newRowPlace(ctx, db)
		if err != nil {
			return nil, nil, err
		}
	}
	if kind == childMemory {
		return memoryPlace{rows, memory.New(memory.Options{})}, db.Close, nil
	}
	return rows, db.Close, nil
}

// killChild starts this program as a child that creates tasks, postpones each one and reports that.
// It kills the child and returns the reopened place.
func killChild(ctx context.Context, b *bench, kind, path string, tasks int, due int64) (taskPlace, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s:%s:%d:%d", childVariable, kind, path, tasks, due))
	cmd.Stderr = b.log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	said, err := bufio.NewReader(out).ReadString('\n')
	killed := cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
	if err != nil || killed != nil {
		return nil, fmt.Errorf("the child said %q: %w", said, errors.Join(err, killed))
	}
	p, shut, err := openChildPlace(ctx, kind, path)
	if err == nil {
		b.later(shut)
	}
	return p, err
}

// beChild is the main function of a child process and returns the exit code.
func beChild(ctx context.Context, what string) int {
	var err error
	if raw, ok := strings.CutPrefix(what, childArchitecture); ok {
		err = work(ctx, raw)
	} else {
		err = holdTasks(ctx, what)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		return 1
	}
	return 0
}

// holdTasks creates tasks and postpones them, then waits to be killed. It returns only on an error.
func holdTasks(ctx context.Context, what string) error {
	words := strings.Split(what, ":")
	kind, path := words[0], words[1]
	tasks, err := strconv.Atoi(words[2])
	if err != nil {
		return err
	}
	due, err := strconv.ParseInt(words[3], 10, 64)
	if err != nil {
		return err
	}
	p, _, err := openChildPlace(ctx, kind, path)
	if err != nil {
		return err
	}
	before := due - time.Hour.Milliseconds()
	if err := p.insert(ctx, 0, tasks, func(int) int64 { return before }); err != nil {
		return err
	}
	for task := range tasks {
		if err := p.pushBack(ctx, task, due); err != nil {
			return err
		}
	}
	fmt.Println("pushed back") //nolint:forbidigo // read by the parent
	<-make(chan struct{})      // until it is killed
	return nil
}
