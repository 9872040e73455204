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

	"example.org/smartdrive/client"
	"example.org/smartdrive/internal/engine/sqldb"
)

// harness is the environment of a story: one server or a cluster of two, an administrator's client,
// and a directory for local files.
type harness struct {
	printer
	dir     string
	server  *server
	second  *server  // the second instance of a cluster; nil: one server
	cluster *cluster // nil: one server
	admin   *client.Client
}

// open starts the servers that are not running and logs the administrator in.
func (h *harness) open(ctx context.Context) (err error) {
	switch {
	case h.cluster != nil:
		err = h.restartKilled(ctx)
	case h.o.Services != nil:
		if h.cluster, err = newCluster(ctx, *h.o.Services); err == nil {
			err = h.startCluster(ctx)
		}
	default:
		if h.server, err = newServer(ctx, h.o.Binary, filepath.Join(h.dir, "data"), h.idle()); err == nil {
			err = h.server.start(ctx)
		}
	}
	if err == nil {
		h.admin, err = h.server.logInAdmin(ctx)
	}
	return err
}

// close kills the servers and removes the cluster's data from the services.
func (h *harness) close(ctx context.Context) error {
	h.server.kill()
	h.second.kill()
	if h.cluster == nil {
		return nil
	}
	return h.cluster.remove(ctx)
}

// idle returns the idle limit of uploads: 5 s as in the write-up, 1 s with Options.Fast. In a
// cluster it is always 5 s, because parts are larger and an upload must not become idle between two
// of them.
func (h *harness) idle() time.Duration {
	if h.o.Fast && h.o.Services == nil {
		return time.Second
	}
	return 5 * time.Second
}

// password is the password of every user of the demo.
const password = "seven velvet otters count kites"

// addUser creates a user with a quota in bytes and returns a logged-in client.
func (h *harness) addUser(ctx context.Context, name string, quota int64) (client.User, *client.Client, error) {
	u, err := h.admin.CreateUser(ctx, client.NewUser{Name: name, Password: password, Total: &client.Quota{Bytes: quota}})
	if err != nil {
		return u, nil, err
	}
	api, err := h.server.logInAs(ctx, name, password)
	return u, api, err
}

// ledgerText returns the ledger of a user's account and a text of it. user is the user's id.
func (h *harness) ledgerText(ctx context.Context, user string) (client.Ledger, string, error) {
	l, err := h.admin.UserLedger(ctx, user)
	if err != nil {
		return l, "", err
	}
	return l, fmt.Sprintf("total %s, finished %s, unfinished %s, reserved %s", size(*l.Total), size(l.Finished), size(l.Unfinished), size(l.Reserved)), nil
}

// timerView is a timer and its trace as the admin API returns them.
type timerView struct {
	Pending   bool
	Due       *time.Time
	Shard     string
	Slice     string
	PushBacks int64 `json:"push_backs"`
	Trace     []timerStep
}

// timerStep is a step in the trace of a timer.
type timerStep struct {
	Step, Instance, Shard, Slice string
	PushBacks                    int64 `json:"push_backs"`
}

// timer returns the timer of an upload, the zero value if there is none.
func (h *harness) timer(ctx context.Context, kind, upload string) (t timerView, err error) {
	raw, err := h.admin.Timer(ctx, kind+"/"+upload)
	if client.CodeOf(err) == client.CodeNotFound {
		return t, nil
	}
	if err != nil {
		return t, err
	}
	return decode[timerView](raw)
}

// timerText formats the two timers of an upload: the one that parks it, and the one that deletes it
// when abandoned.
func (h *harness) timerText(ctx context.Context, upload string) (string, error) {
	var shown []string
	for _, kind := range []string{"park", "abandon"} {
		timer, err := h.timer(ctx, kind, upload)
		if err != nil {
			return "", err
		}
		if timer.Pending && timer.Due != nil {
			shown = append(shown, fmt.Sprintf(h.translate(bilingual{"%s: due in %s", "%s：%s后到期"}), kind, h.duration(time.Until(*timer.Due))))
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

// String returns the row's fields as text.
func (r uploadRow) String() string {
	return fmt.Sprintf("state=%s gen=%d reserved=%s held=%s", r.state, r.gen, size(r.reserved), size(r.held))
}

// readRow reads the row of an upload from the database. It fails if there is no such row.
func (h *harness) readRow(ctx context.Context, id string) (r uploadRow, err error) {
	err = h.query(ctx, func(db *sqldb.DB) error {
		return db.QueryRow(ctx, "SELECT state, gen, reserved, held FROM uploads WHERE id = ?", id).Scan(&r.state, &r.gen, &r.reserved, &r.held)
	})
	return r, err
}

// query calls do with the cluster's database, or with the server's database file opened for
// reading.
func (h *harness) query(ctx context.Context, do func(*sqldb.DB) error) error {
	if h.cluster != nil {
		return do(h.cluster.db)
	}
	db, err := sqldb.Open(ctx, sqldb.Options{Path: filepath.Join(h.server.data, "smartdrive.db"), ReadOnly: true})
	if err != nil {
		return err
	}
	return errors.Join(do(db), db.Close())
}

// stagingUsage returns the disk usage of the staging directory in bytes and as text. The text names
// the upload's directory if there is only one.
func (h *harness) stagingUsage() (bytes int64, shown string, err error) {
	files, dirs := 0, map[string]bool{}
	err = filepath.WalkDir(filepath.Join(h.server.data, "staging"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the upload has just ended
		}
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(h.server.data, filepath.Dir(path))
		dirs[dir] = true
		files++
		bytes += onDisk(info)
		return err
	})
	shown = fmt.Sprintf(h.translate(bilingual{"%d files, %s", "%d 个文件，%s"}), files, size(bytes))
	if only := slices.Collect(maps.Keys(dirs)); len(only) == 1 {
		shown += ", " + only[0]
	}
	return bytes, shown, err
}

// metric returns the value of one counter of the first server. It fails if the server has no such
// metric.
func (h *harness) metric(ctx context.Context, name string) (int64, error) {
	body, err := h.get(ctx, "/metrics")
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

// get returns the body of a GET request to the first server, whatever its status.
func (h *harness) get(ctx context.Context, path string) (string, error) {
	_, body, err := request(ctx, http.MethodGet, h.server.url()+path, "", nil)
	return body, err
}

// waitUntil polls look until it returns true or an error. It fails after 60 s.
func waitUntil(ctx context.Context, what string, look func() (bool, error)) error {
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

// expect returns an error with the formatted text if holds is false, which fails the story.
func expect(holds bool, format string, args ...any) error {
	if holds {
		return nil
	}
	return fmt.Errorf("not as told: "+format, args...)
}
