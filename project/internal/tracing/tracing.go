// Package tracing exports the log of a boulder as one OpenTelemetry trace, with the conventions for generative AI
// (0.1.0, in names that semconv 1.41.0 has too), but without prompts, answers and outputs.
package tracing

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/bouldermgr/manager/boulder"
)

// timeout bounds an export, so that the end of a run does not wait for a missing collector.
const timeout = 10 * time.Second

// Export sends the trace to the OTLP/HTTP endpoint at url, with the headers of OTEL_EXPORTER_OTLP_HEADERS. Span ids are
// derived from the log, so an export after a resume extends the earlier trace.
func Export(ctx context.Context, url string, events []boulder.Event) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(strings.TrimSuffix(url, "/")+"/v1/traces"))
	if err != nil {
		return fmt.Errorf("trace to %s: %w", url, err)
	}
	defer func() { _ = exporter.Shutdown(ctx) }() // spans are sent already
	if err := exporter.ExportSpans(ctx, Spans(events)); err != nil {
		return fmt.Errorf("trace to %s: %w", url, err)
	}
	return nil
}

type span struct {
	name     string
	from, to time.Time // to: zero while the span is open
	parent   *span
	attrs    []attribute.KeyValue
	failed   string
	context  context.Context // with the recorded span, for its children
}

func (s *span) end(at time.Time, attrs ...attribute.KeyValue) {
	if s != nil && s.to.IsZero() {
		s.to, s.attrs = at, append(s.attrs, attrs...)
	}
}

func (s *span) add(attrs ...attribute.KeyValue) {
	if s != nil {
		s.attrs = append(s.attrs, attrs...)
	}
}

// fail marks the span as failed, or as successful if why is empty.
func (s *span) fail(why string) {
	if s != nil {
		s.failed = why
	}
}

type builder struct {
	all               []*span
	root, plan        *span
	attempt           map[boulder.AttemptRef]*span
	turn, judge, join map[boulder.AttemptRef]*span // the newest of each attempt
	state             *boulder.State
}

func (r *builder) begin(parent *span, at time.Time, name string, attrs ...attribute.KeyValue) *span {
	s := &span{name: name, from: at, parent: parent, attrs: attrs}
	r.all = append(r.all, s)
	return s
}

// model returns the attributes of a model, with the conventions' provider names.
func model(ref string) (attrs []attribute.KeyValue) {
	provider, name, _ := strings.Cut(ref, "/")
	if known := map[string]string{"google": "gcp.gemini", "xai": "x_ai", "mistral": "mistral_ai"}[provider]; known != "" {
		provider = known
	}
	if ref != "" {
		attrs = append(attrs, semconv.GenAIProviderNameKey.String(provider), semconv.GenAIRequestModel(name))
	}
	return attrs
}

func usageAttrs(u boulder.Usage) []attribute.KeyValue {
	return []attribute.KeyValue{
		semconv.GenAIUsageInputTokens(int(u.Input)), semconv.GenAIUsageOutputTokens(int(u.Output)),
		semconv.GenAIUsageCacheReadInputTokens(int(u.CacheRead)), semconv.GenAIUsageCacheCreationInputTokens(int(u.CacheWrite)),
		attribute.Float64("manager.cost_usd", u.Cost),
	}
}

// take adds the spans of an event. The state must already include it.
func (r *builder) take(e boulder.Event) {
	at, b := e.Time, &r.state.Boulder
	chat := func(parent *span, what string) *span {
		return r.begin(parent, at, "chat "+what, append(model(b.Ledger()), semconv.GenAIOperationNameChat, attribute.String("manager.for", what))...)
	}
	switch body := e.Body.(type) {
	case boulder.Created:
		r.root = r.begin(nil, at, "invoke_workflow manager", semconv.GenAIOperationNameInvokeWorkflow, semconv.GenAIAgentName("manager"),
			attribute.String("manager.boulder.id", b.ID))
		r.plan = chat(r.root, "plan")
	case boulder.ReplanStarted:
		r.plan = chat(r.root, "replan")
	case boulder.RevisionAsked:
		r.plan = chat(r.root, "revise")
	case boulder.Planned, boulder.Decomposed, boulder.ReplanProposed, boulder.Replanned, boulder.ReplanRefused, boulder.RevisionRefused,
		boulder.PlanTrouble:
		r.plan.end(at)
	case boulder.LookStarted:
		r.plan.end(at)
		r.plan = r.begin(r.root, at, "invoke_agent look", append(model(body.Model), semconv.GenAIOperationNameInvokeAgent)...)
	case boulder.Looked:
		r.plan.end(at)
		r.plan = chat(r.root, "plan")
	case boulder.Starting:
		o := r.state.Open(body.SubTaskID)
		r.attempt[body.AttemptRef] = r.begin(r.root, at, fmt.Sprintf("%s, attempt %d", body.SubTaskID, body.Attempt),
			attribute.String("manager.sub_task", body.SubTaskID), attribute.Int("manager.attempt", body.Attempt),
			attribute.Float64("manager.queued_seconds", at.Sub(o.Attempt.QueuedAt).Seconds()))
	case boulder.TurnSent:
		if o := r.state.Open(body.SubTaskID); !body.Resume {
			r.turn[body.AttemptRef] = r.begin(r.attempt[body.AttemptRef], at, "invoke_agent "+body.SubTaskID,
				append(model(o.Attempt.Model), semconv.GenAIOperationNameInvokeAgent, semconv.GenAIAgentName(cmp.Or(o.Attempt.Agent, "default")),
					semconv.GenAIConversationID(o.Attempt.SessionID), attribute.Int("manager.turn", body.Turn),
					attribute.String("manager.kind", string(body.Kind)))...)
		}
	case boulder.TurnEnded:
		r.turnEnded(body, at)
		r.judge[body.AttemptRef] = chat(r.attempt[body.AttemptRef], "judge")
	case boulder.Judged:
		r.judge[body.AttemptRef].end(at, attribute.Bool("manager.completed", body.Verdict.Completed))
	case boulder.Integrating:
		r.join[body.AttemptRef] = r.begin(r.attempt[body.AttemptRef], at, "integrate")
	case boulder.Integrated:
		r.join[body.AttemptRef].end(at)
	case boulder.Conflict:
		r.join[body.AttemptRef].fail("conflict")
		r.join[body.AttemptRef].end(at)
	case boulder.UsageReport:
		ref := boulder.AttemptRef{SubTaskID: body.SubTaskID, Attempt: body.Attempt}
		map[string]*span{
			boulder.UsageAttempt: r.turn[ref], boulder.UsageJudge: r.judge[ref], boulder.UsagePlan: r.plan, boulder.UsageReplan: r.plan,
			boulder.UsageCheck: r.plan, boulder.UsageLook: r.plan,
		}[body.Source].add(usageAttrs(body.Usage)...)
	case boulder.Retry:
		r.endAttempt(body.AttemptRef, at, body.Reason)
	case boulder.Parked:
		r.endAttempt(body.AttemptRef, at, body.Reason)
	case boulder.SubTaskDone:
		failed := ""
		if !body.Completed {
			failed = body.Summary
		}
		r.endAttempt(body.AttemptRef, at, failed)
	case boulder.TaskComplete:
		if r.root.end(at, append(usageAttrs(body.Usage), attribute.String("manager.status", string(body.Status)))...); !body.AllCompleted {
			r.root.failed = string(body.Status)
		}
	}
}

