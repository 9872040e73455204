package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

var writes = comparison{
	name:  "writes",
	id:    "C4",
	title: text{"What one upload costs the database", "一次上传对数据库的开销"},
	columns: []text{
		{"scheme", "方案"},
		{"parts", "分片数"},
		{"write transactions", "写事务"},
		{"with one pause", "中途暂停一次时的写事务"},
		{"SQL statements", "SQL 语句"},
		{"Redis commands", "Redis 命令"},
	},
	needs: []string{"mysql", "redis"},
	run:   runWrites,
}

func runWrites(ctx context.Context, b *bench, t *table) error {
	db, err := b.mysql(ctx, 1)
	if err != nil {
		return err
	}
	if err := execAll(ctx, db,
		"CREATE TABLE users (id BIGINT PRIMARY KEY, finished BIGINT NOT NULL, unfinished BIGINT NOT NULL)",
		"CREATE TABLE files (id BIGINT AUTO_INCREMENT PRIMARY KEY, user_id BIGINT NOT NULL, md5 CHAR(32) NOT NULL, size BIGINT NOT NULL)",
		"INSERT INTO users VALUES (1, 0, 0)"); err != nil {
		return err
	}
	r, prefix, err := b.redis(ctx)
	if err != nil {
		return err
	}
	version, err := mysqlVersion(ctx, db)
	if err != nil {
		return err
	}
	t.set(
		same(version+", "+redisVersion(ctx, r)),
		text{
			"counted in the client, per upload: transactions that write (a statement outside a transaction is one), statements without BEGIN and COMMIT, commands of Redis (a script is one)",
			"在客户端计数，按每次上传：写事务（事务之外的一条语句算一个）、语句（不含 BEGIN 和 COMMIT）、Redis 命令（一个脚本算一条）",
		},
		text{
			"with one pause: the client stops after half of the parts, for longer than the idle limit, and resumes",
			"中途暂停一次：客户端传完一半分片后停下，超过空闲时限，然后继续",
		},
		text{
			"SmartDrive: its upload service on MariaDB or MySQL, a directory and the timer queue in memory, under a virtual clock; parts of 1 MiB",
			"SmartDrive：它的上传服务，用 MariaDB 或 MySQL、一个目录和内存定时队列，虚拟时钟；分片 1 MiB",
		},
	)
	schemes := []uploadScheme{
		&perPart{name: text{"each part: UPDATE, with a look at the quota", "每个分片：查配额、UPDATE"}, db: db},
		&perPart{name: text{"each part: counter in Redis, written through", "每个分片：Redis 计数，同步写库"}, db: db, redis: r, key: prefix + ":used"},
		&dynamicTask{db: db, redis: r, prefix: prefix},
		&ownUpload{bench: b},
	}
	for _, parts := range pick(b, []int{100, 10_000}, []int{1, 20}) {
		for _, s := range schemes {
			b.say("  %d parts, %s", parts, s.about().en)
			straight, err := uploadOnce(ctx, s, parts, false)
			if err != nil {
				return fmt.Errorf("%s: %w", s.about().en, err)
			}
			var paused any
			if parts > 1 {
				cost, err := uploadOnce(ctx, s, parts, true)
				if err != nil {
					return fmt.Errorf("%s, with a pause: %w", s.about().en, err)
				}
				paused = cost.transactions
			}
			t.row(s.about(), parts, straight.transactions, paused, straight.statements, straight.commands)
		}
	}
	return nil
}

// uploadCost counts the operations of an upload.
type uploadCost struct{ transactions, statements, commands int }

// uploadScheme does the accounting of one upload at a time.
type uploadScheme interface {
	about() text
	// begin starts an upload of parts parts of 1 MiB.
	begin(ctx context.Context, parts int) error
	part(ctx context.Context, n int) error
	// idle lets the idle time pass.
	idle(ctx context.Context) error
	// complete ends the upload, checks that its bytes are charged once, and returns the cost.
	complete(ctx context.Context) (uploadCost, error)
}

// uploadOnce runs one upload, with an idle pause after half of the parts if pause is set.
func uploadOnce(ctx context.Context, s uploadScheme, parts int, pause bool) (uploadCost, error) {
	if err := s.begin(ctx, parts); err != nil {
		return uploadCost{}, err
	}
	for n := range parts {
		if pause && n == parts/2 {
			if err := s.idle(ctx); err != nil {
				return uploadCost{}, err
			}
		}
		if err := s.part(ctx, n); err != nil {
			return uploadCost{}, err
		}
	}
	return s.complete(ctx)
}

