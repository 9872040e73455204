package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
)

var rows = comparison{
	name:  "rows",
	id:    "C7",
	title: text{"Making a row once: six schemes as written, and SmartDrive's", "只创建一行：照原文写的六种方案，以及 SmartDrive 的做法"},
	columns: []text{
		{"scheme", "方案"},
		{"at once", "并发"},
		{"errors of 1,000", "每千次出错"},
		{"rows too many", "多出的行"},
		{"SQL statements each", "每次 SQL 语句"},
		{"Redis commands each", "每次 Redis 命令"},
		{"p50 ms", "p50 ms"},
		{"p99 ms", "p99 ms"},
	},
	needs: []string{"mysql", "redis"},
	run:   runRows,
}

// Settings of the lock in the articles.
const (
	lockLife    = time.Minute
	lockRetries = 6
	lockPause   = 6 * time.Millisecond
)

// For the variant in which a lock expires while it is held, the life of the lock and the pause of
// its holder are scaled down.
const (
	shortLife   = 2 * time.Millisecond
	holderPause = 10 * time.Millisecond
)

// rowScheme is a scheme to ensure that a user's row exists.
type rowScheme struct {
	name   text
	unique bool // runs on the table with a unique key
	lock   bool // guarded by a lock in Redis
	do     func(r *rowRequest) error
}

// The schemes of the articles, numbered as in the table. A scheme guarded by a lock runs on a table
// without a unique key, which would prevent duplicates instead of the lock.
var rowSchemes = []rowScheme{
	{name: text{"0: SELECT, INSERT, no guard", "0：SELECT、INSERT，无保护"}, do: (*rowRequest).lookInsert},
	{name: text{"1: lock in Redis, else an error", "1：Redis 锁，拿不到就报错"}, lock: true, do: func(r *rowRequest) error { return r.locked(0, r.lookInsert) }},
	{name: text{"2: lock in Redis, 6 retries of 6 ms", "2：Redis 锁，重试 6 次，每次 6 ms"}, lock: true, do: func(r *rowRequest) error { return r.locked(lockRetries, r.lookInsert) }},
	{name: text{"3: ON DUPLICATE KEY UPDATE, read back", "3：ON DUPLICATE KEY UPDATE、回读"}, unique: true, do: func(r *rowRequest) error {
		return r.insertRead("INSERT", " ON DUPLICATE KEY UPDATE total = total")
	}},
	{name: text{"4: INSERT IGNORE, read back, verify", "4：INSERT IGNORE、回读、校验"}, unique: true, do: func(r *rowRequest) error { return r.insertRead("INSERT IGNORE", "") }},
	{name: text{"5: INSERT, swallow the duplicate, read back", "5：INSERT、吞掉重复、回读"}, unique: true, do: func(r *rowRequest) error { return r.insertRead("INSERT", "") }},
	{name: text{"6: look, lock with retries, second look", "6：先查、加锁（重试）、再查"}, lock: true, do: (*rowRequest).lookLockLook},
}

