package worker

import (
	"bytes"
	"compress/gzip"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/temporalproto"
	"go.temporal.io/sdk/client"
	sdk "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/bouldermgr/manager/temporal/flow"
)

var record = flag.Bool("record", false, "keep the histories of boulders in testdata, for later versions to replay")

func replay(h *history.History) error {
	r := sdk.NewWorkflowReplayer()
	r.RegisterWorkflowWithOptions(flow.Boulder, workflow.RegisterOptions{Name: flow.Workflow})
	return r.ReplayWorkflowHistoryWithOptions(nil, h, sdk.ReplayWorkflowHistoryOptions{
		OriginalExecution: workflow.Execution{ID: id, RunID: h.Events[0].GetWorkflowExecutionStartedEventAttributes().GetOriginalExecutionRunId()},
	})
}

// replayHistory replays the boulder's history, and keeps it in testdata with -record.
func (r *rig) replayHistory() {
	r.Helper()
	h := new(history.History)
	events := r.client.GetWorkflowHistory(r.Context(), id, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		if err != nil {
			r.Fatal(err)
		}
		h.Events = append(h.Events, event)
	}
	if err := replay(h); err != nil {
		r.Errorf("%d events: %v", len(h.Events), err)
	}
	if !*record {
		return
	}
	var file bytes.Buffer
	data, err := temporalproto.CustomJSONMarshalOptions{}.Marshal(h)
	if err == nil {
		host, _ := os.Hostname() // part of the names of workers and sticky queues
		data = bytes.ReplaceAll(data, []byte(host), []byte("host"))
		w := gzip.NewWriter(&file)
		_, err = w.Write(data)
		w.Close()
	}
	if err == nil {
		err = os.WriteFile(filepath.Join("testdata", r.Name()+".json.gz"), file.Bytes(), 0o600)
	}
	if err != nil {
		r.Error(err)
	}
}

// TestGolden: this version continues the boulders of earlier versions. If a change of the core must break that,
// boulders have to end before the workers are replaced: record again, and say so in the changelog.
func TestGolden(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("testdata/*.json.gz")
	if err != nil || len(names) == 0 {
		t.Fatalf("no histories: %v", err)
	}
	for _, name := range names {
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		unpacked, err := gzip.NewReader(file)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(unpacked)
		if err != nil {
			t.Fatal(err)
		}
		h, err := client.HistoryFromJSON(bytes.NewReader(data), client.HistoryJSONOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := replay(h); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
