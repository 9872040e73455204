package trace

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/timer"
)

// OTLP sends steps to a trace collector: OTLP 1.x over HTTP in JSON, ExportTraceServiceRequest.
//
//	trace    = key and gen of a timer          ids are computed from the timer, so that the spans
//	  span   = "timer park", armed..applied    of several processes form one tree without passing
//	    span = "fired", "published", ...       a context
//
// The official library would pass a context between processes and add 11.9 MB.
type OTLP struct {
	URL     string       // with path: http://collector:4318/v1/traces
	Version string       // version of this program
	Client  *http.Client // nil: http.DefaultClient
}

const (
	sendTime    = 5 * time.Second // limit of one request
	maxReply    = 4 << 10         // bytes of the collector's reply that are read
	spanInner   = 1               // SPAN_KIND_INTERNAL
	spanSend    = 4               // SPAN_KIND_PRODUCER
	spanReceive = 5               // SPAN_KIND_CONSUMER
	statusError = 2               // STATUS_CODE_ERROR
	serviceName = "smartdrive"    // attribute service.name of all spans
)

// send posts batches to the collector until r.out is closed. A batch that fails is lost.
func (r *Recorder) send(ctx context.Context) {
	for steps := range r.out {
		if err := r.opt.Export.post(context.WithoutCancel(ctx), r.opt.Instance, steps); err != nil {
			r.counters.Lost.Add(int64(len(steps)))
			r.opt.Log.WarnContext(ctx, "trace collector did not accept timer steps; they are lost", "count", len(steps), "error", err)
			continue
		}
		r.counters.Exported.Add(int64(len(steps)))
	}
}

// post sends steps to the collector in one request, within sendTime. It fails if the collector
// cannot be reached or answers other than 2xx; it does not retry.
func (o *OTLP) post(ctx context.Context, instance string, steps []pendingStep) error {
	body, err := json.Marshal(o.request(instance, steps))
	if err != nil {
		return fmt.Errorf("encode spans: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, o.URL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	client := o.Client
	if client == nil {
		client = http.DefaultClient
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(res.Body, maxReply))
	if closeErr := res.Body.Close(); err == nil {
		err = closeErr
	}
	if err == nil && res.StatusCode/100 != 2 {
		err = fmt.Errorf("the collector answers %s", res.Status)
	}
	return err
}

// The JSON of OTLP: ids in hex, 64-bit numbers as strings.
type (
	exportRequest struct {
		ResourceSpans []resourceSpans `json:"resourceSpans"`
	}
	resourceSpans struct {
		Resource   resource     `json:"resource"`
		ScopeSpans []scopeSpans `json:"scopeSpans"`
	}
	resource struct {
		Attributes []attribute `json:"attributes"`
	}
	scopeSpans struct {
		Scope struct {
			Name string `json:"name"`
		} `json:"scope"`
		Spans []span `json:"spans"`
	}
	span struct {
		TraceID    string      `json:"traceId"`
		SpanID     string      `json:"spanId"`
		Parent     string      `json:"parentSpanId,omitempty"`
		Name       string      `json:"name"`
		Kind       int         `json:"kind"`
		Start      string      `json:"startTimeUnixNano"`
		End        string      `json:"endTimeUnixNano"`
		Attributes []attribute `json:"attributes"`
		Status     *status     `json:"status,omitempty"`
	}
	status struct {
		Code    int    `json:"code"`
		Message string `json:"message,omitempty"`
	}
	attribute struct {
		Key   string `json:"key"`
		Value value  `json:"value"`
	}
	value struct {
		String *string `json:"stringValue,omitempty"`
		Int    string  `json:"intValue,omitempty"`
	}
)

// textOf returns a string attribute.
func textOf(key, v string) attribute { return attribute{key, value{String: &v}} }

// numberOf returns an integer attribute.
func numberOf(key string, v int64) attribute {
	return attribute{key, value{Int: strconv.FormatInt(v, 10)}}
}

// request returns the body for a batch of steps: a span per step, and one for the whole timer with
// its last step. The step Armed has no span of its own.
func (o *OTLP) request(instance string, steps []pendingStep) exportRequest {
	var scope scopeSpans
	scope.Scope.Name = "smartdrive/timer"
	for _, s := range steps {
		if s.Step.Step == timer.Armed {
			continue // only the start of the whole span
		}
		scope.Spans = append(scope.Spans, s.span())
		if s.Step.Step == timer.Applied || s.Step.Step == timer.Died {
			scope.Spans = append(scope.Spans, s.whole())
		}
	}
	about := []attribute{
		textOf("service.name", serviceName), textOf("service.version", o.Version), textOf("service.instance.id", instance),
	}
	return exportRequest{[]resourceSpans{{Resource: resource{about}, ScopeSpans: []scopeSpans{scope}}}}
}

// id computes the id of a trace or a span, of size bytes in hexadecimal, from the timer, its gen
// and of. Every process computes the same one.
func (s pendingStep) id(size int, of string) string {
	sum := sha256.Sum256([]byte(s.timer.String() + " " + strconv.FormatInt(s.Gen, 10) + " " + of))
	return hex.EncodeToString(sum[:size])
}

const (
	traceBytes = 16      // length of a trace id
	spanBytes  = 8       // length of a span id
	wholeSpan  = "whole" // hashed into the id of the span of the whole timer
)

// span returns the OpenTelemetry span of one step, below the span of the whole timer. Trace and
// span ids are derived from the timer and the step, so that a repeated export yields the same ids.
// A step with a reason gets the status error.
func (s pendingStep) span() span {
	one := span{
		TraceID: s.id(traceBytes, "trace"), Parent: s.id(spanBytes, wholeSpan), Name: string(s.Step.Step), Kind: spanInner,
		SpanID: s.id(spanBytes, fmt.Sprint(s.Step.Step, s.At, s.Delivery, s.Instance)),
		Start:  nanos(min(s.Began, s.At)), End: nanos(s.At), Attributes: s.attributes(),
	}
	switch s.Step.Step {
	case timer.Published:
		one.Kind = spanSend
	case timer.Consumed:
		one.Kind = spanReceive
	default:
	}
	if s.Reason != "" {
		one.Status = &status{statusError, s.Reason}
	}
	return one
}

// whole returns the root span of the timer. The instance that ends the timer sends it.
func (s pendingStep) whole() span {
	one := s.span()
	one.SpanID, one.Parent, one.Kind = one.Parent, "", spanInner
	one.Name, one.Start = "timer "+s.timer.Kind.String(), nanos(min(s.armed, s.At))
	return one
}

// attributes returns the attributes of a step's span.
func (s pendingStep) attributes() []attribute {
	all := []attribute{textOf("timer.key", s.timer.String()), numberOf("timer.gen", s.Gen), numberOf("timer.delivery", int64(s.Delivery))}
	if s.Step.Step == timer.Started {
		all = append(all, numberOf("timer.push_backs", s.Queued.PushBacks), textOf("timer.shard", s.Queued.Shard), textOf("timer.slice", s.Queued.Slice))
	}
	return all
}

// nanos returns a time in Unix nanoseconds.
func nanos(t drive.Time) string { return strconv.FormatInt(t.Std().UnixNano(), 10) }
