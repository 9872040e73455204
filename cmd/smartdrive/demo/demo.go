// Package demo plays the stories of the engineering write-ups that SmartDrive implements. Each
// story starts a server in a temporary directory, acts as its users, and prints what the disk, the
// timer queue, the database and the ledger hold after each step.
//
// All printed values are read from the running server, its files or its database. A story whose
// outcome differs from the narration fails, so each story is also a test.
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

// Options configure Run.
type Options struct {
	Binary  string    // path of the smartdrive program to start as the server
	Stories []string  // names of stories in the order to play; empty plays all
	Fast    bool      // smaller files and an idle limit of 1 s instead of 5 s
	JSON    bool      // one JSON object per line instead of text
	Chinese bool      // narration in Chinese instead of English
	Out     io.Writer // receives the narration

	// Services are the services shared by two instances; nil: play the stories of a single
	// server.
	Services *Services
}

// story is one demonstration. play returns an error if the outcome differs from the narration.
type story struct {
	name  string
	title bilingual
	play  func(context.Context, *harness) error
}

// stories are the stories of a single server, in the order of the write-ups.
var stories = []story{
	{"upload", bilingual{"An upload that stops after part 3", "上传到第 3 个分片之后停止（动态延时任务）"}, playUpload},
	{"resume", bilingual{"Resume after kill -9 of the client and of the server", "断点续传：客户端和服务端先后被 kill -9"}, playResume},
	{"attack", bilingual{"An account that never finishes its uploads", "攻击：反复开始上传、从不完成"}, playAttack},
	{"instant", bilingual{"Instant upload, and why a hash alone is refused", "秒传，以及为什么只有哈希不够"}, playInstant},
	{"pre-id", bilingual{"A double click with pre_id", "重复点击与预生成 ID（pre_id）"}, playPreID},
	{"export", bilingual{"Many documents in one zip, with failures and a supplement", "批量打包下载：失败列入 err.txt，之后补包"}, playExport},
	{"intake", bilingual{"Intake: accepted, rejected, duplicate, conflict", "发票抽取：接收、拒绝、重复、冲突"}, playIntake},
}

// clusterStories are the stories of two instances.
var clusterStories = []story{
	{"upload", bilingual{"An upload that stops after part 3, in a cluster", "集群：上传到第 3 个分片之后停止（动态延时任务）"}, playSharedUpload},
	{"resume", bilingual{"Resume after kill -9 of the client and of an instance", "集群：客户端和一个实例先后被 kill -9，断点续传"}, playResume},
	{"redis", bilingual{"Redis is emptied", "集群：Redis 数据全部丢失"}, playEmptiedRedis},
	{"instance", bilingual{"An instance dies", "集群：一个实例死亡"}, playDeadInstance},
}

// Names returns the names of the stories of a cluster or of a single server, in playing order.
func Names(inCluster bool) []string {
	var names []string
	for _, s := range storiesOf(inCluster) {
		names = append(names, s.name)
	}
	return names
}

// storiesOf returns the stories for one server or for a cluster.
func storiesOf(inCluster bool) []story {
	if inCluster {
		return clusterStories
	}
	return stories
}

// Run plays the stories. Before it returns, it stops the servers it started, and removes the
// temporary directory and everything it created in Services. The error names the first story with a
// wrong outcome; later stories are not played.
func Run(ctx context.Context, o Options) error {
	chosen, err := selectStories(storiesOf(o.Services != nil), o.Stories)
	if err != nil {
		return err
	}
	if o.Services != nil {
		if !o.Services.complete() {
			return errors.New((&printer{o: o}).translate(servicesMissing))
		}
		return withHarness(ctx, o, func(st *harness) error {
			for i, s := range chosen {
				if err := st.playStory(ctx, i, s); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for i, s := range chosen { // each with a server of its own, so that stories are independent
		if err := withHarness(ctx, o, func(st *harness) error { return st.playStory(ctx, i, s) }); err != nil {
			return err
		}
	}
	return nil
}

// selectStories returns the stories with these names, all if names is empty. It fails for an
// unknown name.
func selectStories(all []story, names []string) ([]story, error) {
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

// withHarness runs play with a new harness in a temporary directory, and removes both.
func withHarness(ctx context.Context, o Options, play func(*harness) error) (err error) {
	dir, err := os.MkdirTemp("", "smartdrive-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	st := &harness{printer: printer{o: o}, dir: dir}
	defer func() { err = errors.Join(err, st.close(ctx)) }()
	return play(st)
}

// playStory starts the servers that are not running and plays a story.
func (h *harness) playStory(ctx context.Context, i int, s story) error {
	h.story, h.step = s.name, 0
	h.heading(i+1, s.title)
	err := h.open(ctx)
	if err == nil {
		err = s.play(ctx, h)
	}
	if err = errors.Join(err, h.err); err != nil {
		return fmt.Errorf("story %s: %w", s.name, err)
	}
	return nil
}
