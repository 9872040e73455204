package main

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"example.org/smartdrive/internal/engine/timer"
	timers "example.org/smartdrive/internal/engine/timer/redis"
)

// taskRunner is an architecture: it keeps a delayed task for each open upload. Due times are in
// Unix ms.
type taskRunner interface {
	// add creates the task of a new upload.
	add(ctx context.Context, upload int, due int64) error
	// pushBack postpones the task of an upload.
	pushBack(ctx context.Context, upload int, due int64) error
	// drop removes the task of an upload that is being completed.
	drop(ctx context.Context, upload int) error
	// run ends due uploads until ctx is done, and then returns nil.
	run(ctx context.Context) error
}

func newTaskRunner(ctx context.Context, l *ledger) (taskRunner, error) {
	switch l.Kind {
	case "rows":
		return rowTasks{l}, nil
	case "heap":
		return &heapTasks{ledger: l, due: make([]int64, l.Uploads)}, nil
	case rabbit, rabbitEarly:
		return &delayQueue{ledger: l, early: l.Kind == rabbitEarly}, nil
	}
	o, err := redis.ParseURL(l.Addresses["redis"])
	if err != nil {
		return nil, err
	}
	if l.Kind == "smartdrive" {
		return newOwnTasks(l, o.Addr), nil
	}
	z := zsetTasks{l, redis.NewClient(o)}
	if l.Kind == "kafka" {
		return newKafkaTasks(ctx, z)
	}
	return z, nil
}

// poll takes due uploads every 5 ms and passes them to handle.
func poll(ctx context.Context, take func(ctx context.Context, now int64) ([]int, error), handle func(ctx context.Context, due []int) error) error {
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for ctx.Err() == nil {
		due, err := take(ctx, time.Now().UnixMilli())
		if err == nil && len(due) > 0 {
			if err := handle(ctx, due); err != nil {
				return err
			}
			continue
		}
		select {
		case <-look.C:
		case <-ctx.Done():
		}
	}
	return nil
}

// rowTasks stores the due time in the row of the upload.
type rowTasks struct{ *ledger }

func (rowTasks) add(context.Context, int, int64) error { return nil }
func (rowTasks) drop(context.Context, int) error       { return nil }

func (r rowTasks) pushBack(ctx context.Context, upload int, due int64) error {
	r.writes.Add(1)
	_, err := r.db.ExecContext(ctx, "UPDATE uploads SET due = ? WHERE id = ?", due, upload)
	return err
}

func (r rowTasks) run(ctx context.Context) error {
	return poll(ctx, func(ctx context.Context, now int64) (due []int, err error) {
		tasks, err := readTasks(ctx, r.db, "SELECT id, due FROM uploads WHERE ended = 0 AND due <= ? ORDER BY due LIMIT 100", now)
		for u := range tasks {
			due = append(due, u)
		}
		return due, err
	}, r.endAll)
}

// heapTasks is a heap in this process. Stale entries stay until they reach the top.
type heapTasks struct {
	*ledger

	mu    sync.Mutex
	items items
	due   []int64 // by upload
}

func (h *heapTasks) pushBack(_ context.Context, upload int, due int64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.due[upload] = due
	heap.Push(&h.items, item{due, int32(upload)})
	return nil
}

func (h *heapTasks) add(ctx context.Context, upload int, due int64) error {
	return h.pushBack(ctx, upload, due)
}

func (h *heapTasks) drop(_ context.Context, upload int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.due[upload] = 0
	return nil
}

func (h *heapTasks) take(_ context.Context, now int64) (due []int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.items) > 0 && h.items[0].due <= now && len(due) < batchSize {
		if x := heap.Pop(&h.items).(item); x.due == h.due[x.task] {
			h.due[x.task] = 0
			due = append(due, int(x.task))
		}
	}
	return due, nil
}

// run first adds the open uploads of an earlier process. Their push-backs are lost, so they come
// due after a full idle time.
func (h *heapTasks) run(ctx context.Context) error {
	if err := retry(ctx, func() error {
		rows, err := h.open(ctx)
		for u := range rows {
			err = errors.Join(err, h.pushBack(ctx, u, time.Now().Add(h.Idle).UnixMilli()))
		}
		return err
	}); err != nil {
		return err
	}
	return poll(ctx, h.take, h.endAll)
}

// zsetTasks is a sorted set in Redis; a script reads and removes due tasks.
type zsetTasks struct {
	*ledger

	redis *redis.Client
}

