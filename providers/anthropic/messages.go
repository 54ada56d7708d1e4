package anthropic

import (
	"cmp"
	"encoding/json"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/internal/adapter"
)

// The API requires a limit. The default leaves room for a ledger and its reasoning. It is below the SDK's limit for
// unstreamed calls, 21,333, and that of every model since Claude 4. The other one is that of the oldest models.
const (
	defaultMaxTokens = 16_000
	fewestMaxTokens  = 4096
)

// params translates a request. Overrides keep the order of the schema's properties, which the SDK's maps would sort.
func params(req *providers.Request, use adapter.Features) sdk.MessageNewParams {
	out := sdk.MessageNewParams{Model: req.Model, MaxTokens: int64(cmp.Or(req.MaxOutputTokens, fewestMaxTokens))}
	if use.Has(roomy) {
		out.MaxTokens = defaultMaxTokens
	}
	for _, m := range req.Messages {
		message := sdk.NewUserMessage(sdk.NewTextBlock(m.Text))
		if m.Role == providers.RoleAssistant {
			message.Role = sdk.MessageParamRoleAssistant
		}
		out.Messages = append(out.Messages, message)
	}
	output := map[string]any{}
	if req.Effort != "" {
		output["effort"] = req.Effort
	}
	system := req.System
	switch {
	case use.Has(forcedTool):
		tool := sdk.ToolParam{
			Name:        cmp.Or(req.SchemaName, "answer"),
			Description: param.NewOpt("Gives the answer. Call it exactly once."),
			InputSchema: param.Override[sdk.ToolInputSchemaParam](req.Schema),
			Strict:      param.NewOpt(true),
		}
		out.Tools = []sdk.ToolUnionParam{{OfTool: &tool}}
		out.ToolChoice.OfTool = &sdk.ToolChoiceToolParam{Name: tool.Name, DisableParallelToolUse: param.NewOpt(true)}
	case use.Has(structured):
		type format struct {
			Type   string          `json:"type"`
			Schema json.RawMessage `json:"schema"`
		}
		output["format"] = format{"json_schema", req.Schema}
	default:
		system = adapter.Prompted(req)
	}
	if len(output) > 0 {
		out.OutputConfig = param.Override[sdk.OutputConfigParam](output)
	}
	if system != "" {
		out.System = []sdk.TextBlockParam{{Text: system}}
	}
	return out
}

func reply(message *sdk.Message) adapter.Reply {
	// An overload during generation is reported with status 200.
	if message.Type != "message" || message.StopReason == "" {
		return adapter.Reply{Missing: "message"}
	}
	out := adapter.Reply{Response: providers.Response{
		Text: text(message), Model: message.Model,
		Usage: boulder.Usage{ // Anthropic counts cache reads and writes separately from the input
			Input: message.Usage.InputTokens + message.Usage.CacheReadInputTokens +
				message.Usage.CacheCreationInputTokens,
			CacheRead:  message.Usage.CacheReadInputTokens,
			CacheWrite: message.Usage.CacheCreationInputTokens,
			Output:     message.Usage.OutputTokens,
			Reasoning:  message.Usage.OutputTokensDetails.ThinkingTokens,
		},
	}}
	switch message.StopReason {
	case sdk.StopReasonMaxTokens:
		out.Refused = providers.KindTruncated
	case sdk.StopReasonRefusal:
		out.Refused, out.Why = providers.KindContentFilter, cmp.Or(out.Text, "stop_reason refusal")
	case sdk.StopReasonModelContextWindowExceeded:
		out.Refused, out.Why = providers.KindContextLength, "the answer did not fit into what the request left of the context"
	}
	return out
}

// text returns the argument of the forced tool if it was called, else the text without the model's thoughts.
func text(message *sdk.Message) string {
	var b strings.Builder
	for _, block := range message.Content {
		switch block.Type {
		case "tool_use":
			return string(block.Input)
		case "text":
			b.WriteString(block.Text)
		}
	}
	return b.String()
}
