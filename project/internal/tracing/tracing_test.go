package tracing

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/store"
)

func boulders(t *testing.T) map[string][]boulder.Event {
	t.Helper()
	files, err := filepath.Glob("../../../orchestrator/testdata/boulders/*.json.gz")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d boulders, %v", len(files), err)
	}
	all := map[string][]boulder.Event{}
	for _, path := range files {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		r, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		x, err := store.ReadExport(r)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(path)] = x.Events
	}
	return all
}

func byID(spans []sdktrace.ReadOnlySpan) map[trace.SpanID]sdktrace.ReadOnlySpan {
	all := map[trace.SpanID]sdktrace.ReadOnlySpan{}
	for _, s := range spans {
		all[s.SpanContext().SpanID()] = s
	}
	return all
}

// The spans of a boulder form one tree within the time of its log, and keep their ids while the log grows.
func TestSpans(t *testing.T) {
	t.Parallel()
	for name, events := range boulders(t) {
		spans := Spans(events)
		all, turns, ended := byID(spans), 0, 0
		if len(all) != len(spans) {
			t.Errorf("%s: %d spans have %d ids", name, len(spans), len(all))
		}
		for _, s := range spans {
			parent, has := all[s.Parent().SpanID()]
			switch {
			case !s.Parent().IsValid():
				if !strings.HasPrefix(s.Name(), "invoke_workflow") {
					t.Errorf("%s: %s has no parent", name, s.Name())
				}
			case !has || s.StartTime().Before(parent.StartTime()):
				t.Errorf("%s: %s begins before its parent, or has none", name, s.Name())
			}
			if s.EndTime().Before(s.StartTime()) || s.EndTime().After(events[len(events)-1].Time) {
				t.Errorf("%s: %s is from %v to %v", name, s.Name(), s.StartTime(), s.EndTime())
			}
			if strings.HasPrefix(s.Name(), "invoke_agent") {
				turns++
			}
		}
		for _, e := range events {
			if sent, is := e.Body.(boulder.TurnSent); is && !sent.Resume {
				ended++
			}
		}
		if turns != ended {
			t.Errorf("%s: %d turns in the trace, %d in the log", name, turns, ended)
		}
		for id, s := range byID(Spans(events[:len(events)/2])) {
			if all[id] == nil || all[id].Name() != s.Name() {
				t.Errorf("%s: %s of the first half has another id later", name, s.Name())
			}
		}
	}
}

func TestExport(t *testing.T) {
	t.Parallel()
	var got coltracepb.ExportTraceServiceRequest
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = proto.Unmarshal(body, &got)
		}
		if err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", r.URL.Path, err)
		}
		w.WriteHeader(status)
	}))
	defer server.Close()
	events := boulders(t)["why-0.json.gz"]
	if err := Export(t.Context(), server.URL+"/", events); err != nil {
		t.Fatal(err)
	}
	sent := 0
	for _, r := range got.GetResourceSpans() {
		for _, s := range r.GetScopeSpans() {
			sent += len(s.GetSpans())
		}
	}
	if want := len(Spans(events)); sent != want || want == 0 {
		t.Errorf("%d spans were sent, of %d", sent, want)
	}
	status = http.StatusBadRequest
	if err := Export(t.Context(), server.URL, events); err == nil {
		t.Error("a refusal is no error")
	}
}
