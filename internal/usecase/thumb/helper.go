package thumb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"smartdrive/internal/base/drive"
)

// A helper is a program of somebody else's that makes a picture of a file which no decoder here
// reads: ffmpeg of videos and TIFF, pdftoppm (poppler) of PDFs, heif-convert (libheif) of HEIC. It
// is used where it is installed; it is the user's file that it reads, and such programs have had
// holes, so it is fenced in:
//
//   - The child that becomes the helper gives up, before it does: memory, processor time and the size
//     of files beyond its limits (limit_linux.go); every file but its own directory, programs,
//     libraries and fonts (Landlock); the network and what reaches other processes (seccomp). Where
//     the system cannot take these away there are no helpers.
//   - It is told which format it reads, so that no file makes it read another one.
//   - What it leaves is a picture like that of a stranger: a child decodes it.
//
// Of those that are light one runs at a time, and one of the others.

// helper is a program for files that begin in a way.
type helper struct {
	kind     string // as Kinds says it
	programs []string
	begins   func(head []byte) bool
	args     func(format string) []string // the file is called in, the picture out.png
	format   string                       // for args
	pieces   bool                         // its beginning and its end are enough of a large file
	light    bool                         // half of the memory and of the time is enough, and its turns are its own
}

// helperIn and helperOut are the files of a helper, in a directory of its own.
const (
	helperIn   = "tmp-in"
	helperOut  = "tmp-out"
	helperSide = 1280 // pixels: the largest of Sizes
)

func helpers() []helper {
	ffmpeg, side := []string{"ffmpeg"}, strconv.Itoa(helperSide)
	frame := func(format string) []string {
		return []string{
			"-nostdin", "-hide_banner", "-loglevel", "error", "-protocol_whitelist", "file", "-threads", "1", "-f", format, "-i", helperIn, "-map", "0:v:0",
			"-frames:v", "1", "-vf", "thumbnail=24,scale='min(" + side + ",iw)':-2", "-f", "image2", "-update", "1", helperOut + ".png",
		}
	}
	return []helper{
		{"heic", []string{"heif-convert", "heif-dec"}, isBrand("heic", "heix", "heim", "heis", "mif1", "msf1"), func(string) []string {
			return []string{"--with-exif", "--skip-exif-offset", helperIn, helperOut + ".png"}
		}, "", false, false},
		{"video", ffmpeg, isMP4, frame, "mov", true, false},
		{"video", ffmpeg, starts("\x1aE\xdf\xa3"), frame, "matroska", true, false},
		{"video", ffmpeg, isAVI, frame, "avi", true, false},
		{"tiff", ffmpeg, func(head []byte) bool { return starts("II*\x00")(head) || starts("MM\x00*")(head) }, frame, "tiff_pipe", false, false},
		{"pdf", []string{"pdftoppm"}, starts("%PDF-"), func(string) []string {
			return []string{"-png", "-singlefile", "-f", "1", "-l", "1", "-scale-to", side, helperIn, helperOut}
		}, "", false, true},
	}
}

// isBrand says of an ISO base media file (ISO 14496-12, 4.3) whether its first brand is one of
// these.
func isBrand(brands ...string) func([]byte) bool {
	return func(head []byte) bool {
		return len(head) >= 12 && string(head[4:8]) == "ftyp" && slices.Contains(brands, string(head[8:12]))
	}
}

func isMP4(head []byte) bool {
	return len(head) >= 12 && string(head[4:8]) == "ftyp" && !isBrand("avif", "avis", "mif1", "msf1", "crx ")(head)
}

func isAVI(head []byte) bool {
	return len(head) >= 12 && string(head[:4]) == "RIFF" && string(head[8:12]) == "AVI "
}

// installed is a helper whose program is there.
type installed struct {
	helper
	program string // its path, without links
}

// findHelpers looks which helpers there are on a search path.
func findHelpers(lookPath func(string) (string, error)) (found []installed) {
	if !canConfine() {
		return nil
	}
	for _, h := range helpers() {
		for _, name := range h.programs {
			path, err := lookPath(name)
			if err != nil {
				continue
			}
			if path, err = filepath.EvalSymlinks(path); err == nil {
				found = append(found, installed{h, path})
				break
			}
		}
	}
	return found
}

// Kinds are the kinds of files, besides images, that there are helpers for: video, pdf, heic, tiff.
func (m *Maker) Kinds() []string {
	kinds := []string{}
	for _, h := range m.helpers {
		if !slices.Contains(kinds, h.kind) {
			kinds = append(kinds, h.kind)
		}
	}
	return kinds
}

// Draws reports whether it is worth to ask for the thumbnail of a file with a media type.
func (m *Maker) Draws(mime string) bool {
	kind, _, _ := strings.Cut(mime, "/")
	return kind == "image" || slices.ContainsFunc(m.helpers, func(h installed) bool { return h.kind == kind || mime == "application/"+h.kind })
}

// helperFor is helperOf for a file that was not read yet; it leaves it at its beginning.
func (m *Maker) helperFor(r *reader) (h installed, ok bool, err error) {
	head := make([]byte, helperHead)
	n, err := io.ReadFull(r, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return installed{}, false, err
	}
	r.at = 0
	h, ok = m.helperOf(head[:n])
	return h, ok, nil
}

// helperOf returns the helper for a file that begins like this.
func (m *Maker) helperOf(head []byte) (installed, bool) {
	at := slices.IndexFunc(m.helpers, func(h installed) bool { return h.begins(head) })
	if at < 0 {
		return installed{}, false
	}
	return m.helpers[at], true
}

