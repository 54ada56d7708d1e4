package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/executor"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/progressledger"
	"github.com/bouldermgr/manager/providers"
)

const (
	transcriptSize = 2 << 20
	turnRounds     = 7
	turnsPerRound  = 20
	mostPerTurn    = 5e-3 // seconds
)

// measureJudging has turns run and judged whose sessions hold a transcript of 2 MB: turns of ordinary size that go on
// with such a session, and turns that have the 2 MB themselves. Only the processor time of the manager's own code
// counts: server and model are played by others, and answer at once.
func measureJudging(ctx context.Context, w *world) ([]comparison, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	fake, err := w.startFake(ctx, 0, transcriptSize, 1, 0)
	if err != nil {
		return nil, err
	}
	defer fake.stop()
	dir, err := w.project(ctx, "judging")
	if err != nil {
		return nil, err
	}
	var next, first, plain []float64
	for range turnRounds {
		p := w.command(ctx, dir, self, turnsCommand, fake.url, dir, strconv.Itoa(turnsPerRound))
		if err := together([]*process{p}); err != nil {
			return nil, err
		}
		var result turnsResult
		if err := json.Unmarshal(p.output.Bytes(), &result); err != nil {
			return nil, fmt.Errorf("%w: %s", err, oneLine(p.output.String()))
		}
		w.detail("next turn: %.3g s of processor, %.3g s of clock; turn of 2 MB: %.3g s; json.Unmarshal: %.3g s",
			result.Next, result.Wall, result.First, result.Plain)
		next, first = append(next, result.Next), append(first, result.First)
		plain = append(plain, result.Plain)
	}
	decode := side{"json.Unmarshal of 2 MB", plain}
	small := comparison{
		name: "judging a turn of 64 KB after 2 MB", ours: side{"gather and judge", next}, theirs: decode,
		format: milliseconds, limit: 0.25, most: mostPerTurn,
	}
	large := comparison{
		name: "judging a turn of 2 MB", ours: side{"gather and judge", first}, theirs: decode,
		format: milliseconds, limit: 1,
	}
	return []comparison{small, large}, nil
}

// turnsResult is in seconds per turn.
type turnsResult struct {
	First float64 `json:"first"` // processor time of running and judging a turn of 2 MB
	Next  float64 `json:"next"`  // processor time of one that goes on with the session of such a turn
	Wall  float64 `json:"wall"`  // the same by the clock, waiting for the server and the disk included
	Plain float64 `json:"plain"` // processor time of decoding the messages of the former with encoding/json
}

// runTurns is a process of its own: turns URL DIR N.
func runTurns(ctx context.Context, args []string) error {
	if len(args) != 3 {
		return errors.New("turns: want the server's URL, the directory and the number of turns")
	}
	n, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	t, err := newTurns(ctx, args[0], args[1])
	if err != nil {
		return err
	}
	defer t.client.Close()
	if err := t.first(ctx, 0); err != nil { // connections are made, and code is warm
		return err
	}
	var result turnsResult
	if result.First, err = processor(n, func(i int) error { return t.first(ctx, i+1) }); err != nil {
		return err
	}
	if result.Plain, err = t.plain(ctx, n); err != nil {
		return err
	}
	began := time.Now()
	if result.Next, err = processor(n, func(int) error { return t.next(ctx) }); err != nil { // the session grows by it
		return err
	}
	result.Wall = time.Since(began).Seconds() / float64(n)
	return json.NewEncoder(os.Stdout).Encode(result)
}

// turns is what a manager consists of between OpenCode and a model.
type turns struct {
	url, dir string
	client   *opencode.Client
	exec     *executor.Executor
	judge    *progressledger.Judge
	job      boulder.Job // the last one
}

func newTurns(ctx context.Context, address, dir string) (*turns, error) {
	client, err := opencode.Attach(ctx, address, opencode.AttachConfig{})
	if err != nil {
		return nil, err
	}
	t := &turns{url: address, dir: dir, client: client}
	t.exec, err = executor.New(executor.Config{
		Host: opencode.AttachedHost(client), Project: dir, Workspace: stillWorkspace{},
		RunsDir: filepath.Join(dir, ".manager", "runs"),
	})
	if err != nil {
		return nil, err
	}
	t.judge, err = progressledger.New(progressledger.Config{Completer: instantJudge{}})
	return t, err
}