var takeMembers = redis.NewScript(`local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, ARGV[2])
if #due > 0 then redis.call('ZREM', KEYS[1], unpack(due)) end
return due`)

func (z zsetTasks) pushBack(ctx context.Context, upload int, due int64) error {
	return z.redis.ZAdd(ctx, z.Name, redis.Z{Member: upload, Score: float64(due)}).Err()
}

func (z zsetTasks) add(ctx context.Context, upload int, due int64) error {
	return z.pushBack(ctx, upload, due)
}

func (z zsetTasks) drop(ctx context.Context, upload int) error {
	return z.redis.ZRem(ctx, z.Name, upload).Err()
}

func (z zsetTasks) take(ctx context.Context, now int64) ([]int, error) {
	due, err := takeMembers.Run(ctx, z.redis, []string{z.Name}, now, batchSize).StringSlice()
	uploads := make([]int, len(due))
	for i, member := range due {
		uploads[i], _ = strconv.Atoi(member) // written by pushBack
	}
	return uploads, err
}

func (z zsetTasks) run(ctx context.Context) error { return poll(ctx, z.take, z.endAll) }

// kafkaTasks sends due uploads to a topic. Its consumer ends them and then commits its offsets.
type kafkaTasks struct {
	zsetTasks

	kafka *kgo.Client
}

func newKafkaTasks(ctx context.Context, z zsetTasks) (taskRunner, error) {
	c, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(z.Addresses["kafka"], ",")...), kgo.DefaultProduceTopic(z.Name), kgo.ConsumeTopics(z.Name), kgo.ConsumerGroup(z.Name),
		kgo.DisableAutoCommit(), kgo.SessionTimeout(6*time.Second), kgo.ProducerLinger(0),
	)
	if err != nil {
		return nil, err
	}
	_, err = kadm.NewClient(c).CreateTopic(ctx, 4, 1, nil, z.Name)
	if errors.Is(err, kerr.TopicAlreadyExists) { // created by an earlier process
		err = nil
	}
	return kafkaTasks{z, c}, err
}

func (k kafkaTasks) produce(ctx context.Context, due []int) error {
	records := make([]*kgo.Record, len(due))
	for i, u := range due {
		records[i] = kgo.StringRecord(strconv.Itoa(u))
	}
	return retry(ctx, k.kafka.ProduceSync(ctx, records...).FirstErr)
}

func (k kafkaTasks) consume(ctx context.Context) error {
	for {
		fetches := k.kafka.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil
		}
		var due []int
		for r := range fetches.RecordsAll() {
			u, err := strconv.Atoi(string(r.Value))
			if err != nil {
				return err
			}
			due = append(due, u)
		}
		if err := k.endAll(ctx, due); err != nil {
			return err
		}
		_ = k.kafka.CommitUncommittedOffsets(ctx) // after a failure they are redelivered
	}
}

func (k kafkaTasks) run(ctx context.Context) error {
	defer k.kafka.Close()
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return poll(ctx, k.take, k.produce) })
	all.Go(func() error { return k.consume(ctx) })
	err := all.Wait()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	_, _ = kadm.NewClient(k.kafka).DeleteTopics(last, k.Name) // the broker may be down
	return err
}

// delayQueue is a RabbitMQ queue whose messages expire after the idle time and are dead-lettered to
// a second queue. Messages can be neither moved nor removed, so each part sends another one. The
// consumer drops a message if this process knows of a later part.
type delayQueue struct {
	*ledger

	early bool // acknowledge on delivery

	mu      sync.Mutex
	conn    *amqp.Connection
	channel *amqp.Channel // in confirm mode, for publishing
}

func rabbitVersion(address string) (string, error) {
	c, err := amqp.Dial(address)
	if err != nil {
		return "", err
	}
	defer c.Close()
	return fmt.Sprint(c.Properties["version"]), nil
}

// connect returns the connection and the channel, and replaces broken ones.
func (q *delayQueue) connect() (*amqp.Connection, *amqp.Channel, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.channel != nil && !q.channel.IsClosed() {
		return q.conn, q.channel, nil
	}
	conn, err := amqp.Dial(q.Addresses[rabbit])
	if err != nil {
		return nil, nil, err
	}
	ch, err := conn.Channel()
	if err == nil {
		_, err = ch.QueueDeclare(q.Name, true, false, false, false, nil)
	}
	if err == nil {
		_, err = ch.QueueDeclare(q.Name+".delay", true, false, false, false, amqp.Table{
			"x-message-ttl": q.Idle.Milliseconds(), "x-dead-letter-exchange": "", "x-dead-letter-routing-key": q.Name,
		})
	}
	if err == nil {
		err = ch.Confirm(false)
	}
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	q.conn, q.channel = conn, ch
	return conn, ch, nil
}

