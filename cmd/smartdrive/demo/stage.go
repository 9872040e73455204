package demo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"smartdrive/client"
	"smartdrive/internal/engine/sqldb"
)

// stage is what a story plays on: a server or a cluster of two, its administrator, a directory for
// local files.
type stage struct {
	printer
	dir     string
	server  *server
	second  *server  // the other instance of a cluster
	cluster *cluster // nil: one server
	admin   *client.Client
}

// open starts the servers that do not run, and logs the administrator in.
func (st *stage) open(ctx context.Context) (err error) {
	switch {
	case st.cluster != nil:
		err = st.revive(ctx)
	case st.o.Services != nil:
		if st.cluster, err = newCluster(ctx, *st.o.Services); err == nil {
			err = st.startCluster(ctx)
		}
	default:
		if st.server, err = newServer(ctx, st.o.Binary, filepath.Join(st.dir, "data"), st.idle()); err == nil {
			err = st.server.start(ctx)
		}
	}
	if err == nil {
		st.admin, err = st.server.logIn(ctx)
	}
	return err
}

func (st *stage) close(ctx context.Context) error {
	st.server.kill()
	st.second.kill()
	if st.cluster == nil {
		return nil
	}
	return st.cluster.remove(ctx)
}

// idle is the idle limit of uploads: 5 s in the write-up's example. A part of a cluster is large,
// and its upload must not go quiet between two of them.
func (st *stage) idle() time.Duration {
	if st.o.Fast && st.o.Services == nil {
		return time.Second
	}
	return 5 * time.Second
}

// password is that of every user of the demo.
const password = "seven velvet otters count kites"

// addUser creates a user with a quota in bytes and logs them in.
func (st *stage) addUser(ctx context.Context, name string, quota int64) (client.User, *client.Client, error) {
	u, err := st.admin.CreateUser(ctx, client.NewUser{Name: name, Password: password, Total: &client.Total{Bytes: quota}})
	if err != nil {
		return u, nil, err
	}
	api, err := st.server.client(ctx, name, password)
	return u, api, err
}

// ledgerText shows the four balances of a user's account.
func (st *stage) ledgerText(ctx context.Context, user string) (client.Ledger, string, error) {
	l, err := st.admin.UserLedger(ctx, user)
	if err != nil {
		return l, "", err
	}
	return l, fmt.Sprintf("total %s, finished %s, unfinished %s, reserved %s", size(*l.Total), size(l.Finished), size(l.Unfinished), size(l.Reserved)), nil
}

// timerView is a timer as the queue and its trace show it to an administrator.
type timerView struct {
	Pending   bool
	Due       *time.Time
	Shard     string
	Slice     string
	PushBacks int64 `json:"push_backs"`
	Trace     []timerStep
}

// timerStep is a step of a timer that fired.
type timerStep struct {
	Step, Instance, Shard, Slice string
	PushBacks                    int64 `json:"push_backs"`
}

// timer reads the timer of an upload; there is none when its zero value comes back.
func (st *stage) timer(ctx context.Context, kind, upload string) (t timerView, err error) {
	raw, err := st.admin.Timer(ctx, kind+"/"+upload)
	if client.CodeOf(err) == client.CodeNotFound {
		return t, nil
	}
	if err != nil {
		return t, err
	}
	return decode[timerView](raw)
}

// timerText shows what the timer queue and its trace know of an upload: the task that parks it and
// the one that deletes it when it is abandoned.
func (st *stage) timerText(ctx context.Context, upload string) (string, error) {
	var shown []string
	for _, kind := range []string{"park", "abandon"} {
		timer, err := st.timer(ctx, kind, upload)
		if err != nil {
			return "", err
		}
		if timer.Pending && timer.Due != nil {
			shown = append(shown, fmt.Sprintf("%s: due in %s", kind, time.Until(*timer.Due).Round(100*time.Millisecond)))
		}
		if len(timer.Trace) > 0 {
			var steps []string
			for _, s := range timer.Trace {
				steps = append(steps, s.Step)
			}
			shown = append(shown, kind+": "+strings.Join(steps, " → "))
		}
	}
	if len(shown) == 0 {
		return "–", nil
	}
	return strings.Join(shown, "; "), nil
}

// uploadRow is a row of the table uploads.
type uploadRow struct {
	state               string
	gen, reserved, held int64
}

func (r uploadRow) String() string {
	return fmt.Sprintf("state=%s gen=%d reserved=%s held=%s", r.state, r.gen, size(r.reserved), size(r.held))
}

// readRow reads an upload's row from the database file, beside the server.
func (st *stage) readRow(ctx context.Context, id string) (r uploadRow, err error) {
	err = st.query(ctx, func(db *sqldb.DB) error {
		return db.QueryRow(ctx, "SELECT state, gen, reserved, held FROM uploads WHERE id = ?", id).Scan(&r.state, &r.gen, &r.reserved, &r.held)
	})
	return r, err
}

// query reads the database of the cluster, or opens the server's database file for reading.
func (st *stage) query(ctx context.Context, do func(*sqldb.DB) error) error {
	if st.cluster != nil {
		return do(st.cluster.rows)
	}
	db, err := sqldb.Open(ctx, sqldb.Options{Path: filepath.Join(st.server.data, "smartdrive.db"), Look: true})
	if err != nil {
		return err
	}
	return errors.Join(do(db), db.Close())
}

// staged sums what lies in the staging directory: the bytes that the disk holds for it, and the
// directory of the upload when there is only one.
func (st *stage) staged() (bytes int64, shown string, err error) {
	files, dirs := 0, map[string]bool{}
	err = filepath.WalkDir(filepath.Join(st.server.data, "staging"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // of an upload that has just ended
		}
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(st.server.data, filepath.Dir(path))
		dirs[dir] = true
		files++
		bytes += onDisk(info)
		return err
	})
	shown = fmt.Sprintf("%d files, %s", files, size(bytes))
	if only := slices.Collect(maps.Keys(dirs)); len(only) == 1 {
		shown += ", " + only[0]
	}
	return bytes, shown, err
}

// metric reads one counter of the server.
func (st *stage) metric(ctx context.Context, name string) (int64, error) {
	body, err := st.get(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(body) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+" "); ok {
			return strconv.ParseInt(value, 10, 64)
		}
	}
	return 0, fmt.Errorf("the server has no metric %s", name)
}

func (st *stage) get(ctx context.Context, path string) (string, error) {
	_, body, err := send(ctx, http.MethodGet, st.server.url()+path, "", nil)
	return body, err
}

// until repeats look until it says that what it waits for is there; 60 s at most.
func until(ctx context.Context, what string, look func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if there, err := look(); err != nil || there {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, ctx.Err())
		case <-tick.C:
		}
	}
}

// want fails the story when what it tells is not so.
func want(holds bool, format string, args ...any) error {
	if holds {
		return nil
	}
	return fmt.Errorf("not as told: "+format, args...)
}