func runRows(ctx context.Context, b *bench, t *table) error {
	most := 64
	db, err := b.mysql(ctx, most)
	if err != nil {
		return err
	}
	r, prefix, err := b.redis(ctx)
	if err != nil {
		return err
	}
	if err := execAll(ctx, db,
		"CREATE TABLE plain (id BIGINT AUTO_INCREMENT PRIMARY KEY, user_id BIGINT NOT NULL, total BIGINT NOT NULL, KEY (user_id))",
		"CREATE TABLE uniq (id BIGINT AUTO_INCREMENT PRIMARY KEY, user_id BIGINT NOT NULL UNIQUE, total BIGINT NOT NULL)"); err != nil {
		return err
	}
	version, err := mysqlVersion(ctx, db)
	if err != nil {
		return err
	}
	own, err := openLedgers(ctx, b, most)
	if err != nil {
		return err
	}
	t.set(
		same(version+", "+redisVersion(ctx, r)),
		text{
			"so many at once make sure of the row of one new user, then of the next; the lock lives for 60 s and is deleted by its holder alone",
			"每个新用户的行由这么多请求同时初始化，然后是下一个用户；锁的有效期 60 秒，只由持有者删除",
		},
		text{
			"0, 1, 2 and 6 use a table without a unique key on the user, because the lock is their guard; 3, 4, 5 and SmartDrive need the key; nothing is run again after an error, except by SmartDrive",
			"0、1、2、6 用没有用户唯一键的表，因为锁就是它们的保护；3、4、5 和 SmartDrive 需要唯一键；除 SmartDrive 外，出错后都不重做",
		},
		text{
			"lock ends: its holder pauses between looking and inserting for longer than the lock lives (2 ms and 10 ms, in place of 60 s and a longer pause)",
			"锁过期：持有者在查询和插入之间停顿的时间超过锁的有效期（用 2 毫秒和 10 毫秒代替 60 秒和更长的停顿）",
		},
		text{
			"SmartDrive: quota.Ledger.Create in a transaction of its own, primary key known before, duplicate swallowed, read back and compared",
			"SmartDrive：独立事务里的 quota.Ledger.Create，主键事先已知，吞掉重复，回读并比较",
		},
	)
	requests := pick(b, 2000, 32)
	nextUser := int64(0)
	run := func(name text, atOnce int, s rowScheme, life, pause time.Duration) error {
		b.say("  %d at once, %s", atOnce, name.en)
		table := "plain"
		if s.unique {
			table = "uniq"
		}
		users := max(2, requests/atOnce)
		first := nextUser + 1
		nextUser += int64(users)
		q := &rowRun{db: db, redis: r, table: table, locks: prefix + ":lock:", life: life, pause: pause}
		latency, failed, err := crowd(ctx, users, atOnce, func(ctx context.Context, user int) error {
			return s.do(&rowRequest{rowRun: q, ctx: ctx, user: first + int64(user)})
		})
		if err != nil {
			return err
		}
		var made, distinct int
		err = db.QueryRowContext(ctx, "SELECT COUNT(*), COUNT(DISTINCT user_id) FROM "+table+" WHERE user_id BETWEEN ? AND ?", first, nextUser).Scan(&made, &distinct)
		if err == nil && distinct != users {
			err = fmt.Errorf("%d users of %d have a row", distinct, users)
		}
		all := float64(users * atOnce)
		t.row(name, atOnce, float64(failed)*1000/all, made-distinct, float64(q.statements.Load())/all, float64(q.commands.Load())/all,
			milliseconds(percentile(latency, 50)), milliseconds(percentile(latency, 99)))
		return err
	}
	for _, atOnce := range pick(b, []int{1, most}, []int{1, 8}) {
		for _, s := range rowSchemes {
			if err := run(s.name, atOnce, s, lockLife, 0); err != nil {
				return fmt.Errorf("%s: %w", s.name.en, err)
			}
		}
		b.say("  %d at once, SmartDrive", atOnce)
		if err := own.row(ctx, t, requests, atOnce); err != nil {
			return fmt.Errorf("SmartDrive: %w", err)
		}
	}
	for _, s := range rowSchemes {
		if s.lock {
			name := text{s.name.en + "; lock ends", s.name.zh + "；锁过期"}
			if err := run(name, 8, s, shortLife, holderPause); err != nil {
				return fmt.Errorf("%s: %w", name.en, err)
			}
		}
	}
	return nil
}

// crowd sends atOnce concurrent requests for each user in turn and counts the failed ones.
func crowd(ctx context.Context, users, atOnce int, do func(ctx context.Context, user int) error) (latency []time.Duration, failed int, err error) {
	var mu sync.Mutex
	for user := range users {
		gate := make(chan struct{})
		var all sync.WaitGroup
		for range atOnce {
			all.Go(func() {
				<-gate
				began := time.Now()
				err := do(ctx, user)
				took := time.Since(began)
				mu.Lock()
				defer mu.Unlock()
				latency = append(latency, took)
				if err != nil {
					failed++
				}
			})
		}
		close(gate)
		all.Wait()
		if ctx.Err() != nil {
			return nil, 0, ctx.Err()
		}
	}
	return latency, failed, nil
}

// rowRun is shared by the requests of one table row.
type rowRun struct {
	db          *sql.DB
	redis       *redis.Client
	table       string
	locks       string // prefix of lock names, followed by the user
	life, pause time.Duration

	statements, commands atomic.Int64
}

// rowRequest ensures that the row of one user exists.
type rowRequest struct {
	*rowRun

	ctx  context.Context //nolint:containedctx // a request
	user int64
}

const rowTotal = 100 // value to verify

var (
	errRefused  = errors.New("somebody else has the lock")
	errNotThere = errors.New("the row is not there")
)

