//go:build linux

package bench

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// byPassword returns the connection with the password login of WebDAV and Nextcloud clients.
func (w *wire) byPassword() *wire { return w.as("admin") }

// as returns the connection with the password login of a user.
func (w *wire) as(user string) *wire {
	w.auth = "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password)) + "\r\n"
	return w
}

// ask sends a request without a body and reads the response.
func (w *wire) ask(method, path, headers string) (int64, error) {
	if _, err := fmt.Fprintf(w.conn, "%s %s HTTP/1.1\r\nHost: %s\r\n%s%sContent-Length: 0\r\n\r\n", method, path, w.host, w.auth, headers); err != nil {
		return 0, err
	}
	resp, err := http.ReadResponse(w.in, nil)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	if err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s", method, path, resp.Status)
	}
	return n, err
}

// BenchmarkPropfind lists a folder of 10,000 files by WebDAV and like Nextcloud clients, and
// measures the memory. Goal: below 300 ms, and memory that does not grow with the listing.
func BenchmarkPropfind(b *testing.B) {
	const files, conns, times = 10_000, 8, 11
	s := startReal(b, b.TempDir())
	s.call(b, "POST", "/nodes", map[string]any{"path": "/d", "type": "folder"}, nil)
	var all sync.WaitGroup
	for c := range conns {
		all.Go(func() {
			w := dial(b, s)
			defer w.conn.Close()
			for n := c; n < files; n += conns {
				if err := w.put(fmt.Sprintf("/api/v1/files/d/file-%05d", n), []byte{byte(n), byte(n >> 8)}, 1); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	w := dial(b, s).byPassword()
	before := s.counter(b, "status", "VmHWM")
	rows := [][]any{{"", "median ms", "largest ms", "MiB of the answer"}}
	for b.Loop() {
		for _, path := range []string{"/dav/files/d/", "/remote.php/dav/files/admin/d/"} {
			var took []time.Duration
			var size int64
			for range times {
				start := time.Now()
				n, err := w.ask("PROPFIND", path, "Depth: 1\r\n")
				must(b, err)
				took, size = append(took, time.Since(start)), n
			}
			slices.Sort(took)
			rows = append(rows, []any{path, digits(ms(took[times/2])), digits(ms(took[times-1])), digits(float64(size) / mib)})
			b.ReportMetric(ms(took[times/2]), strings.Split(path, "/")[1]+"-ms")
		}
	}
	after := s.counter(b, "status", "VmHWM")
	rows = append(rows, []any{"memory of the server before and at the most, MiB", digits(float64(before) / 1024), digits(float64(after) / 1024), ""})
	table(b, "PROPFIND of 10,000 files", rows...)
	b.ReportMetric(0, "ns/op")
}

// BenchmarkDAVPut sends 1 GiB in one PUT by WebDAV and by the native API. Goal: 0.9 of the native
// rate.
func BenchmarkDAVPut(b *testing.B) {
	real := startReal(b, b.TempDir())
	body := noise(partSize)
	put := func(path string, by func(*wire) *wire) run {
		w := by(dial(b, real))
		defer w.conn.Close()
		r := measure(b, real, func() { must(b, w.put(path, body, fileSize/partSize)) })
		real.deleteAll(b)
		real.waitUnlinked(b)
		return r
	}
	var native, dav column
	for b.Loop() {
		for round := range rounds(5) + 1 {
			send := []func(){
				func() { native.add(put("/api/v1/files/whole", func(w *wire) *wire { return w })) },
				func() { dav.add(put("/dav/files/whole", (*wire).byPassword)) },
			}
			for i := range send {
				warm(b, real.data)
				send[(i+round)%len(send)]()
			}
			if round == 0 { // warm-up
				native, dav = column{}, column{}
			}
		}
	}
	table(b, "1 GiB in one PUT",
		[]any{"", "MiB/s", "CPU s/GiB", "rate, of native", "CPU, of native"},
		[]any{"native PUT", native.rate, native.cpu, "", ""},
		[]any{"WebDAV PUT", dav.rate, dav.cpu, dav.rate.over(native.rate), dav.cpu.over(native.cpu)},
	)
	b.ReportMetric(dav.rate.over(native.rate).median(), "rate-ratio")
	b.ReportMetric(dav.cpu.over(native.cpu).median(), "cpu-ratio")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkChunks sends 1 GiB like a Nextcloud client, in chunks of 8 MiB, and times the MOVE that
// creates the file; then 5 GiB, once. Goal: below 100 ms.
func BenchmarkChunks(b *testing.B) {
	for _, c := range []struct{ gib, times int }{{1, rounds(5)}, {5, 1}} {
		b.Run(fmt.Sprintf("%dGiB", c.gib), func(b *testing.B) {
			if testing.Short() && c.gib > 1 {
				b.Skip("5 GiB")
			}
			real := startReal(b, b.TempDir())
			var rate, move sample
			for b.Loop() {
				for range c.times {
					sendChunks(b, real, c.gib, &rate, &move)
				}
			}
			table(b, fmt.Sprintf("%d GiB in chunks of 8 MiB over one connection", c.gib), []any{"MiB/s", rate}, []any{"MOVE of .file, ms (below 100)", move})
			b.ReportMetric(move.median(), "move-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// sendChunks sends a file in chunks and adds the rate and the duration of the MOVE to the samples.
func sendChunks(b *testing.B, s *server, gib int, rate, move *sample) {
	b.Helper()
	body := noise(partSize)
	const id, to = "/remote.php/dav/uploads/admin/t", "Destination: /remote.php/dav/files/admin/whole\r\n"
	size := gib << 30
	warm(b, s.data) // may outlast an idle connection, so it precedes dial
	w := dial(b, s).byPassword()
	defer w.conn.Close()
	start := time.Now()
	_, err := w.ask("MKCOL", id, to)
	must(b, err)
	for n := range size / partSize {
		must(b, w.put(fmt.Sprintf("%s/%05d", id, n+1), body, 1))
	}
	sent := time.Now()
	_, err = w.ask("MOVE", id+"/.file", fmt.Sprintf("%sOC-Total-Length: %d\r\n", to, size))
	must(b, err)
	move.add(ms(time.Since(sent)))
	rate.add(float64(size) / mib / time.Since(start).Seconds())
	s.deleteAll(b)
	s.waitUnlinked(b)
}

// BenchmarkPoll has 50 clients of 50 users poll their drives of 10,000 folders each, like the
// desktop client: PROPFIND of the root with Depth 0, each client every 30 s, evenly distributed. It
// reports the server's processor time per period as a share of one core: without polls, with polls
// when nothing has changed, and when each drive has a new file since the last poll. With -short,
// five users poll in a tenth of the time.
func BenchmarkPoll(b *testing.B) {
	const folders = 10_000
	clients, every := 50, 30*time.Second
	if testing.Short() {
		clients, every = 5, 3*time.Second
	}
	s := startReal(b, b.TempDir())
	start := time.Now()
	users := plantDrives(b, s, clients, folders)
	b.Logf("%d users: %d folders in %s", clients, clients*folders, time.Since(start).Round(time.Second))
	rows := [][]any{{"", "CPU of a look, ms", "slowest, ms", "CPU of a core, %"}}
	for b.Loop() {
		share := func(d time.Duration) float64 { return 100 * d.Seconds() / every.Seconds() }
		var idle, rest, restLook, restSlow, busy, busyLook, busySlow sample
		users.look(b, s, 0) // warm the caches
		for round := range rounds(3) {
			before := s.cpu(b)
			<-time.After(every)
			quiet := s.cpu(b) - before
			idle.add(share(quiet))
			spent, slowest := users.look(b, s, every)
			rest.add(share(spent))
			restLook.add(ms(max(0, spent-quiet)) / float64(clients))
			restSlow.add(ms(slowest))
			for _, u := range users {
				must(b, u.native(b).put(fmt.Sprintf("/api/v1/files/top0/new%d", round), []byte("x"), 1))
			}
			spent, slowest = users.look(b, s, every)
			busy.add(share(spent))
			busyLook.add(ms(max(0, spent-quiet)) / float64(clients))
			busySlow.add(ms(slowest))
		}
		rows = append(rows, []any{"nobody looks", "", "", idle}, []any{"nothing has changed", restLook, restSlow, rest},
			[]any{"a file has come to each drive", busyLook, busySlow, busy})
		b.ReportMetric(rest.median(), "core-%")
		b.ReportMetric(busy.median(), "core-%-changed")
	}
	rows = append(rows, []any{"memory of the server at the most, MiB", digits(float64(s.counter(b, "status", "VmHWM")) / 1024), "", ""})
	table(b, fmt.Sprintf("%d clients, 10,000 folders each, a look every %s", clients, every), rows...)
	b.ReportMetric(0, "ns/op")
}

// looker is a user whose client polls the drive.
type looker struct {
	*server
	name string
}

// native returns a new connection to the API, because idle connections are closed.
func (l looker) native(b *testing.B) *wire { return dial(b, l.server) }

type lookers []looker

// plantDrives creates users with the given number of folders each.
func plantDrives(b *testing.B, s *server, clients, folders int) lookers {
	users := make(lookers, clients)
	var all sync.WaitGroup
	turns := make(chan struct{}, 4)
	for c := range users {
		name := fmt.Sprintf("user%d", c)
		users[c] = looker{s.user(b, name), name}
		all.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			if err := users[c].plant(folders); err != nil {
				b.Error(err)
			}
		})
	}
	all.Wait()
	return users
}

// look has each client poll once, spread over a period. It returns the server's processor time
// within the period, and the slowest poll.
func (all lookers) look(b *testing.B, s *server, period time.Duration) (spent, slowest time.Duration) {
	b.Helper()
	before, start := s.cpu(b), time.Now()
	for c, u := range all {
		<-time.After(time.Until(start.Add(period * time.Duration(c) / time.Duration(len(all)))))
		conn := dial(b, u.server).as(u.name) // new, because a connection that is idle for 10 s is closed
		began := time.Now()
		_, err := conn.ask("PROPFIND", "/remote.php/dav/files/"+u.name+"/", "Depth: 0\r\n")
		must(b, err)
		slowest = max(slowest, time.Since(began))
	}
	<-time.After(time.Until(start.Add(period)))
	return s.cpu(b) - before, slowest
}

// plant creates folders: 100 at the root, the others inside these.
func (s *server) plant(folders int) error {
	const tops = 100
	var body bytes.Buffer
	for n := range folders {
		path := fmt.Sprintf("/top%d", n)
		if n >= tops {
			path = fmt.Sprintf("/top%d/folder %d", n%tops, n)
		}
		fmt.Fprintf(&body, `{"op":"folder","path":%q}`+"\n", path)
		if (n+1)%perBatch == 0 {
			if err := s.sendBatch(body.Bytes()); err != nil {
				return err
			}
			body.Reset()
		}
	}
	return nil
}