// first runs a turn in a session of its own and judges it.
func (t *turns) first(ctx context.Context, i int) error {
	ref := boulder.AttemptRef{SubTaskID: fmt.Sprintf("s%d", i), Attempt: 1}
	t.job = boulder.Job{
		BoulderID: "bench", Project: t.dir, Alone: func() bool { return true },
		SubTask: boulder.SubTask{
			ID: ref.SubTaskID, Subject: "Get ready", Content: question, SuccessCriteria: []string{"It is ready"},
		},
		Attempt: boulder.Attempt{AttemptRef: ref, Model: agentModel, Tag: "manager:bench/" + ref.SubTaskID + "#1"},
		Turn:    boulder.Turn{AttemptRef: ref, Number: 1, Kind: boulder.TurnBrief, Prompt: question},
	}
	return t.run(ctx)
}

// next runs and judges one more turn in the last session.
func (t *turns) next(ctx context.Context) error {
	t.job.Turn = boulder.Turn{
		AttemptRef: t.job.Turn.AttemptRef, Number: t.job.Turn.Number + 1, Kind: boulder.TurnContinuation, Prompt: question,
	}
	return t.run(ctx)
}

func (t *turns) run(ctx context.Context) error {
	evidence, err := t.exec.Run(ctx, t.job, func(b boulder.Body) error {
		if start, ok := b.(boulder.SubTaskStart); ok {
			t.job.Attempt.SessionID, t.job.SubTask.Snapshot = start.SessionID, start.Snapshot
		}
		return nil
	})
	if err != nil {
		return err
	}
	if evidence.ToolCount == 0 {
		return errors.New("the turn's tool calls are not in the evidence")
	}
	job := t.job
	job.Turn.Evidence = &evidence
	verdict, _, err := t.judge.Judge(ctx, boulder.JudgeRequest{SubTask: job.SubTask, Attempt: job.Attempt, Turn: job.Turn})
	if err == nil && !verdict.Completed {
		err = fmt.Errorf("the turn was judged not to be complete: %+v", verdict)
	}
	return err
}

// plain decodes the last session's messages in the plainest way.
func (t *turns) plain(ctx context.Context, n int) (float64, error) {
	messages := t.url + "/session/" + t.job.Attempt.SessionID + "/message?directory=" + url.QueryEscape(t.dir)
	body, err := send(ctx, http.MethodGet, messages, nil)
	if err != nil {
		return 0, err
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	if err != nil {
		return 0, err
	}
	if len(data) < transcriptSize {
		return 0, fmt.Errorf("the transcript has %d bytes only", len(data))
	}
	return processor(n, func(int) error {
		var messages []plainMessage
		return json.Unmarshal(data, &messages)
	})
}

// plainMessage has what a transcript is made of.
type plainMessage struct {
	Info struct {
		ID, Role, Finish string
		Time             struct{ Created, Completed float64 }
	} `json:"info"`
	Parts []struct {
		ID, Type, Text, CallID, Tool string
		State                        struct {
			Status, Output, Error, Title string
			Input, Metadata              json.RawMessage
		} `json:"state"`
	} `json:"parts"`
}

// processor measures the processor time of one of n calls, garbage collection included.
func processor(n int, once func(i int) error) (float64, error) {
	runtime.GC()
	began := processorTime()
	for i := range n {
		if err := once(i); err != nil {
			return 0, err
		}
	}
	runtime.GC()
	return (processorTime() - began).Seconds() / float64(n), nil
}

func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // it takes no other arguments
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// stillWorkspace is a workspace in which nothing happens: what git costs is not the manager's own time.
type stillWorkspace struct{}

func (stillWorkspace) Snapshot(context.Context) (string, error) { return "s", nil }

func (stillWorkspace) Diff(context.Context, string, string, func(string) bool) (boulder.Diff, error) {
	return boulder.Diff{}, nil
}

// instantJudge is a model that finds everything complete.
type instantJudge struct{}

func (instantJudge) Complete(_ context.Context, req *providers.Request) (*providers.Response, error) {
	if len(req.Messages) == 0 {
		return nil, errors.New("there is no question")
	}
	return &providers.Response{Text: string(encode(verdict)), Stop: providers.StopEnd}, nil
}
