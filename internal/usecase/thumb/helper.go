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

	"example.org/smartdrive/internal/base/drive"
)

// A helper is a third-party program that renders a picture of a file which no decoder here reads:
// ffmpeg for videos and TIFF, pdftoppm (poppler) for PDFs, heif-convert (libheif) for HEIC. It is
// used if it is installed. Such programs have had vulnerabilities and read files of users, so each
// helper is sandboxed:
//
//   - Before a child executes the helper, it limits memory, processor time and file size
//     (limit_linux.go). It gives up every file except its own directory, programs, libraries and
//     fonts (Landlock), and the system calls for the network and other processes (seccomp). On
//     systems without these there are no helpers.
//   - Its arguments fix the format, so that a file cannot select another parser.
//   - The picture that it writes is untrusted: a child decodes it.
//
// One light helper and one other helper run at a time.

// helper describes a program and the files that it renders, which it recognizes by their first
// bytes.
type helper struct {
	kind string // one of Kinds
	// programs are names to look for; the first one installed is used.
	programs []string
	begins   func(head []byte) bool
	args     func(format string) []string // command line; it reads helperIn and writes helperOut.png
	format   string                       // argument of args
	pieces   bool                         // of a large file, the beginning and the end suffice
	light    bool                         // runs with half of the memory and time, and queues apart from other helpers
}

// helperIn and helperOut name the input and output (without .png) of a helper in its own directory.
const (
	helperIn   = "tmp-in"
	helperOut  = "tmp-out"
	helperSide = 1280 // pixels: the largest of Sizes
)

// helpers returns the helpers that the package knows, installed or not: programs with the files
// they read and their arguments.
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

// isBrand returns a test for ISO base media files (ISO 14496-12, 4.3) whose major brand is one of
// brands.
func isBrand(brands ...string) func([]byte) bool {
	return func(head []byte) bool {
		return len(head) >= 12 && string(head[4:8]) == "ftyp" && slices.Contains(brands, string(head[8:12]))
	}
}

// isMP4 reports whether head begins an ISO base media file that is not a still image.
func isMP4(head []byte) bool {
	return len(head) >= 12 && string(head[4:8]) == "ftyp" && !isBrand("avif", "avis", "mif1", "msf1", "crx ")(head)
}

// isAVI reports whether head, the first bytes of a file, begins an AVI file.
func isAVI(head []byte) bool {
	return len(head) >= 12 && string(head[:4]) == "RIFF" && string(head[8:12]) == "AVI "
}

// installed is a helper whose program was found.
type installed struct {
	helper
	program string // its path, symbolic links resolved
}

// findHelpers returns the helpers whose program lookPath finds, or nil if the system cannot confine
// them.
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

// Kinds returns the kinds of files that installed helpers render: video, pdf, heic, tiff.
func (m *Maker) Kinds() []string {
	kinds := []string{}
	for _, h := range m.helpers {
		if !slices.Contains(kinds, h.kind) {
			kinds = append(kinds, h.kind)
		}
	}
	return kinds
}

// Draws reports whether files of a media type may have a thumbnail: pictures, and files that an
// installed helper reads. Thumbnail may still refuse the file.
func (m *Maker) Draws(mime string) bool {
	kind, _, _ := strings.Cut(mime, "/")
	return kind == "image" || slices.ContainsFunc(m.helpers, func(h installed) bool { return h.kind == kind || mime == "application/"+h.kind })
}

// helperFor reads the beginning of r and rewinds r. It returns the installed helper for such a
// file, and false if there is none. The error is that of reading.
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

// helperOf returns the installed helper for a file that begins with head; false if there is none.
func (m *Maker) helperOf(head []byte) (installed, bool) {
	at := slices.IndexFunc(m.helpers, func(h installed) bool { return h.begins(head) })
	if at < 0 {
		return installed{}, false
	}
	return m.helpers[at], true
}

// helperHead is how many bytes of a file determine its helper.
const helperHead = 16 // bytes

// byHelper renders r with a helper and makes the thumbnail from the result. It fails with
// NoThumbnail if r exceeds MaxFile and the helper needs the whole file.
func (m *Maker) byHelper(ctx context.Context, h installed, r *reader, size int) (t Thumbnail, err error) {
	whole := r.file.Size()
	if whole > m.opt.MaxFile && !h.pieces {
		return Thumbnail{}, refused(reasonTooLarge, nil)
	}
	out, dir, err := m.runHelper(ctx, h, r)
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
	made := &reader{file: localFile{picture, drive.ByteSize(info.Size())}, over: ctx.Err}
	if h.kind == "heic" {
		made.orientation = turnedByEXIF(r.file, dir)
	}
	return m.decode(ctx, made, size)
}

// localFile is a File on the local file system.
type localFile struct {
	*os.File
	size drive.ByteSize
}

// Size returns the size of the file when it was opened.
func (l localFile) Size() drive.ByteSize { return l.size }

// runHelper runs a helper and returns the path of the picture that it wrote, and its directory. The
// caller removes dir, on an error as well unless it is "".
func (m *Maker) runHelper(ctx context.Context, h installed, r *reader) (out, dir string, err error) {
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
	cmd.Stderr, cmd.SysProcAttr = &complaint, childAttr()
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
	made, err := filepath.Glob(filepath.Join(dir, helperOut+"*.png")) // heif-convert numbers several pictures
	if err != nil || len(made) == 0 {
		return "", dir, refused("damaged", fmt.Errorf("%s has made no picture: %.200s", filepath.Base(h.program), complaint.b))
	}
	return made[0], dir, nil
}

// Sizes of the pieces of a large video: the beginning has the first frames, the end may have the
// index.
const (
	firstPiece = 48 << 20 // bytes
	lastPiece  = 16 << 20
)

// copyTo writes the file to path for a helper. With pieces, it copies only the beginning and the
// end of a large file and leaves a hole between them.
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

// confined is the first argument of a child that becomes a helper. It is followed by memory in
// bytes, processor time in seconds, the directory, the program and the program's arguments.
const confined = "confined"

// maxPicture is the largest file that a helper may write.
const maxPicture = 64 << 20 // bytes

// notConfined is the exit code of a child that could not drop its privileges.
const notConfined = 90

// execHelper confines this process and replaces it by the helper that args names. If that fails, it
// writes the reason to complain and returns notConfined.
func execHelper(args []string, complain io.Writer) int {
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
	_, _ = fmt.Fprintln(complain, err) // the exit code reports it as well
	return notConfined
}
