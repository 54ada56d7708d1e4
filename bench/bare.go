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
	"time"
)

// runBare is a process of its own, as the manager is one: bare URL DIR N.
func runBare(ctx context.Context, args []string) error {
	if len(args) != 3 {
		return errors.New("bare: want the server's URL, the directory and the number of sessions")
	}
	n, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	return drive(ctx, args[0], args[1], n)
}

// patience bounds a whole chain of sessions.
const patience = 2 * time.Minute

// bare is the least that a client of OpenCode can be: it makes the calls and believes what it is told. It shares no
// code with the manager's client.
type bare struct {
	server, dir string
	events      *bufio.Reader
}

// drive runs n sessions in dir, one after the other, with the calls that a session needs: create, prompt, wait for the
// idle event, read the messages, read the todos.
func drive(ctx context.Context, server, dir string, n int) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	stream, err := send(ctx, http.MethodGet, server+"/global/event", nil)
	if err != nil {
		return err
	}
	defer stream.Close()
	b := &bare{server: server, dir: dir, events: bufio.NewReaderSize(stream, 1<<20)}
	if err := b.await(`"server.connected"`); err != nil {
		return err
	}
	for i := range n {
		if err := b.session(ctx, i); err != nil {
			return fmt.Errorf("session %d of %d: %w", i+1, n, err)
		}
	}
	return nil
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
	provider, model, _ := strings.Cut(agentModel, "/")
	err = b.call(ctx, http.MethodPost, "/session/"+session.ID+"/prompt_async", map[string]any{
		"model": map[string]any{"providerID": provider, "modelID": model},
		"parts": []any{map[string]any{"type": "text", "text": question}},
	}, nil)
	if err != nil {
		return err
	}
	if err := b.await(`"session.idle"`, session.ID); err != nil {
		return err
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

// await reads events until one contains all of the texts.
func (b *bare) await(texts ...string) error {
lines:
	for {
		line, err := b.events.ReadString('\n')
		if err != nil {
			return fmt.Errorf("wait for %s: %w", texts[0], err)
		}
		for _, text := range texts {
			if !strings.Contains(line, text) {
				continue lines
			}
		}
		return nil
	}
}

// call makes one call and reads the whole answer. out may be nil.
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

// send gives the answer's body; the caller closes it.
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
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 300)) // the status alone is an error
		return nil, fmt.Errorf("%s %s: %s: %s", method, address, resp.Status, text)
	}
	return resp.Body, nil
}
