package thumb

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"time"

	"example.org/smartdrive/internal/base/drive"
)

// kindReady is the first byte that a child writes. A child is a process that decodes one image and
// exits. It inherits no environment, file or connection:
//
//	arguments       size in pixels, memory in bytes, processor time in seconds, orientation
//	standard input  the image
//	standard output 'r' once its limits are set, then 'j' or 'p' and the picture, or '!' and the reason
//
// It exits with code 0 unless a limit killed it. If 'r' is missing, the program lacks this command
// or the system cannot set limits, and the caller decodes without a child.
const kindReady = 'r'

// maxAnswer bounds the output of a child. It exceeds the largest PNG of any of Sizes: four bytes a
// pixel and the overhead of PNG.
const maxAnswer = 8 << 20 // bytes

// errNoChild reports that no child could be started with its limits set.
var errNoChild = errors.New("no process to decode in")

// decodeInChild decodes r in a child limited to Small bytes of memory. If that is not enough, it
// retries in one limited to MaxMemory. The server itself never parses the image.
func (m *Maker) decodeInChild(ctx context.Context, r *reader, size int) (Thumbnail, error) {
	small := min(m.opt.Small, m.opt.MaxMemory)
	t, err := m.decodeInChildWith(ctx, r, size, small)
	if small == m.opt.MaxMemory || !errors.Is(err, errTooLarge) {
		return t, err
	}
	r.at = 0
	return m.decodeInChildWith(ctx, r, size, m.opt.MaxMemory)
}

// errTooLarge reports that the decoder needs more memory than its child may use.
var errTooLarge = errors.New("the decoder takes more memory than it may")

// decodeInChildWith decodes r in a child whose decoder may use the given memory. It first waits,
// first come, first served, until the running children leave that much of MaxMemory. On errNoChild
// r is rewound.
func (m *Maker) decodeInChildWith(ctx context.Context, r *reader, size int, memory drive.ByteSize) (Thumbnail, error) {
	began := time.Now()
	err := m.memory.Acquire(ctx, int64(memory))
	r.waited += time.Since(began) // does not count against the image
	if err != nil {
		return Thumbnail{}, err
	}
	defer m.memory.Release(int64(memory))
	limit := limits{memory: memory, time: m.opt.Processor}
	args := slices.Concat(m.opt.Child[1:], limit.args(size), []string{strconv.Itoa(r.orientation)})
	cmd := exec.CommandContext(ctx, m.opt.Child[0], args...) //nolint:gosec // the program that runs here
	var answer, complaint capped
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bufio.NewReaderSize(r, readAhead), &answer, &complaint
	cmd.Env, cmd.SysProcAttr = []string{"GOMAXPROCS=1", "GOTRACEBACK=none"}, childAttr()
	if err := cmd.Start(); err != nil {
		return Thumbnail{}, errors.Join(errNoChild, err)
	}
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return Thumbnail{}, ctx.Err()
	case r.failed != nil:
		return Thumbnail{}, r.failed
	case !bytes.HasPrefix(answer.b, []byte{kindReady}):
		r.at = 0
		return Thumbnail{}, errors.Join(errNoChild, err)
	case err != nil:
		return Thumbnail{}, limit.exceeded(cmd.ProcessState, complaint.b, err)
	}
	return parse(answer.b[1:])
}

// limits are the resource limits of a child.
type limits struct {
	memory drive.ByteSize // of the decoder, on top of the overhead of the process
	time   time.Duration  // processor time, whole seconds
	file   drive.ByteSize // largest file it may write; zero: it may write none
}

// args returns the first three arguments of a child; parseArgs reads them.
func (l limits) args(size int) []string {
	return []string{strconv.Itoa(size), strconv.FormatInt(int64(l.memory), 10), strconv.Itoa(int(l.time / time.Second))}
}

