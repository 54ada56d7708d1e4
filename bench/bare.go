package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// runBare runs the bare client as a process: bare URL DIR N one|all. Sessions run in sequence (one) or at once (all).
func runBare(ctx context.Context, args []string) error {
	if len(args) != 4 {
		return errors.New("bare: want the server's URL, the directory, the number of sessions, and one or all")
	}
	n, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	return drive(ctx, args[0], args[1], n, args[3] == "all")
}

// patience bounds a whole chain of sessions.
const patience = 2 * time.Minute

// bare is the smallest client of OpenCode: it makes the calls and trusts the answers. It shares no code with the
// manager's client.
type bare struct {
	server, dir string

	mu   sync.Mutex
	idle map[string]chan struct{} // by session; closed when it is idle
}

// drive runs n sessions in dir, each with the necessary calls: create, prompt, wait for idle, read messages and todos.
func drive(ctx context.Context, server, dir string, n int, atOnce bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	stream, err := send(ctx, http.MethodGet, server+"/global/event", nil)
	if err != nil {
		return err
	}
	defer stream.Close()
	events := bufio.NewReaderSize(stream, 1<<20)
	if _, err := events.ReadString('\n'); err != nil { // server.connected: no later event is missed
		return err
	}
	b := &bare{server: server, dir: dir, idle: map[string]chan struct{}{}}
	group, ctx := errgroup.WithContext(ctx)
	if !atOnce {
		group.SetLimit(1)
	}
	go b.listen(events) // ends when the stream is closed
	for i := range n {
		group.Go(func() error {
			if err := b.session(ctx, i); err != nil {
				return fmt.Errorf("session %d of %d: %w", i+1, n, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// listen closes the channels of sessions that become idle.
func (b *bare) listen(events *bufio.Reader) {
	const idle = `"type":"session.idle","properties":{"sessionID":"`
	for {
		line, err := events.ReadString('\n')
		if err != nil {
			return
		}
		if _, rest, ok := strings.Cut(line, idle); ok {
			id, _, _ := strings.Cut(rest, `"`)
			b.mu.Lock()
			if c := b.idle[id]; c != nil {
				close(c)
				delete(b.idle, id)
			}
			b.mu.Unlock()
		}
	}
}

func (b *bare) session(ctx context.Context, i int) error {
	var session struct {
		ID string `json:"id"`
	}
	err := b.call(ctx, http.MethodPost, "/session", map[string]any{
		"title": fmt.Sprintf("Get ready, part %d", i), "metadata": map[string]any{"bench": "bare"},
		"permission": []any{map[string]any{"permission": "question", "pattern": "*", "action": "deny"}},
	}, &session)
	if err != nil {
		return err
	}
	idle := make(chan struct{})
	b.mu.Lock()
	b.idle[session.ID] = idle
	b.mu.Unlock()
	provider, model, _ := strings.Cut(agentModel, "/")
	err = b.call(ctx, http.MethodPost, "/session/"+session.ID+"/prompt_async", map[string]any{
		"model": map[string]any{"providerID": provider, "modelID": model},
		"parts": []any{map[string]any{"type": "text", "text": question}},
	}, nil)
	if err != nil {
		return err
	}
	select {
	case <-idle:
	case <-ctx.Done():
		return ctx.Err()
	}
	var messages, todos []json.RawMessage
	if err := b.call(ctx, http.MethodGet, "/session/"+session.ID+"/message", nil, &messages); err != nil {
		return err
	}
	if len(messages) != 2 {
		return fmt.Errorf("%d messages instead of a question and an answer", len(messages))
	}
	return b.call(ctx, http.MethodGet, "/session/"+session.ID+"/todo", nil, &todos)
}

// call makes a request and reads the whole answer. out may be nil.
func (b *bare) call(ctx context.Context, method, path string, in, out any) error {
	body, err := send(ctx, method, b.server+path+"?directory="+url.QueryEscape(b.dir), in)
	if err != nil {
		return err
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	if err != nil || out == nil {
		return err
	}
	return json.Unmarshal(data, out)
}

// send returns the body of the answer, which the caller closes.
func send(ctx context.Context, method, address string, in any) (io.ReadCloser, error) {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return nil, err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		defer resp.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 300)) // the status alone makes an error
		return nil, fmt.Errorf("%s %s: %s: %s", method, address, resp.Status, text)
	}
	return resp.Body, nil
}