func (q *delayQueue) pushBack(ctx context.Context, upload int, due int64) error {
	_, ch, err := q.connect()
	if err != nil {
		return err
	}
	sent, err := ch.PublishWithDeferredConfirmWithContext(ctx, "", q.Name+".delay", true, false,
		amqp.Publishing{DeliveryMode: amqp.Persistent, Body: fmt.Appendf(nil, "%d %d", upload, due)})
	if err != nil {
		return err
	}
	if ok, err := sent.WaitContext(ctx); err != nil || !ok {
		return fmt.Errorf("the broker has not taken the message: %w", err)
	}
	return nil
}

func (*delayQueue) add(context.Context, int, int64) error { return nil } // the first part sends one
func (*delayQueue) drop(context.Context, int) error       { return nil }

func (q *delayQueue) run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := retry(ctx, func() error { return q.consume(ctx) }); err != nil {
			return err
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.conn != nil {
		_ = q.conn.Close() // the broker may be down
	}
	return nil
}

// consume handles messages until the connection breaks.
func (q *delayQueue) consume(ctx context.Context) error {
	conn, _, err := q.connect()
	if err != nil {
		return err
	}
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	if err := ch.Qos(batchSize, 0, false); err != nil {
		return err
	}
	messages, err := ch.ConsumeWithContext(ctx, q.Name, "", q.early, false, false, false, nil)
	if err != nil {
		return err
	}
	return parallel(ctx, expiries, func(ctx context.Context, _ int) error {
		for m := range messages {
			var upload int
			var due int64
			if _, err := fmt.Sscan(string(m.Body), &upload, &due); err != nil {
				return err
			}
			if due >= q.due[upload].Load() {
				if err := retry(ctx, func() error { return q.end(ctx, upload) }); err != nil {
					return err
				}
			}
			if !q.early {
				_ = m.Ack(false) // after a failure it is redelivered
			}
		}
		return nil
	})
}

// ownTasks uses SmartDrive's timer engine.
type ownTasks struct {
	*ledger

	queue   *timers.Queue
	engine  *timer.Engine
	uploads map[timer.Key]int
}

func newOwnTasks(l *ledger, address string) *ownTasks {
	o := &ownTasks{ledger: l, queue: timers.New(timers.Options{Addrs: []string{address}, Namespace: l.Name}), uploads: map[timer.Key]int{}}
	for u := range l.Uploads {
		o.uploads[timerKey(int32(u))] = u
	}
	o.engine = timer.New(timer.Options{
		Queue:       o.queue,
		Handlers:    map[timer.Kind]timer.Handler{timer.Park: func(ctx context.Context, f timer.Fired) error { return o.end(ctx, o.uploads[f.Key]) }},
		Concurrency: map[timer.Kind]int{timer.Park: expiries},
		OnLoss:      o.arm,
	})
	return o
}

func (o *ownTasks) entry(upload int) timer.Entry {
	return timer.Entry{Key: timerKey(int32(upload)), Gen: 1, Idle: o.Idle}
}

func (o *ownTasks) add(ctx context.Context, upload int, _ int64) error {
	return o.engine.Arm(ctx, o.entry(upload))
}

func (o *ownTasks) pushBack(_ context.Context, upload int, _ int64) error {
	o.engine.Touch(timerKey(int32(upload)))
	return nil
}

func (o *ownTasks) drop(ctx context.Context, upload int) error {
	return o.engine.Cancel(ctx, timerKey(int32(upload)), 1)
}

// arm arms the timers of all open uploads, at the start and after a loss of timers.
func (o *ownTasks) arm(ctx context.Context) error {
	rows, err := o.open(ctx)
	var entries []timer.Entry
	for u := range rows {
		entries = append(entries, o.entry(u))
	}
	if err != nil {
		return err
	}
	return o.engine.Arm(ctx, entries...)
}

func (o *ownTasks) run(ctx context.Context) error {
	defer o.queue.Close()
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return o.queue.Run(ctx) })
	all.Go(func() error { return retry(ctx, func() error { return o.arm(ctx) }) })
	all.Go(func() error { return o.engine.Run(ctx) })
	return all.Wait()
}
