package limiter

import (
	"bytes"
	"compress/gzip"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/temporalproto"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

var record = flag.Bool("record", false, "keep the histories of limiters in testdata, for later versions to replay")

func replay(h *history.History) error {
	r := worker.NewWorkflowReplayer()
	r.RegisterWorkflowWithOptions(run, workflow.RegisterOptions{Name: workflowType})
	return r.ReplayWorkflowHistory(nil, h)
}

func (k *cluster) replay(name string) {
	k.t.Helper()
	n := 0
	err := list(k.t.Context(), k.c, "WorkflowType = '"+workflowType+"'", func(id, run string) {
		n++
		h := new(history.History)
		events := k.c.GetWorkflowHistory(k.t.Context(), id, run, false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for events.HasNext() {
			event, err := events.Next()
			if err != nil {
				k.t.Fatal(err)
			}
			h.Events = append(h.Events, event)
		}
		if err := replay(h); err != nil {
			k.t.Errorf("%s of %d events: %v", id, len(h.Events), err)
		}
		if *record && n == 1 {
			keep(k.t, name, h)
		}
	})
	if err != nil || n == 0 {
		k.t.Errorf("%d limiters to replay, %v", n, err)
	}
}

func keep(t *testing.T, name string, h *history.History) {
	var file bytes.Buffer
	data, err := temporalproto.CustomJSONMarshalOptions{}.Marshal(h)
	if err == nil {
		host, _ := os.Hostname() // part of the names of sticky queues
		data = bytes.ReplaceAll(data, []byte(`"`+host+`:`), []byte(`"host:`))
		w := gzip.NewWriter(&file)
		_, err = w.Write(data)
		w.Close()
	}
	if err == nil {
		err = os.WriteFile(filepath.Join("testdata", name+".json.gz"), file.Bytes(), 0o600)
	}
	if err != nil {
		t.Error(err)
	}
}

// A running limiter survives an upgrade of the workers. If a change cannot allow that, even with workflow.GetVersion,
// the changelog must say to terminate the limiters: the next request rebuilds their state.
func TestReplayOfEarlierVersions(t *testing.T) {
	t.Parallel()
	names, _ := filepath.Glob("testdata/*.json.gz")
	if len(names) == 0 {
		t.Error("no histories")
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var h *history.History
		plain, err := gzip.NewReader(bytes.NewReader(data))
		if err == nil {
			h, err = client.HistoryFromJSON(plain, client.HistoryJSONOptions{})
		}
		if err == nil {
			err = replay(h)
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