// insert inserts the user's row.
func (r *rowRequest) insert(verb, tail string) error {
	r.statements.Add(1)
	_, err := r.db.ExecContext(r.ctx, verb+" INTO "+r.table+" (user_id, total) VALUES (?, ?)"+tail, r.user, rowTotal)
	return err
}

// look reports whether the user's row exists, and fails if it has a wrong total.
func (r *rowRequest) look() (bool, error) {
	r.statements.Add(1)
	var total int
	err := r.db.QueryRowContext(r.ctx, "SELECT total FROM "+r.table+" WHERE user_id = ? LIMIT 1", r.user).Scan(&total)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err == nil && total != rowTotal:
		err = fmt.Errorf("the row has a total of %d", total)
	}
	return err == nil, err
}

// lookInsert inserts the row if it is missing, with r.pause in between.
func (r *rowRequest) lookInsert() error {
	found, err := r.look()
	if err != nil || found {
		return err
	}
	if r.pause > 0 {
		<-time.After(r.pause)
	}
	return r.insert("INSERT", "")
}

// insertRead inserts the row with a variant of INSERT, ignores a duplicate, and reads the row back.
func (r *rowRequest) insertRead(verb, tail string) error {
	if err := r.insert(verb, tail); err != nil && !sqldb.IsDuplicate(err) {
		return err
	}
	found, err := r.look()
	if err == nil && !found {
		err = errNotThere
	}
	return err
}

// lookLockLook looks first and takes the lock only if the row is missing.
func (r *rowRequest) lookLockLook() error {
	found, err := r.look()
	if err != nil || found {
		return err
	}
	return r.locked(lockRetries, r.lookInsert)
}

var unlockOwn = redis.NewScript(`return redis.call("GET", KEYS[1]) == ARGV[1] and redis.call("DEL", KEYS[1]) or 0`)

// locked calls do while holding the user's lock, after at most 1 + retries attempts to acquire it.
// It fails with errRefused if all attempts fail.
func (r *rowRequest) locked(retries int, do func() error) error {
	key, mine := fmt.Sprint(r.locks, r.user), rand.Text()
	for try := 0; ; try++ {
		r.commands.Add(1)
		err := r.redis.SetArgs(r.ctx, key, mine, redis.SetArgs{Mode: "NX", TTL: r.life}).Err()
		if err == nil {
			break
		}
		if !errors.Is(err, redis.Nil) {
			return err
		}
		if try == retries {
			return errRefused
		}
		<-time.After(lockPause)
	}
	r.commands.Add(1)
	return errors.Join(do(), unlockOwn.Run(r.ctx, r.redis, []string{key}, mine).Err())
}

// ledgers creates rows with SmartDrive's own code.
type ledgers struct {
	db    *sqldb.DB
	calls sqldbtest.Counter
}

func openLedgers(ctx context.Context, b *bench, connections int) (*ledgers, error) {
	address, err := b.mysqlDatabase(ctx)
	if err != nil {
		return nil, err
	}
	l := &ledgers{}
	l.db, err = sqldb.Open(ctx, sqldb.Options{MySQL: address, Connections: connections, Connector: l.calls.Connector, Log: slog.New(slog.DiscardHandler)})
	if err == nil {
		b.later(l.db.Close)
	}
	return l, err
}

// row measures and adds a row to the table.
func (l *ledgers) row(ctx context.Context, t *table, requests, atOnce int) error {
	users := max(2, requests/atOnce)
	accounts := make([]drive.AccountID, users)
	for i := range accounts {
		accounts[i] = drive.NewID[drive.AccountID]()
	}
	err := l.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		for _, a := range accounts {
			if _, err := tx.Exec(ctx, "INSERT INTO accounts (id, created_at) VALUES (?, 0)", a); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	before := l.asked()
	total := drive.GiB
	latency, failed, err := crowd(ctx, users, atOnce, func(ctx context.Context, user int) error {
		return l.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			return quota.Ledger{}.Create(ctx, tx, accounts[user], &total)
		})
	})
	if err != nil {
		return err
	}
	all := float64(users * atOnce)
	// The primary key is the account: there cannot be a row too many.
	t.row(same("SmartDrive"), atOnce, float64(failed)*1000/all, 0, float64(l.asked()-before)/all, 0.0,
		milliseconds(percentile(latency, 50)), milliseconds(percentile(latency, 99)))
	return nil
}

// asked returns the number of SQL statements so far.
func (l *ledgers) asked() int { return l.calls.Count(sqldbtest.Exec) + l.calls.Count(sqldbtest.Query) }
