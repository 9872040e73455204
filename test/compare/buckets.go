package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"example.org/smartdrive/internal/engine/timer"
	timers "example.org/smartdrive/internal/engine/timer/redis"
)

var buckets = comparison{
	name:  "buckets",
	id:    "C5",
	title: text{"One ZSET or several buckets", "一个 ZSET 还是多个桶"},
	columns: []text{
		{"scheme", "方案"},
		{"buckets", "桶数"},
		{"schedulers", "调度器数"},
		{"tasks/s taken", "每秒取出任务"},
		{"call p50 ms", "单次调用 p50 ms"},
		{"call p99 ms", "单次调用 p99 ms"},
		{"read in vain, % of tasks", "白读的任务 %"},
		{"look when nothing is due, ms", "无到期任务时查一遍 ms"},
	},
	needs: []string{"redis"},
	run:   runBuckets,
}

// How many due tasks a scheduler takes at a time.
const (
	batchSize = 100
	ownBatch  = 1000 // SmartDrive: one lease covers all shards
)

// takeBatch removes due tasks and returns their number.
var takeBatch = redis.NewScript(`local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, ARGV[2])
if #due > 0 then redis.call('ZREM', KEYS[1], unpack(due)) end
return #due`)

// takeWay is a way to take due tasks from a bucket. take returns how many tasks it read and how
// many it removed before any other scheduler did.
type takeWay struct {
	name text
	take func(ctx context.Context, r *redis.Client, key string, now int64) (read, taken int, err error)
}

var takeWays = []takeWay{
	{text{"ZRANGEBYSCORE, then ZREM: who removes it runs it", "ZRANGEBYSCORE 再 ZREM，谁删成谁执行"}, scanThenRemove},
	{text{"one Lua script that reads and removes", "一个 Lua 脚本读并删"}, func(ctx context.Context, r *redis.Client, key string, now int64) (int, int, error) {
		n, err := takeBatch.Run(ctx, r, []string{key}, now, batchSize).Int()
		return n, n, err
	}},
}

func scanThenRemove(ctx context.Context, r *redis.Client, key string, now int64) (read, taken int, err error) {
	due, err := r.ZRangeArgs(ctx, redis.ZRangeArgs{Key: key, ByScore: true, Start: "-inf", Stop: now, Count: batchSize}).Result()
	if err != nil || len(due) == 0 {
		return 0, 0, err
	}
	removed := make([]*redis.IntCmd, len(due))
	_, err = r.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, task := range due {
			removed[i] = p.ZRem(ctx, key, task)
		}
		return nil
	})
	for _, n := range removed {
		taken += int(n.Val())
	}
	return len(due), taken, err
}

func runBuckets(ctx context.Context, b *bench, t *table) error {
	r, prefix, err := b.redis(ctx)
	if err != nil {
		return err
	}
	pending, due := pick(b, 1_000_000, 5_000), pick(b, 50_000, 2_000)
	t.set(
		same(redisVersion(ctx, r)),
		text{
			fmt.Sprintf("%s tasks are pending and not due, %s more are due; schedulers take batches of %d at once, each begins at another bucket", grouped(int64(pending)), grouped(int64(due)), batchSize),
			fmt.Sprintf("待办且未到期的任务 %s 个，另有 %s 个已到期；调度器同时每次取 %d 个，各从不同的桶开始", grouped(int64(pending)), grouped(int64(due)), batchSize),
		},
		text{
			"a call is one look for a batch, its removal included; read in vain: tasks that another scheduler had removed in between",
			"一次调用是取一批，包括删除；白读：读到之后已被另一个调度器删掉的任务",
		},
		text{
			"SmartDrive: its queue in Redis with its 64 shards, which schedulers share out among themselves; leasing keeps the task until it is acknowledged, and a call is the lease and the acknowledgement of 1,000",
			"SmartDrive：它在 Redis 里的队列，64 个分桶由各调度器分摊；任务租出后直到确认才删除，一次调用包括租出和确认 1,000 个",
		},
	)
	crowds := pick(b, []int{1, 8}, []int{1, 4})
	for _, n := range []int{1, 10, 64} {
		z := &zsets{redis: r, prefix: prefix + ":" + strconv.Itoa(n), n: n}
		b.say("  %d buckets: filling", n)
		if err := z.fill(ctx, "p", pending, time.Now().Add(time.Hour)); err != nil {
			return err
		}
		for _, way := range takeWays {
			for _, schedulers := range crowds {
				b.say("  %d buckets, %d schedulers, %s", n, schedulers, way.name.en)
				if err := z.fill(ctx, "d", due, time.Now().Add(-time.Second)); err != nil {
					return err
				}
				if err := z.drain(ctx, t, way, schedulers, due); err != nil {
					return fmt.Errorf("%s: %w", way.name.en, err)
				}
			}
		}
		if err := removeKeys(ctx, r, z.prefix); err != nil {
			return err
		}
	}
	for _, schedulers := range crowds {
		b.say("  SmartDrive, %d schedulers", schedulers)
		if err := drainOwn(ctx, b, t, prefix+strconv.Itoa(schedulers), schedulers, pending, due); err != nil {
			return fmt.Errorf("SmartDrive: %w", err)
		}
	}
	return nil
}

// zsets are the buckets of one run, each a sorted set in Redis.
type zsets struct {
	redis  *redis.Client
	prefix string
	n      int
}

func (z *zsets) key(bucket int) string { return fmt.Sprintf("%s:%d", z.prefix, bucket%z.n) }

