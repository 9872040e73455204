package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"
)

var structures = comparison{
	name:  "structures",
	id:    "C1",
	title: text{"The structure that holds delayed tasks, in one process", "进程内存放延时任务的数据结构"},
	columns: []text{
		{"structure", "结构"},
		{"pending tasks", "待办任务数"},
		{"push-back ns", "推后 ns"},
		{"insert ns", "插入 ns"},
		{"take a due task ns", "取出到期任务 ns"},
		{"bytes per task", "每任务字节"},
		{"bytes after the push-backs", "推后之后的字节"},
	},
	run: runStructures,
}

// clock is the virtual time of the structures, in ms.
type clock struct{ now int64 }

// taskStore stores delayed tasks by number. Only takeDue checks for due tasks.
type taskStore interface {
	// insert adds a task that comes due idle ms from now.
	insert(task int32, idle int64)
	// pushBack postpones a pending task to idle ms from now.
	pushBack(task int32, idle int64)
	// takeDue removes the due tasks and returns their number.
	takeDue() int
	// close stops background work.
	close()
}

// idleTime is the time in ms from a task's last push-back until it comes due.
const idleTime = 30_000

func runStructures(_ context.Context, b *bench, t *table) error {
	t.set(
		text{"ns: nanoseconds of processor time", "ns：处理器时间，纳秒"},
		text{
			"each pending task is pushed back three times to 30 s from now, in an order that no cache knows; then a tenth more tasks are inserted, and taken when they are due; the sorted list gets one second for each of the two",
			"每个待办任务按缓存无法预测的顺序推后三次，推到 30 秒之后；再插入十分之一的新任务，到期后取出；有序列表的前两项各限一秒",
		},
		text{
			"beside their structure, all but SmartDrive's keep an array from task to due time or handle, 8 bytes a task, counted",
			"除 SmartDrive 外，各结构另有一个从任务到到期时间或句柄的数组，每任务 8 字节，计算在内",
		},
		text{
			"SmartDrive's row is its own queue (internal/engine/timer/memory): it also finds tasks by a key of 17 bytes, locks for use by many goroutines, leases and acknowledges; the others do not",
			"SmartDrive 一行是它自己的队列（internal/engine/timer/memory）：还按 17 字节的键查找任务、为多个 goroutine 加锁、租出并确认；其他结构没有这些",
		},
		same(moduleVersions("github.com/huandu/skiplist", "github.com/tidwall/btree")),
	)
	t.warn(text{
		"NO TIMING WHEEL: no Go module of a hierarchical timing wheel could be fetched here (RussellLuo/timingwheel, ouqiang/timewheel, antlabs/timer), and none is written by hand",
		"缺少层级时间轮：测量环境中无法下载这些 Go 模块（RussellLuo/timingwheel、ouqiang/timewheel、antlabs/timer），也不手写",
	})
	for _, n := range pick(b, []int{1_000, 1_000_000}, []int{1_000}) {
		for _, s := range storeKinds {
			b.say("  %s, %d", s.name.en, n)
			if err := measureStore(t, s, n); err != nil {
				return fmt.Errorf("%s: %w", s.name.en, err)
			}
		}
	}
	return nil
}

// settling is how many ms the clock advances during the inserts, and again during the push-backs.
// It is below idleTime, so that no task comes due meanwhile.
const settling = 3_000

// measureStore fills a structure with n tasks, times each operation, and adds a row.
func measureStore(t *table, kind storeKind, n int) error {
	r, extra := rand.New(rand.NewPCG(1, uint64(n))), n/10
	before := heapInUse()
	c := &clock{}
	s := kind.make(c, n+extra)
	for i := range n {
		c.now = int64(i) * settling / int64(n)
		s.insert(int32(i), idleTime)
	}
	perTask := func() any { return float64(heapInUse()-before) / float64(n) }
	filled := perTask()

	patience := time.Hour // no limit
	if kind.linear {
		patience = time.Second // a push-back moves half of the tasks
	}
	push, pushes := perOperation(patience, 3*n, func(i int) {
		c.now = settling + int64(i)*settling/int64(3*n)
		s.pushBack(int32(i*7919%n), idleTime)
	})
	pushed := perTask()
	if pushes < 3*n {
		pushed = nil
	}
	c.now = 2 * settling
	insert, due := perOperation(patience, extra, func(i int) { s.insert(int32(n+i), 1+r.Int64N(settling)) })

	var take any
	if !kind.wakesItself {
		c.now = 3*settling + 1
		began := cpuTime()
		if taken := s.takeDue(); taken != due {
			return fmt.Errorf("%d tasks were taken, %d are due", taken, due)
		}
		take = nanoseconds(cpuTime()-began, due)
	}
	s.close()
	t.row(kind.name, n, push, insert, take, filled, pushed)
	return nil
}

// perOperation calls do up to most times, or until patience has passed. It returns the nanoseconds
// per call and the number of calls.
func perOperation(patience time.Duration, most int, do func(i int)) (float64, int) {
	began := cpuTime()
	for i := range most {
		do(i)
		if patience < time.Hour && cpuTime()-began > patience {
			return nanoseconds(cpuTime()-began, i+1), i + 1
		}
	}
	return nanoseconds(cpuTime()-began, most), most
}

func nanoseconds(d time.Duration, calls int) float64 {
	return float64(d.Nanoseconds()) / float64(calls)
}

// heapInUse returns the bytes of live objects.
func heapInUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