// exceeded classifies the failure of a child: NoThumbnail {too-large} for a memory or time limit,
// errTooSlow if another signal killed it, else NoThumbnail {damaged}.
func (l limits) exceeded(end *os.ProcessState, complaint []byte, err error) error {
	err = fmt.Errorf("decode apart: %w", err)
	switch {
	case outOfMemory.Match(complaint):
		return refused(reasonTooLarge, errors.Join(errTooLarge, err))
	case !end.Exited() && end.UserTime()+end.SystemTime() > l.time/2: // half: rlimit and rusage count processor time differently
		return refused("too-large", err)
	case !end.Exited(): // another signal, perhaps the OOM killer
		return fmt.Errorf("%w: %w", errTooSlow, err)
	}
	return refused("damaged", err)
}

// parse decodes the output of a child after 'r': a thumbnail, or the NoThumbnail error that it
// reports.
func parse(answer []byte) (Thumbnail, error) {
	if len(answer) > 0 {
		switch content := answer[1:]; answer[0] {
		case kindJPEG:
			return Thumbnail{"image/jpeg", content}, nil
		case kindPNG:
			return Thumbnail{"image/png", content}, nil
		case kindNone:
			return Thumbnail{}, refused(string(content), causeOf(string(content)))
		}
	}
	return Thumbnail{}, refused("damaged", errors.New("the child answered nothing"))
}

// reasonTooLarge is the NoThumbnail reason for too many pixels, bytes or too much memory or time.
const reasonTooLarge = "too-large"

// causeOf returns errTooLarge for the reason too-large, so that decodeInChild can retry, and else
// nil.
func causeOf(reason string) error {
	if reason == reasonTooLarge {
		return errTooLarge
	}
	return nil
}

// capped is a writer that stores up to maxAnswer bytes and fails beyond that.
type capped struct{ b []byte }

// Write appends p to b. It returns io.ErrShortBuffer, and appends nothing, if b would exceed
// maxAnswer.
func (c *capped) Write(p []byte) (int, error) {
	if len(c.b)+len(p) > maxAnswer {
		return 0, io.ErrShortBuffer
	}
	c.b = append(c.b, p...)
	return len(p), nil
}

// Serve is the main function of a child and returns its exit code. args are described at kindReady,
// or begin with confined, in which case the process turns into a helper.
func Serve(args []string, in io.Reader, out io.Writer) int {
	const failed = 1
	if len(args) > 0 && args[0] == confined {
		return execHelper(args[1:], os.Stderr)
	}
	size, turn, limit, err := parseArgs(args)
	if err == nil {
		err = limit.set()
	}
	if err != nil {
		return failed
	}
	if _, err := out.Write([]byte{kindReady}); err != nil {
		return failed
	}
	t, err := picture(context.Background(), in, size, turn, limit.memory)
	if _, err := out.Write(answer(t, err)); err != nil {
		return failed
	}
	return 0
}

// answer encodes a thumbnail, or the reason of a refusal, as the output of a child. An error other
// than a refusal becomes the reason "damaged".
func answer(t Thumbnail, err error) []byte {
	var refusal *drive.Error
	switch {
	case errors.As(err, &refusal):
		reason, _ := refusal.Args["reason"].(string)
		return append([]byte{kindNone}, reason...)
	case err != nil:
		return append([]byte{kindNone}, "damaged"...)
	case t.Type == "image/png":
		return append([]byte{kindPNG}, t.Body...)
	}
	return append([]byte{kindJPEG}, t.Body...)
}

// parseArgs reads the arguments of a child: side of the thumbnail, memory, seconds and orientation,
// which it returns as turn. It fails unless there are exactly these four integers.
func parseArgs(args []string) (size, turn int, limit limits, err error) {
	var numbers [4]int64
	if len(args) != len(numbers) {
		return 0, 0, limits{}, fmt.Errorf("%d arguments", len(args))
	}
	for i, text := range args {
		if numbers[i], err = strconv.ParseInt(text, 10, 64); err != nil {
			return 0, 0, limits{}, err
		}
	}
	return int(numbers[0]), int(numbers[3]), limits{memory: drive.ByteSize(numbers[1]), time: time.Duration(numbers[2]) * time.Second}, nil
}

// outOfMemory matches the messages with which Go's runtime dies when memory runs out: for the heap,
// for its own tables, or for a thread.
var outOfMemory = regexp.MustCompile(`out of memory|failed to reserve page summary memory|runtime: cannot (allocate|map) |failed to create new OS thread`)
