package scriptmodel_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/sashabaranov/go-openai"
	"go.uber.org/goleak"

	"github.com/bouldermgr/manager/testkit/octest"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

func TestMain(m *testing.M) {
	octest.Guard()
	goleak.VerifyTestMain(m)
}

// client is go-openai without keep-alive, so that goleak sees only what the server leaves behind.
func client(t *testing.T, server *scriptmodel.Server, key string) *openai.Client {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	t.Cleanup(transport.CloseIdleConnections)
	config := openai.DefaultConfig(key)
	config.BaseURL = server.URL()
	config.HTTPClient = &http.Client{Transport: transport}
	return openai.NewClientWithConfig(config)
}

func ask(text string) openai.ChatCompletionRequest {
	return openai.ChatCompletionRequest{
		Model:    "agent",
		Messages: []openai.ChatCompletionMessage{{Role: "user", Content: text}},
	}
}

func asStructured(req openai.ChatCompletionRequest) openai.ChatCompletionRequest {
	req.ResponseFormat = &openai.ChatCompletionResponseFormat{
		Type: openai.ChatCompletionResponseFormatTypeJSONSchema,
		JSONSchema: &openai.ChatCompletionResponseFormatJSONSchema{
			Name: "verdict", Schema: json.RawMessage(`{"type":"object"}`),
		},
	}
	return req
}

// structured sends the first message of req as a structured request, and returns what the server received.
func structured(t *testing.T, req scriptmodel.Request) scriptmodel.Request {
	t.Helper()
	server := octest.Model(t, scriptmodel.Always(scriptmodel.Reply{JSON: struct{}{}}))
	wire := asStructured(ask(req.FirstUser()))
	wire.Model = req.Model
	if _, err := client(t, server, "").CreateChatCompletion(t.Context(), wire); err != nil {
		t.Fatal(err)
	}
	return server.Requests()[0]
}

// message is an answer as a client sees it, whole or streamed.
type message struct {
	Text, Finish string
	Calls        []string
	Usage        [2]int
}

type caller func(*testing.T, *openai.Client, openai.ChatCompletionRequest) (message, error)

func whole(t *testing.T, c *openai.Client, req openai.ChatCompletionRequest) (message, error) {
	t.Helper()
	res, err := c.CreateChatCompletion(t.Context(), req)
	if err != nil {
		return message{}, err
	}
	choice := res.Choices[0]
	m := message{Text: choice.Message.Content, Finish: string(choice.FinishReason)}
	m.Usage = [2]int{res.Usage.PromptTokens, res.Usage.CompletionTokens}
	for _, call := range choice.Message.ToolCalls {
		m.Calls = append(m.Calls, call.ID+" "+call.Function.Name+call.Function.Arguments)
	}
	return m, nil
}

func streamed(t *testing.T, c *openai.Client, req openai.ChatCompletionRequest) (message, error) {
	t.Helper()
	req.StreamOptions = &openai.StreamOptions{IncludeUsage: true}
	stream, err := c.CreateChatCompletionStream(t.Context(), req)
	if err != nil {
		return message{}, err
	}
	defer stream.Close()
	var m message
	for {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return m, nil
		}
		if err != nil {
			return m, err
		}
		if chunk.Usage != nil {
			m.Usage = [2]int{chunk.Usage.PromptTokens, chunk.Usage.CompletionTokens}
		}
		for _, choice := range chunk.Choices {
			m.Text += choice.Delta.Content
			m.Finish = string(choice.FinishReason)
			for _, call := range choice.Delta.ToolCalls {
				if call.ID != "" {
					m.Calls = append(m.Calls, call.ID+" "+call.Function.Name)
				}
				m.Calls[*call.Index] += call.Function.Arguments
			}
		}
	}
}

func TestAnswersInBothForms(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reply scriptmodel.Reply
		want  message
	}{
		"text": {
			scriptmodel.Reply{Text: "Grüße, 界界界界界界界, in more than one piece", InputTokens: 1000, OutputTokens: 7},
			message{Text: "Grüße, 界界界界界界界, in more than one piece", Finish: "stop", Usage: [2]int{1000, 7}},
		},
		"tool calls": {
			scriptmodel.Reply{Text: "I look.", ToolCalls: []scriptmodel.ToolCall{
				{Name: "read", Args: map[string]any{"filePath": "a.go"}},
				{Name: "list"},
				{Name: "broken", Args: json.RawMessage(`{"half":`)},
			}},
			message{
				Text: "I look.", Finish: "tool_calls", Usage: [2]int{2, 9},
				Calls: []string{`call_1_0 read{"filePath":"a.go"}`, `call_1_1 list{}`, `call_1_2 broken{"half":`},
			},
		},
		"truncated": {
			scriptmodel.Reply{Text: "half of the", Finish: "length"},
			message{Text: "half of the", Finish: "length", Usage: [2]int{2, 2}},
		},
		"JSON without an asked format": {
			scriptmodel.Reply{JSON: map[string]any{"a": 1}},
			message{Text: `{"a":1}`, Finish: "stop", Usage: [2]int{2, 1}},
		},
		"nothing": {
			scriptmodel.Reply{},
			message{Finish: "stop", Usage: [2]int{2, 1}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for form, call := range map[string]caller{"whole": whole, "streamed": streamed} {
				c := client(t, octest.Model(t, scriptmodel.Always(test.reply)), "")
				got, err := call(t, c, ask("12345678"))
				if err != nil {
					t.Fatalf("%s: %v", form, err)
				}
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("%s: -want +got:\n%s", form, diff)
				}
			}
		})
	}
}

