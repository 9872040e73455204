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

	"smartdrive/internal/base/drive"
)

// A child is a process that decodes one image and ends. It has no environment, no file and no
// connection of its parent's:
//
//	arguments       size in pixels, memory in bytes, processor time in seconds, orientation
//	standard input  the image
//	standard output 'r' once its limits are set, then 'j' or 'p' and the picture, or '!' and the reason
//
// It ends with code 0 unless a limit ended it. One that does not say 'r' is none: a program without
// this command, or a system that does not set limits.
const kindReady = 'r'

// maxAnswer is more than a picture of the largest of Sizes can take: four bytes a pixel and what
// PNG adds.
const maxAnswer = 8 << 20 // bytes

// errNoChild says that no process could be had that keeps the limits.
var errNoChild = errors.New("no process to decode in")

// apartBySize decodes in a child that may take little; and, if that says it takes more, in one that
// may take all that children have. Only a child looks at the image.
func (m *Maker) apartBySize(ctx context.Context, r *reader, size int) (Thumbnail, error) {
	small := min(m.opt.Small, m.opt.MaxMemory)
	t, err := m.apart(ctx, r, size, small)
	if small == m.opt.MaxMemory || !errors.Is(err, errTooLarge) {
		return t, err
	}
	r.at = 0
	return m.apart(ctx, r, size, m.opt.MaxMemory)
}

// errTooLarge is an image that takes more memory than its child may.
var errTooLarge = errors.New("the decoder takes more memory than it may")

// apart decodes in a child whose decoder may take so much memory. It waits until the children that
// run leave it that much of MaxMemory; who comes first is served first.
func (m *Maker) apart(ctx context.Context, r *reader, size int, memory drive.ByteSize) (Thumbnail, error) {
	began := time.Now()
	err := m.memory.Acquire(ctx, int64(memory))
	r.waited += time.Since(began) // not the image's fault
	if err != nil {
		return Thumbnail{}, err
	}
	defer m.memory.Release(int64(memory))
	limit := limits{memory: memory, time: m.opt.Processor}
	args := slices.Concat(m.opt.Child[1:], limit.args(size), []string{strconv.Itoa(r.orientation)})
	cmd := exec.CommandContext(ctx, m.opt.Child[0], args...) //nolint:gosec // the program that runs here
	var answer, complaint capped
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bufio.NewReaderSize(r, readAhead), &answer, &complaint
	cmd.Env, cmd.SysProcAttr = []string{"GOMAXPROCS=1", "GOTRACEBACK=none"}, alone()
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

// limits are what a child may take.
type limits struct {
	memory drive.ByteSize // by the decoder, beside what every process takes
	time   time.Duration  // of the processor, whole seconds
	file   drive.ByteSize // that it writes; zero: none
}

func (l limits) args(size int) []string {
	return []string{strconv.Itoa(size), strconv.FormatInt(int64(l.memory), 10), strconv.Itoa(int(l.time / time.Second))}
}

// exceeded says why a child did not come to its end.
func (l limits) exceeded(end *os.ProcessState, complaint []byte, err error) error {
	err = fmt.Errorf("decode apart: %w", err)
	switch {
	case outOfMemory.Match(complaint):
		return refused(reasonTooLarge, errors.Join(errTooLarge, err))
	case !end.Exited() && end.UserTime()+end.SystemTime() > l.time/2: // the system counts the two in different ways
		return refused("too-large", err)
	case !end.Exited(): // somebody killed it, perhaps because the machine had no memory left
		return fmt.Errorf("%w: %w", errTooSlow, err)
	}
	return refused("damaged", err)
}

// parse reads what a child answered.
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

const reasonTooLarge = "too-large"

func causeOf(reason string) error {
	if reason == reasonTooLarge {
		return errTooLarge
	}
	return nil
}

// capped keeps what is written to it, up to maxAnswer.
type capped struct{ b []byte }

func (c *capped) Write(p []byte) (int, error) {
	if len(c.b)+len(p) > maxAnswer {
		return 0, io.ErrShortBuffer
	}
	c.b = append(c.b, p...)
	return len(p), nil
}

// Serve is the whole life of a child: it decodes one image and returns the code to end with.
func Serve(args []string, in io.Reader, out io.Writer) int {
	const failed = 1
	if len(args) > 0 && args[0] == confined {
		return become(args[1:], os.Stderr)
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

// outOfMemory is how Go's runtime says it: of the heap, of what it keeps beside that, and of
// threads.
var outOfMemory = regexp.MustCompile(`out of memory|failed to reserve page summary memory|runtime: cannot (allocate|map) |failed to create new OS thread`)
