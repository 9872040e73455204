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

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/timer"
)

// OTLP sends steps to a collector of traces: OTLP 1.x over HTTP in JSON, ExportTraceServiceRequest.
//
//	trace    = a timer's key and gen           the same ids wherever a step comes from, so that the
//	  span   = "timer park", armed..applied    steps of several processes make one tree without any
//	    span = "fired", "published", ...       of them knowing another
//
// A library would carry a context from process to process for that, and bring 11.9 MB.
type OTLP struct {
	URL     string // with the path: http://collector:4318/v1/traces
	Version string // of this program
	Client  *http.Client
}

const (
	sendTime    = 5 * time.Second
	maxAnswer   = 4 << 10 // bytes of a collector's answer that are read
	spanInner   = 1       // SPAN_KIND_INTERNAL
	spanSend    = 4       // SPAN_KIND_PRODUCER
	spanReceive = 5       // SPAN_KIND_CONSUMER
	statusError = 2       // STATUS_CODE_ERROR
	serviceName = "smartdrive"
)

// send hands batches to the collector until there are no more. A batch that it does not take is
// lost: traces are a help, and nobody waits for them.
func (r *Recorder) send(ctx context.Context) {
	for steps := range r.out {
		if err := r.opt.Export.post(context.WithoutCancel(ctx), r.opt.Instance, steps); err != nil {
			r.counters.Lost.Add(int64(len(steps)))
			r.opt.Log.WarnContext(ctx, "the collector of traces did not take the steps of timers", "count", len(steps), "error", err)
			continue
		}
		r.counters.Exported.Add(int64(len(steps)))
	}
}

func (o *OTLP) post(ctx context.Context, instance string, steps []noted) error {
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
	_, err = io.Copy(io.Discard, io.LimitReader(res.Body, maxAnswer))
	if closeErr := res.Body.Close(); err == nil {
		err = closeErr
	}
	if err == nil && res.StatusCode/100 != 2 {
		err = fmt.Errorf("the collector answers %s", res.Status)
	}
	return err
}

// The JSON of OTLP: ids in hex, 64-bit numbers as texts.
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

func textOf(key, v string) attribute { return attribute{key, value{String: &v}} }
func numberOf(key string, v int64) attribute {
	return attribute{key, value{Int: strconv.FormatInt(v, 10)}}
}

func (o *OTLP) request(instance string, steps []noted) exportRequest {
	var scope scopeSpans
	scope.Scope.Name = "smartdrive/timer"
	for _, s := range steps {
		if s.Step.Step == timer.Armed {
			continue // where the whole begins
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

// id derives the id of a trace or a span, which is the same in every process.
func (s noted) id(size int, of string) string {
	sum := sha256.Sum256([]byte(s.timer.String() + " " + strconv.FormatInt(s.Gen, 10) + " " + of))
	return hex.EncodeToString(sum[:size])
}

const (
	traceBytes = 16
	spanBytes  = 8
	wholeSpan  = "whole"
)

func (s noted) span() span {
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

// whole is the span that all others belong to. Whoever ends the timer sends it.
func (s noted) whole() span {
	one := s.span()
	one.SpanID, one.Parent, one.Kind = one.Parent, "", spanInner
	one.Name, one.Start = "timer "+s.timer.Kind.String(), nanos(min(s.armed, s.At))
	return one
}

func (s noted) attributes() []attribute {
	all := []attribute{textOf("timer.key", s.timer.String()), numberOf("timer.gen", s.Gen), numberOf("timer.delivery", int64(s.Delivery))}
	if s.Step.Step == timer.Started {
		all = append(all, numberOf("timer.push_backs", s.Queued.PushBacks), textOf("timer.shard", s.Queued.Shard), textOf("timer.slice", s.Queued.Slice))
	}
	return all
}

func nanos(t drive.Time) string { return strconv.FormatInt(t.Std().UnixNano(), 10) }
