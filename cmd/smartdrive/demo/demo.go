// Package demo plays the stories of the engineering write-ups that SmartDrive implements: it starts
// a server in a temporary directory, acts as its users do, and prints what the disk, the timer
// queue, the database and the ledger hold after each step.
//
// Every figure is read from the running server, its files or its database. A story that does not
// end as it is told fails, so each story is a test as well.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// Options says what is played and how it is shown.
type Options struct {
	Binary  string    // path of the smartdrive program, which is started as the server
	Stories []string  // names of stories in the order to play; empty plays all
	Fast    bool      // smaller files and an idle limit of 1 s instead of 5 s
	JSON    bool      // one JSON object per line instead of text
	Chinese bool      // narration in Chinese instead of English
	Out     io.Writer // receives the narration

	// Services are what two instances share; nil plays the stories of one server.
	Services *Services
}

// story is one demonstration; play returns an error when the outcome differs from what is told.
type story struct {
	name  string
	title text
	play  func(context.Context, *stage) error
}

// stories is in the order of the write-ups.
var stories = []story{
	{"upload", text{"An upload that stops after part 3", "上传到第 3 个分片之后停止（动态延时任务）"}, playUpload},
	{"resume", text{"Resume after kill -9 of the client and of the server", "断点续传：客户端和服务端先后被 kill -9"}, playResume},
	{"attack", text{"An account that never finishes its uploads", "攻击：反复开始上传、从不完成"}, playAttack},
	{"instant", text{"Instant upload, and why a hash alone is refused", "秒传，以及为什么只有哈希不够"}, playInstant},
	{"pre-id", text{"A double click with pre_id", "重复点击与预生成 ID（pre_id）"}, playPreID},
	{"export", text{"Many documents in one zip, with failures and a supplement", "批量打包下载：失败列入 err.txt，之后补包"}, playExport},
	{"intake", text{"Intake: accepted, rejected, duplicate, conflict", "发票抽取：接收、拒绝、重复、冲突"}, playIntake},
}

// clusterStories are those of two instances.
var clusterStories = []story{
	{"upload", text{"An upload that stops after part 3, in a cluster", "集群：上传到第 3 个分片之后停止（动态延时任务）"}, playSharedUpload},
	{"resume", text{"Resume after kill -9 of the client and of an instance", "集群：客户端和一个实例先后被 kill -9，断点续传"}, playResume},
	{"redis", text{"Redis is emptied", "集群：Redis 数据全部丢失"}, playEmptiedRedis},
	{"instance", text{"An instance dies", "集群：一个实例死亡"}, playDeadInstance},
}

// Names lists the stories in the order in which they are played, of one server or of a cluster.
func Names(inCluster bool) []string {
	var names []string
	for _, s := range storiesOf(inCluster) {
		names = append(names, s.name)
	}
	return names
}

func storiesOf(inCluster bool) []story {
	if inCluster {
		return clusterStories
	}
	return stories
}

// Run plays the stories. It removes the temporary directory and what it has created in Services,
// and ends the servers that it started. The error names the first story that did not end as it is
// told.
func Run(ctx context.Context, o Options) error {
	chosen, err := choose(storiesOf(o.Services != nil), o.Stories)
	if err != nil {
		return err
	}
	if o.Services != nil {
		return onStage(ctx, o, func(st *stage) error {
			for i, s := range chosen {
				if err := st.play(ctx, i, s); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for i, s := range chosen { // each against a server of its own: no story sees what another has left
		if err := onStage(ctx, o, func(st *stage) error { return st.play(ctx, i, s) }); err != nil {
			return err
		}
	}
	return nil
}

func choose(all []story, names []string) ([]story, error) {
	if len(names) == 0 {
		return all, nil
	}
	var chosen []story
	for _, name := range names {
		i := slices.IndexFunc(all, func(s story) bool { return s.name == name })
		if i < 0 {
			var there []string
			for _, s := range all {
				there = append(there, s.name)
			}
			return nil, fmt.Errorf("there is no story %q; there are %s", name, strings.Join(there, ", "))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// onStage runs play with a directory and removes what is left of it.
func onStage(ctx context.Context, o Options, play func(*stage) error) (err error) {
	dir, err := os.MkdirTemp("", "smartdrive-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	st := &stage{printer: printer{o: o}, dir: dir}
	defer func() { err = errors.Join(err, st.close(ctx)) }()
	return play(st)
}

// play starts the servers that do not run and plays a story against them.
func (st *stage) play(ctx context.Context, i int, s story) error {
	st.story, st.step = s.name, 0
	st.heading(i+1, s.title)
	err := st.open(ctx)
	if err == nil {
		err = s.play(ctx, st)
	}
	if err = errors.Join(err, st.err); err != nil {
		return fmt.Errorf("story %s: %w", s.name, err)
	}
	return nil
}