func TestJSONIsDeliveredTheWayItIsAskedFor(t *testing.T) {
	t.Parallel()
	c := client(t, octest.Model(t, scriptmodel.Always(scriptmodel.Reply{JSON: map[string]any{"completed": true}})), "")
	got, err := whole(t, c, asStructured(ask("judge")))
	if err != nil || got.Text != `{"completed":true}` || got.Calls != nil {
		t.Errorf("response_format: %+v, %v", got, err)
	}

	byTool := ask("judge")
	byTool.Tools = []openai.Tool{{Type: "function", Function: &openai.FunctionDefinition{Name: "StructuredOutput"}}}
	byTool.ToolChoice = "required"
	got, err = streamed(t, c, byTool)
	if err != nil || got.Text != "" || !cmp.Equal(got.Calls, []string{`call_2_0 StructuredOutput{"completed":true}`}) {
		t.Errorf("StructuredOutput tool: %+v, %v", got, err)
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	limited := scriptmodel.Reply{Status: http.StatusTooManyRequests, Header: map[string]string{"retry-after": "7"}}
	c := client(t, octest.Model(t, scriptmodel.Always(limited)), "")
	res, err := c.CreateChatCompletion(t.Context(), ask("x"))
	var api *openai.APIError
	if !errors.As(err, &api) || api.HTTPStatusCode != 429 || api.Code != "rate_limit_exceeded" {
		t.Errorf("rate limit: %v", err)
	}
	if got := res.Header().Get("Retry-After"); got != "7" {
		t.Errorf("Retry-After %q", got)
	}

	html := scriptmodel.Reply{Status: http.StatusBadGateway, Body: "<html>"}
	html.Header = map[string]string{"Content-Type": "text/html"}
	c = client(t, octest.Model(t, scriptmodel.Always(html)), "")
	_, err = whole(t, c, ask("x"))
	var request *openai.RequestError
	if !errors.As(err, &request) || request.HTTPStatusCode != 502 || string(request.Body) != "<html>" {
		t.Errorf("bad gateway: %v", err)
	}

	c = client(t, octest.Model(t, scriptmodel.Always(scriptmodel.Reply{Text: strings.Repeat("long ", 50), Cut: true})), "")
	if got, err := whole(t, c, ask("x")); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("cut answer: %+v, %v", got, err)
	}
	got, err := streamed(t, c, ask("x"))
	if !errors.Is(err, io.ErrUnexpectedEOF) || got.Text == "" || got.Finish != "" {
		t.Errorf("cut stream: %+v, %v", got, err)
	}
}

func TestKey(t *testing.T) {
	t.Parallel()
	server := octest.Model(t, scriptmodel.Always(scriptmodel.Reply{Text: "hi"}))
	if _, err := whole(t, client(t, server, "secret"), ask("x")); err != nil {
		t.Error(err)
	}
	if got := server.Requests(); len(got) != 1 || got[0].Key != "secret" || got[0].LastUser() != "x" {
		t.Errorf("log: %+v", got)
	}
}

func TestMalformedAndUnknownRequests(t *testing.T) {
	t.Parallel()
	server := octest.Model(t, scriptmodel.Always(scriptmodel.Reply{}))
	for _, test := range []struct {
		path, body string
		status     int
	}{
		{"/chat/completions", "not JSON", http.StatusBadRequest},
		{"/chat/completions", `{"messages":[]}`, http.StatusBadRequest},
		{"/chat/completions", `{"messages":[{"content":3}]}`, http.StatusBadRequest},
		{"/responses", `{}`, http.StatusNotFound},
	} {
		direct := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		res, err := direct.Post(server.URL()+test.path, "application/json", strings.NewReader(test.body))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != test.status || !strings.Contains(string(body), `"message"`) {
			t.Errorf("%s %s: %d %s", test.path, test.body, res.StatusCode, body)
		}
	}
	if n := len(server.Requests()); n != 0 {
		t.Errorf("%d malformed requests are in the log", n)
	}
}

// TestCloseEndsWaitingRequests would hang if a closed server waited for its script.
func TestCloseEndsWaitingRequests(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{})
	server, err := scriptmodel.Start(func(context.Context, scriptmodel.Request) scriptmodel.Reply {
		close(arrived)
		return scriptmodel.Reply{Text: "never", Wait: make(chan struct{})}
	})
	if err != nil {
		t.Fatal(err)
	}
	c := client(t, server, "")
	failed := make(chan error, 1)
	go func() {
		_, err := c.CreateChatCompletion(t.Context(), ask("x"))
		failed <- err
	}()
	<-arrived
	server.Close()
	server.Close()
	if err := <-failed; err == nil {
		t.Error("the request was answered")
	}
}

// A handler that knows plans and verdicts only has no facts to state: the task demands nothing in particular, and needs a plan
// if the handler has one.
func TestFactsAreFilledIn(t *testing.T) {
	t.Parallel()
	const asked = `{"model":"m","messages":[{"role":"user","content":"x"}],"response_format":{"type":"json_schema","json_schema":` +
		`{"name":"f","schema":{"type":"object","properties":{"request":{},"needs_plan":{}}}}}}`
	for want, said := range map[string]map[string]any{
		`{"needs_plan":false,"reason":"it is scripted","request":[]}`: {"completed": true},
		`{"needs_plan":true,"reason":"it is scripted","request":[]}`:  {"sub_tasks": []any{1}},
		`{"needs_plan":true}`: {"needs_plan": true},
	} {
		answer := httptest.NewRecorder()
		scriptmodel.Routes(scriptmodel.Always(scriptmodel.Reply{JSON: said})).ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(asked)))
		var got struct {
			Choices []struct{ Message struct{ Content string } }
		}
		if err := json.Unmarshal(answer.Body.Bytes(), &got); err != nil || got.Choices[0].Message.Content != want {
			t.Errorf("%v: %v, %+v", said, err, got)
		}
	}
}