const (
	mib        = 1 << 20
	someDigest = "d41d8cd98f00b204e9800998ecf8427e"
)

// finish adds the file, moves its bytes from unfinished to finished, and checks the balance.
func finish(ctx context.Context, db *sql.DB, cost *uploadCost, size, unfinished int64) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO files (user_id, md5, size) VALUES (1, ?, ?)", someDigest, size)
	if err == nil {
		_, err = tx.ExecContext(ctx, "UPDATE users SET finished = finished + ?, unfinished = unfinished - ? WHERE id = 1", size, unfinished)
	}
	if err != nil {
		return errors.Join(err, tx.Rollback())
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	cost.transactions++
	cost.statements += 2
	var left, wrong int64
	err = db.QueryRowContext(ctx, "SELECT unfinished, finished - (SELECT SUM(size) FROM files WHERE user_id = 1) FROM users WHERE id = 1").Scan(&left, &wrong)
	if err == nil && (left != 0 || wrong != 0) {
		err = fmt.Errorf("%d bytes are left as unfinished, and the finished ones are wrong by %d", left, wrong)
	}
	return err
}

// perPart writes each part to the database. It checks the quota there or in Redis.
type perPart struct {
	name  text
	db    *sql.DB
	redis *redis.Client // nil: no Redis
	key   string

	cost uploadCost
	size int64
}

func (p *perPart) about() text { return p.name }

func (p *perPart) begin(context.Context, int) error {
	p.cost, p.size = uploadCost{}, 0
	return nil
}

func (p *perPart) part(ctx context.Context, _ int) error {
	p.size += mib
	var used int64
	var err error
	if p.redis != nil {
		p.cost.commands++
		used, err = p.redis.HIncrBy(ctx, p.key, "1", mib).Result()
	} else {
		p.cost.statements++
		err = p.db.QueryRowContext(ctx, "SELECT finished + unfinished FROM users WHERE id = 1").Scan(&used)
	}
	if err != nil {
		return err
	}
	p.cost.statements++
	p.cost.transactions++
	_, err = p.db.ExecContext(ctx, "UPDATE users SET unfinished = unfinished + ? WHERE id = 1", mib)
	return err
}

func (*perPart) idle(context.Context) error { return nil }

func (p *perPart) complete(ctx context.Context) (uploadCost, error) {
	err := finish(ctx, p.db, &p.cost, p.size, p.size)
	return p.cost, err
}

// dynamicTask is the scheme of the article: each part postpones a task within slices of a minute
// and adds to a counter. The task fires when no more parts arrive, and writes the sum.
type dynamicTask struct {
	db     *sql.DB
	redis  *redis.Client
	prefix string

	cost          uploadCost
	now           time.Time // virtual
	size, flushed int64
}

var (
	// pushTask moves the task to another slice and adds to its counter. KEYS: the map from task
	// to slice, the bytes of each task. ARGV: task, bytes, prefix of slices, slice, due.
	pushTask = redis.NewScript(`local old = redis.call('HGET', KEYS[1], ARGV[1])
if old and old ~= ARGV[4] then redis.call('ZREM', ARGV[3] .. old, ARGV[1]) end
redis.call('ZADD', ARGV[3] .. ARGV[4], ARGV[5], ARGV[1])
redis.call('HSET', KEYS[1], ARGV[1], ARGV[4])
return redis.call('HINCRBY', KEYS[2], ARGV[1], ARGV[2])`)
	// takeTask removes the task and returns its bytes, or -1 if it is already gone.
	takeTask = redis.NewScript(`local old = redis.call('HGET', KEYS[1], ARGV[1])
if not old then return -1 end
redis.call('ZREM', ARGV[3] .. old, ARGV[1])
redis.call('HDEL', KEYS[1], ARGV[1])
local bytes = redis.call('HGET', KEYS[2], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[1])
return tonumber(bytes)`)
)

func (*dynamicTask) about() text {
	return text{"the articles' dynamic task (Redis ZSET, slices of a minute)", "原文的动态延时任务（Redis ZSET，按分钟分片）"}
}