// helperHead is how much of a file says which helper it is for.
const helperHead = 16 // bytes

// byHelper has a helper make a picture of a file, and makes the thumbnail of that.
func (m *Maker) byHelper(ctx context.Context, h installed, r *reader, size int) (t Thumbnail, err error) {
	whole := r.file.Size()
	if whole > m.opt.MaxFile && !h.pieces {
		return Thumbnail{}, refused(reasonTooLarge, nil)
	}
	out, dir, err := m.helped(ctx, h, r)
	if dir != "" {
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	if err != nil {
		return Thumbnail{}, err
	}
	picture, err := os.Open(out) //nolint:gosec // in the directory that was made for it
	if err != nil {
		return Thumbnail{}, err
	}
	defer func() { err = errors.Join(err, picture.Close()) }()
	info, err := picture.Stat()
	if err != nil {
		return Thumbnail{}, err
	}
	made := &reader{file: local{picture, drive.ByteSize(info.Size())}, over: ctx.Err}
	if h.kind == "heic" {
		made.orientation = turnedByEXIF(r.file, dir)
	}
	return m.decode(ctx, made, size)
}

// local is a file of this machine.
type local struct {
	*os.File
	size drive.ByteSize
}

// Size implements File.
func (l local) Size() drive.ByteSize { return l.size }

// helped runs a helper and returns the picture that it has made, in a directory that the caller
// removes.
func (m *Maker) helped(ctx context.Context, h installed, r *reader) (out, dir string, err error) {
	if m.opt.Dir != "" {
		if err := os.MkdirAll(m.opt.Dir, 0o700); err != nil {
			return "", "", err
		}
	}
	if dir, err = os.MkdirTemp(m.opt.Dir, "tmp-helper-"); err != nil {
		return "", "", err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", dir, err
	}
	if err := r.copyTo(filepath.Join(dir, helperIn), h.pieces); err != nil {
		return "", dir, err
	}
	limit := limits{memory: m.opt.HelperMemory, time: m.opt.Processor}
	if h.light {
		limit.memory, limit.time = limit.memory/2, max(limit.time/2, time.Second)
	}
	args := slices.Concat(m.opt.Child[1:], []string{confined}, limit.args(helperSide)[1:], []string{dir, h.program}, h.args(h.format))
	cmd := exec.CommandContext(ctx, m.opt.Child[0], args...) //nolint:gosec // the program that runs here
	var complaint capped
	cmd.Stderr, cmd.SysProcAttr = &complaint, alone()
	cmd.Env = []string{"GOMAXPROCS=1", "GOTRACEBACK=none", "LC_ALL=C.UTF-8", "HOME=" + dir, "TMPDIR=" + dir}
	if err := cmd.Start(); err != nil {
		return "", dir, fmt.Errorf("%w: %w", errTooSlow, err)
	}
	err = cmd.Wait()
	m.Counters.Helped.Add(1)
	switch {
	case ctx.Err() != nil:
		return "", dir, ctx.Err()
	case cmd.ProcessState.ExitCode() == notConfined:
		return "", dir, fmt.Errorf("%w: %s", errTooSlow, complaint.b)
	case err != nil:
		return "", dir, limit.exceeded(cmd.ProcessState, complaint.b, err)
	}
	made, err := filepath.Glob(filepath.Join(dir, helperOut+"*.png")) // of several pictures each has a number
	if err != nil || len(made) == 0 {
		return "", dir, refused("damaged", fmt.Errorf("%s has made no picture: %.200s", filepath.Base(h.program), complaint.b))
	}
	return made[0], dir, nil
}

// The pieces of a large video: where its frames begin, and where its index may be.
const (
	firstPiece = 48 << 20 // bytes
	lastPiece  = 16 << 20
)

// copyTo writes the file to where a helper reads it, or of a large one the beginning and the end,
// with a hole between them.
func (r *reader) copyTo(path string, pieces bool) (err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size := int64(r.file.Size())
	if !pieces || size <= firstPiece+lastPiece {
		_, err = io.Copy(f, r)
		return err
	}
	if err := f.Truncate(size); err != nil {
		return err
	}
	if _, err := io.CopyN(f, r, firstPiece); err != nil {
		return err
	}
	if _, err := f.Seek(size-lastPiece, io.SeekStart); err != nil {
		return err
	}
	r.at = size - lastPiece
	_, err = io.Copy(f, r)
	return err
}

// confined is the first argument of a child that becomes a helper; behind it stand its memory in
// bytes, its processor time in seconds, its directory, the program and its arguments.
const confined = "confined"

// maxPicture is how large a file of a helper may become.
const maxPicture = 64 << 20 // bytes

// notConfined is the code that a child ends with which could not give up what it must.
const notConfined = 90

// become confines this process and turns it into a helper. It returns only when it cannot.
func become(args []string, complain io.Writer) int {
	err := func() error {
		if len(args) < 4 {
			return fmt.Errorf("%d arguments", len(args))
		}
		memory, err := strconv.ParseInt(args[0], 10, 64)
		if err != nil {
			return err
		}
		seconds, err := strconv.Atoi(args[1])
		if err != nil {
			return err
		}
		return confine(limits{drive.ByteSize(memory), time.Duration(seconds) * time.Second, maxPicture}, args[2], args[3:])
	}()
	_, _ = fmt.Fprintln(complain, err) // the code says it, too
	return notConfined
}
