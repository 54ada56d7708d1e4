package anthropic

import (
	"cmp"
	"encoding/json"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/internal/prompted"
)

// The API wants a limit in every request. The default is room for a ledger and its reasoning, below the 21,333 that
// the SDK sends unstreamed without being asked to, and below the limit of every model since Claude 4. The other one is
// what the oldest models allow.
const (
	defaultMaxTokens = 16_000
	fewestMaxTokens  = 4096
)

// params translates a request. Objects are overridden where a map of the SDK's would sort the schema's properties.
func params(req *providers.Request, ask features) sdk.MessageNewParams {
	out := sdk.MessageNewParams{
		Model:     req.Model,
		MaxTokens: maxTokens(req, ask),
		Messages:  messages(req),
	}
	system := req.System
	switch {
	case ask.Has(forcedTool):
		out.Tools, out.ToolChoice = answerTool(req)
	case req.Schema != nil && !ask.Has(structured):
		system = prompted.System(req)
	}
	if system != "" {
		out.System = []sdk.TextBlockParam{{Text: system}}
	}
	if ask.Has(structured) || ask.Has(effort) {
		out.OutputConfig = param.Override[sdk.OutputConfigParam](outputConfig(req, ask))
	}
	if ask.Has(temperature) {
		out.Temperature = param.NewOpt(*req.Temperature)
	}
	return out
}

func maxTokens(req *providers.Request, ask features) int64 {
	switch {
	case req.MaxOutputTokens > 0:
		return int64(req.MaxOutputTokens)
	case ask.Has(roomy):
		return defaultMaxTokens
	default:
		return fewestMaxTokens
	}
}

func messages(req *providers.Request) []sdk.MessageParam {
	out := make([]sdk.MessageParam, 0, len(req.Messages))
	for _, m := range req.Messages {
		text := sdk.NewTextBlock(m.Text)
		if m.Role == providers.RoleAssistant {
			out = append(out, sdk.NewAssistantMessage(text))
		} else {
			out = append(out, sdk.NewUserMessage(text))
		}
	}
	return out
}

// outputConfig is the JSON object output_config.
type outputConfigObject struct {
	Effort string        `json:"effort,omitempty"`
	Format *formatObject `json:"format,omitempty"`
}

type formatObject struct {
	Type   string          `json:"type"`
	Schema json.RawMessage `json:"schema"`
}

func outputConfig(req *providers.Request, ask features) outputConfigObject {
	var out outputConfigObject
	if ask.Has(effort) {
		out.Effort = req.Effort
	}
	if ask.Has(structured) {
		out.Format = &formatObject{Type: "json_schema", Schema: req.Schema}
	}
	return out
}

func answerTool(req *providers.Request) ([]sdk.ToolUnionParam, sdk.ToolChoiceUnionParam) {
	tool := sdk.ToolParam{
		Name:        cmp.Or(req.SchemaName, "answer"),
		Description: param.NewOpt("Gives the answer. Call it exactly once."),
		InputSchema: param.Override[sdk.ToolInputSchemaParam](req.Schema),
		Strict:      param.NewOpt(true),
	}
	choice := sdk.ToolChoiceToolParam{Name: tool.Name, DisableParallelToolUse: param.NewOpt(true)}
	return []sdk.ToolUnionParam{{OfTool: &tool}}, sdk.ToolChoiceUnionParam{OfTool: &choice}
}