func (d *dynamicTask) begin(context.Context, int) error {
	d.cost, d.size, d.flushed, d.now = uploadCost{}, 0, 0, time.Unix(1_700_000_000, 0)
	return nil
}

func (d *dynamicTask) run(ctx context.Context, script *redis.Script, args ...any) (int64, error) {
	d.cost.commands++
	task, slices := someDigest+":1", d.prefix+":slice:"
	return script.Run(ctx, d.redis, []string{d.prefix + ":map", d.prefix + ":bytes"}, append([]any{task, mib, slices}, args...)...).Int64()
}

func (d *dynamicTask) part(ctx context.Context, _ int) error {
	d.now = d.now.Add(time.Second)
	d.size += mib
	due := d.now.Add(idleTime * time.Millisecond)
	_, err := d.run(ctx, pushTask, due.Format("15-04"), due.UnixMilli())
	return err
}

func (d *dynamicTask) idle(ctx context.Context) error {
	d.now = d.now.Add(2 * idleTime * time.Millisecond)
	bytes, err := d.run(ctx, takeTask)
	if err != nil || bytes < 0 {
		return fmt.Errorf("the task has %d bytes: %w", bytes, err)
	}
	d.flushed += bytes
	d.cost.transactions++
	d.cost.statements++
	_, err = d.db.ExecContext(ctx, "UPDATE users SET unfinished = unfinished + ? WHERE id = 1", bytes)
	return err
}

func (d *dynamicTask) complete(ctx context.Context) (uploadCost, error) {
	bytes, err := d.run(ctx, takeTask)
	if err == nil && bytes+d.flushed != d.size {
		err = fmt.Errorf("the task has %d bytes of %d", bytes+d.flushed, d.size)
	}
	if err == nil {
		err = finish(ctx, d.db, &d.cost, d.size, d.flushed)
	}
	return d.cost, err
}

// ownUpload is SmartDrive's upload service under a virtual clock.
type ownUpload struct {
	bench *bench

	rig   *rig
	calls *sqldbtest.Counter
	site  *uploadtest.Site
	who   drive.Who
	view  upload.View
	body  []byte
	before,
	statements int64
}

func (*ownUpload) about() text { return same("SmartDrive") }

func (o *ownUpload) begin(ctx context.Context, parts int) error {
	return asTest(func() error {
		if o.site == nil {
			address, err := o.bench.mysqlDatabase(ctx)
			if err != nil {
				return err
			}
			o.rig, o.calls, o.body = &rig{ctx: ctx, bench: o.bench}, &sqldbtest.Counter{}, bytes.Repeat([]byte{7}, mib)
			o.site = uploadtest.New(o.rig, uploadtest.Options{DB: sqldb.Options{MySQL: address, Connections: 4, Connector: o.calls.Connector}})
		}
		o.who = o.site.Account(o.rig, 0) // a new account: no other has the content yet
		o.before, o.statements = o.site.DB.Stats().Writes.Load(), o.asked()
		size := drive.ByteSize(parts) * mib
		var err error
		o.view, err = o.site.Begin(ctx, o.who, upload.Begin{Path: uploadtest.Path(o.rig, "/film.mp4"), Size: size, PartSize: mib}, nil)
		return err
	})
}

func (o *ownUpload) asked() int64 {
	return int64(o.calls.Count(sqldbtest.Exec) + o.calls.Count(sqldbtest.Query))
}

func (o *ownUpload) part(ctx context.Context, n int) error {
	return o.site.Put(ctx, o.who, o.view.ID, upload.PutPart{N: n, Size: mib}, bytes.NewReader(o.body))
}

func (o *ownUpload) idle(context.Context) error {
	return asTest(func() error {
		o.site.AdvanceAndFire(o.rig, time.Minute)
		if state, _ := o.site.State(o.rig, o.view.ID); state != "parked" {
			return fmt.Errorf("after a minute without a part the upload is %s", state)
		}
		return nil
	})
}

func (o *ownUpload) complete(ctx context.Context) (cost uploadCost, err error) {
	return cost, asTest(func() error {
		if _, _, err := o.site.Complete(ctx, o.who, o.view.ID, upload.Complete{}); err != nil {
			return err
		}
		cost.transactions = int(o.site.DB.Stats().Writes.Load() - o.before)
		cost.statements = int(o.asked() - o.statements)
		o.site.CheckLedger(o.rig, o.who)
		return nil
	})
}