// fill adds tasks that come due from the given time on, spread over one second.
func (z *zsets) fill(ctx context.Context, kind string, tasks int, from time.Time) error {
	members := make([][]redis.Z, z.n)
	for i := range tasks {
		bucket := int(uint32(i)*2654435761>>16) % z.n
		members[bucket] = append(members[bucket], redis.Z{Score: float64(from.UnixMilli() + int64(i%1000)), Member: kind + ":00000000000000000000:" + strconv.Itoa(i)})
		if len(members[bucket]) == 1000 || i >= tasks-1 {
			if err := z.add(ctx, bucket, members); err != nil {
				return err
			}
		}
	}
	for bucket := range members {
		if err := z.add(ctx, bucket, members); err != nil {
			return err
		}
	}
	return nil
}

func (z *zsets) add(ctx context.Context, bucket int, members [][]redis.Z) error {
	if len(members[bucket]) == 0 {
		return nil
	}
	err := z.redis.ZAdd(ctx, z.key(bucket), members[bucket]...).Err()
	members[bucket] = members[bucket][:0]
	return err
}

// drain lets schedulers take all due tasks and adds a row to the table.
func (z *zsets) drain(ctx context.Context, t *table, way takeWay, schedulers, due int) error {
	now := time.Now().UnixMilli()
	var read, taken atomic.Int64
	var c calls
	began := time.Now()
	err := parallel(ctx, schedulers, func(ctx context.Context, i int) error {
		for bucket := i * z.n / schedulers; int(taken.Load()) < due; {
			from := time.Now()
			saw, got, err := way.take(ctx, z.redis, z.key(bucket), now)
			if err != nil {
				return err
			}
			read.Add(int64(saw))
			taken.Add(int64(got))
			if saw > 0 {
				c.add(time.Since(from))
			}
			if saw < batchSize {
				bucket++
			}
		}
		return nil
	})
	took := time.Since(began)
	if err == nil && int(taken.Load()) != due {
		err = fmt.Errorf("%d tasks of %d were taken", taken.Load(), due)
	}
	if err != nil {
		return err
	}
	from := time.Now()
	for bucket := range z.n {
		if n, _, err := way.take(ctx, z.redis, z.key(bucket), now); err != nil || n > 0 {
			return fmt.Errorf("%d tasks are left: %w", n, err)
		}
	}
	t.row(way.name, z.n, schedulers, float64(due)/took.Seconds(), c.percentile(50), c.percentile(99),
		float64(read.Load()-taken.Load())*100/float64(due), milliseconds(time.Since(from)))
	return nil
}

// calls collects the durations of calls.
type calls struct {
	mu  sync.Mutex
	all []time.Duration
}

func (c *calls) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, d)
}

func (c *calls) percentile(p int) float64 { return milliseconds(percentile(c.all, p)) }

// drainOwn lets schedulers take all due tasks from SmartDrive's queue, through one queue object
// each, and adds a row to the table.
func drainOwn(ctx context.Context, b *bench, t *table, namespace string, schedulers, pending, due int) error {
	queues := make([]*timers.Queue, schedulers)
	running, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	o, err := redis.ParseURL(b.address["redis"])
	if err != nil {
		stop()
		return err
	}
	for i := range queues {
		queues[i] = timers.New(timers.Options{Addrs: []string{o.Addr}, Namespace: namespace})
		all.Go(func() { _ = queues[i].Run(running) }) // ends with running; a failing call reports the reason
	}
	b.later(func() (err error) {
		stop()
		all.Wait()
		for _, q := range queues {
			if e := q.Close(); e != nil {
				err = e
			}
		}
		return err
	})
	arm := func(from, n int, idle time.Duration) error {
		for done := 0; done < n; done += 5000 {
			entries := make([]timer.Entry, min(5000, n-done))
			for i := range entries {
				entries[i] = timer.Entry{Key: timerKey(int32(from + done + i)), Gen: 1, Idle: idle}
			}
			if err := queues[0].Arm(ctx, entries); err != nil {
				return err
			}
		}
		return nil
	}
	if err := arm(0, pending, time.Hour); err != nil {
		return err
	}
	if err := arm(pending, due, time.Millisecond); err != nil {
		return err
	}
	var taken atomic.Int64
	var c calls
	began := time.Now()
	err = parallel(ctx, schedulers, func(ctx context.Context, i int) error {
		for int(taken.Load()) < due {
			from := time.Now()
			n, err := leaseBatch(ctx, queues[i], ownBatch)
			if err != nil {
				return err
			}
			if taken.Add(int64(n)); n > 0 {
				c.add(time.Since(from))
			}
		}
		return nil
	})
	took := time.Since(began)
	if err == nil && int(taken.Load()) != due {
		err = fmt.Errorf("%d timers of %d were taken", taken.Load(), due)
	}
	if err != nil {
		return err
	}
	from := time.Now()
	if n, err := leaseBatch(ctx, queues[0], ownBatch); err != nil || n > 0 {
		return fmt.Errorf("%d timers are left: %w", n, err)
	}
	t.row(same("SmartDrive"), 64, schedulers, float64(due)/took.Seconds(), c.percentile(50), c.percentile(99), 0.0, milliseconds(time.Since(from)))
	return nil
}

// leaseBatch leases and acknowledges a batch, and returns its size.
func leaseBatch(ctx context.Context, q timer.Queue, size int) (int, error) {
	batch, err := q.Lease(ctx, timer.Park, size, time.Minute)
	if err != nil || len(batch.Fired) == 0 {
		return 0, err
	}
	done := make([]timer.Outcome, len(batch.Fired))
	for i, f := range batch.Fired {
		done[i] = timer.Outcome{Key: f.Key, Token: f.Token, Verdict: timer.Done}
	}
	_, err = q.Settle(ctx, done)
	return len(done), err
}