func (r *builder) turnEnded(body boulder.TurnEnded, at time.Time) {
	begun := at
	for _, g := range body.Evidence.Gates { // gates ran before this event, after the end of the turn
		begun = begun.Add(-g.Duration)
	}
	s := r.turn[body.AttemptRef]
	s.end(begun)
	s.fail(cmp.Or(body.Ended.Stopped, body.Ended.Error))
	if finish := body.Ended.Finish; finish != "" {
		s.add(semconv.GenAIResponseFinishReasons(finish))
	}
	for _, g := range body.Evidence.Gates {
		gate := r.begin(r.attempt[body.AttemptRef], begun, "gate", attribute.String("manager.gate", g.Command),
			attribute.Int("process.exit.code", g.ExitCode))
		if begun = begun.Add(g.Duration); !g.Holds() {
			gate.failed = g.End()
		}
		gate.end(begun)
	}
}

// endAttempt ends an attempt and its open spans.
func (r *builder) endAttempt(ref boulder.AttemptRef, at time.Time, failed string) {
	for _, s := range []*span{r.turn[ref], r.judge[ref], r.join[ref]} {
		s.end(at)
	}
	r.attempt[ref].fail(failed)
	r.attempt[ref].end(at)
}

// Spans makes the spans of a log, which must be complete from its first event. Open spans end with the last event.
func Spans(events []boulder.Event) []sdktrace.ReadOnlySpan {
	of := func() map[boulder.AttemptRef]*span { return map[boulder.AttemptRef]*span{} }
	r := &builder{attempt: of(), turn: of(), judge: of(), join: of(), state: boulder.NewState()}
	var last time.Time
	for _, e := range events {
		if r.state.Replay(e) != nil {
			break
		}
		last = e.Time
		r.take(e)
	}
	if r.root == nil {
		return nil
	}
	made := &collected{trace: traceID(r.state.Boulder.ID)}
	tracer := sdktrace.NewTracerProvider(
		sdktrace.WithIDGenerator(made), sdktrace.WithSpanProcessor(made), sdktrace.WithSampler(sdktrace.AlwaysSample()),
		sdktrace.WithResource(resource.NewSchemaless(semconv.ServiceName("manager"))),
	).Tracer("github.com/bouldermgr/manager", trace.WithSchemaURL(semconv.SchemaURL))
	for _, s := range r.all { // parents first
		if s.to.IsZero() {
			s.end(last, attribute.Bool("manager.unfinished", true))
		}
		ctx := context.Background()
		if s.parent != nil {
			ctx = s.parent.context
		}
		var recorded trace.Span
		s.context, recorded = tracer.Start(ctx, s.name, trace.WithTimestamp(s.from), trace.WithAttributes(s.attrs...))
		if s.failed != "" {
			recorded.SetStatus(codes.Error, s.failed)
		}
		recorded.End(trace.WithTimestamp(s.to))
	}
	return made.spans
}

// collected keeps the ended spans of one trace, and numbers them.
type collected struct {
	trace trace.TraceID
	spans []sdktrace.ReadOnlySpan
	begun uint64
}

func (c *collected) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	return c.trace, c.NewSpanID(ctx, c.trace)
}

func (c *collected) NewSpanID(context.Context, trace.TraceID) trace.SpanID {
	c.begun++
	number := sha256.Sum256(binary.BigEndian.AppendUint64(c.trace[:], c.begun))
	return trace.SpanID(number[:8])
}

func (c *collected) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (c *collected) OnEnd(s sdktrace.ReadOnlySpan)                   { c.spans = append(c.spans, s) }
func (c *collected) Shutdown(context.Context) error                  { return nil }
func (c *collected) ForceFlush(context.Context) error                { return nil }

// traceID returns the boulder's id if it is a ULID, else a hash of it.
func traceID(boulderID string) trace.TraceID {
	if id, err := ulid.ParseStrict(strings.ToUpper(boulderID)); err == nil {
		return trace.TraceID(id)
	}
	sum := sha256.Sum256([]byte(boulderID))
	return trace.TraceID(sum[:16])
}
