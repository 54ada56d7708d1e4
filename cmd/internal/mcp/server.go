// Package mcp offers manager's commands to other agents, as tools of an MCP server. Tasks do not run here, but in
// the process that holds the project's state, as after `manager run --detach`. The result of a tool is the --json
// output of its command without what an agent does not need (lean); its error is the command's message.
//
// Agents are exposed to prompt injection, so they cannot approve commands: a plan with gates waits until the user
// approves it on a terminal, and only the user can grant permissions.
package mcp

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bouldermgr/manager/cmd/internal/view"
	"github.com/bouldermgr/manager/project"
)

type server struct {
	project *project.Project
	start   func(ctx context.Context) (*project.Access, error)
	last    atomic.Pointer[string] // id of the boulder that the agent began or continued last
}

const (
	maxWait = 45               // of the tool wait, in seconds
	maxCall = 50 * time.Second // of any tool; OpenCode 1.18.33 abandons a call after a minute
	maxList = 50               // boulders of the tool list: every line costs the agent tokens
)

var errSlow = errors.New("it takes too long for a tool: ask the user to do it in a terminal, as `manager --help` says")

const instructions = `manager runs tasks that are too big for one agent session: it splits a task into sub-tasks, has each done by an ` +
	`agent session of its own, and checks the results. Hand a task over with run, or look at its plan first with plan. Follow it ` +
	`with wait, passing on the cursor, until its status is completed, partial, failed or cancelled; then read report, and land ` +
	`isolated results (unlanded). Where the reason says that the user has to agree to a plan, or a permission is asked for, only ` +
	`the user can do that, in a terminal: tell them, and do not look for a way around it.`

// New makes the MCP server. start starts the project's background server, which outlives this process; it is called if
// none runs. version is manager's.
func New(p *project.Project, start func(ctx context.Context) (*project.Access, error), version string) *mcp.Server {
	s := &server{project: p, start: start}
	to := mcp.NewServer(&mcp.Implementation{Name: "manager", Version: version}, &mcp.ServerOptions{
		Instructions: instructions, Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}}, // the list never changes
	})
	add(to, "plan", false, "Have a model split a task into sub-tasks, without running them. Returns a boulder_id at once; wait "+
		"returns the plan when it is made. resume runs it; boulder and comment have it revised first. If it has gates, commands that check the work, the user has to agree first.", s.plan)
	add(to, "run", false, "Hand a task over. It is split, run and checked in the background. Returns a boulder_id at once. Give the task "+
		"alone, or a plan of your own. A plan with gates waits until the user agrees to it on a terminal.", s.run)
	add(to, "list", true, "The project's newest boulders, with the boulder_id, task and status of each.", s.list)
	add(to, "status", true, "How a boulder stands: its sub-tasks, what is at work, what it cost.", s.status)
	add(to, "wait", true, "Wait for news of a boulder: a plan, a sub-task that is over, a question, a stop, the end. Returns at once "+
		"if it has ended or needs something (resumable: the tool resume continues it; else the reason says what it needs), and "+
		"after some time in any case. Give the cursor that it returned to get what is new since then.", s.wait)
	add(to, "blockers", true, "Questions that agents recorded, the most urgent first. With awaited, a sub-task waits for the answer.", s.blockers)
	add(to, "answer", false, "Answer a question, once. What you do not know for sure, ask the user. Permissions are the user's to give.", s.answer)
	add(to, "note", false, "Tell the agents and the judge of a boulder something. It goes into their next prompts.", s.note)
	add(to, "pause", false, "Pause a boulder: nothing new starts.", s.pause)
	add(to, "resume", false, "Continue a paused or interrupted boulder, or run what plan has made.", s.resume)
	add(to, "report", true, "What was done, how it was verified, what is open, and what to do next.", s.report)
	add(to, "land", false, "Bring the results of an isolated boulder that is over into the user's files, or onto a new branch. If anything "+
		"conflicts, nothing is written, unless with merge; undo takes that back.", s.land)
	return to
}

// add adds a tool. do returns the objects of its result, which may be partial with an error.
func add[In any](to *mcp.Server, name string, reads bool, what string, do func(context.Context, In) ([]any, error)) {
	tool := &mcp.Tool{Name: name, Description: what, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: reads}, InputSchema: schemaOf[In]()}
	mcp.AddTool(to, tool, func(ctx context.Context, _ *mcp.CallToolRequest, in In) (*mcp.CallToolResult, any, error) {
		ctx, cancel := context.WithTimeoutCause(ctx, maxCall, errSlow)
		defer cancel()
		objects, err := do(ctx, in)
		var said strings.Builder
		if len(objects) == 0 && err == nil {
			said.WriteString("none") // a model takes an empty text for no answer
		}
		for _, o := range objects {
			short, leanErr := lean(o)
			if leanErr == nil {
				leanErr = view.WriteJSON(&said, short)
			}
			if leanErr != nil {
				return nil, nil, leanErr
			}
		}
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			said.WriteString(project.Message(err))
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: said.String()}}, IsError: err != nil}, nil, nil
	})
}

// schemaOf describes the arguments of a tool.
func schemaOf[In any]() *jsonschema.Schema {
	s, err := jsonschema.For[In](nil)
	if err != nil {
		panic(err) // the types are below
	}
	if plan := s.Properties["plan"]; plan != nil {
		plan.Types = []string{"object", "string"}
		plan.Properties = map[string]*jsonschema.Schema{"task": {Type: "string"}, "sub_tasks": {Type: "array", Items: &jsonschema.Schema{
			Type: "object",
			Properties: map[string]*jsonschema.Schema{
				"id": {Type: "string"}, "subject": {Type: "string"}, "description": {Type: "string"},
				"success_criteria": listOfStrings(), "depends_on": listOfStrings(), "gates": listOfStrings(),
			},
		}}}
	}
	return s
}

func listOfStrings() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "array", Items: &jsonschema.Schema{Type: "string"}}
}

type (
	boulderInput struct {
		Boulder string `json:"boulder,omitempty" jsonschema:"its id, or a beginning or end of it that no other has; default: the one that you began or continued last, else the only one at work"`
	}
	waitInput struct {
		boulderInput
		Cursor  uint64 `json:"cursor,omitempty" jsonschema:"what the last wait returned; without it, all that has happened is news"`
		Seconds uint   `json:"seconds,omitempty" jsonschema:"how long to wait, at most 45, which is the default"`
	}
	noteInput struct {
		boulderInput
		SubTask string `json:"sub_task,omitempty" jsonschema:"id of the only sub-task that it is for"`
		Text    string `json:"text"`
	}
	pauseInput struct {
		boulderInput
		Now bool `json:"now,omitempty" jsonschema:"stop the turns that are at work, too; a resume takes them up again"`
	}
	landInput struct {
		boulderInput
		How    string `json:"how,omitempty" jsonschema:"files (the default) or branch"`
		Branch string `json:"branch,omitempty" jsonschema:"name of the new branch; default: made from the task"`
		Merge  bool   `json:"merge,omitempty" jsonschema:"with files: write what does not conflict, and conflict markers where it does, which the user or you resolve then"`
		Undo   bool   `json:"undo,omitempty" jsonschema:"instead: take back what merge wrote"`
		DryRun bool   `json:"dry_run,omitempty" jsonschema:"only say what would be done"`
	}
	planInput struct {
		Task    string `json:"task,omitempty" jsonschema:"what to do, with all that has to be known for it: every agent gets it word for word"`
		Boulder string `json:"boulder,omitempty" jsonschema:"instead of a task: the boulder whose waiting plan is to be revised"`
		Comment string `json:"comment,omitempty" jsonschema:"of a revision: what should be different"`
	}
	runInput struct {
		Task string `json:"task,omitempty" jsonschema:"what to do, with all that has to be known for it: every agent gets it word for word"`
		Plan any    `json:"plan,omitempty" jsonschema:"instead of a task, a plan: {task, sub_tasks: [{id, description, success_criteria, depends_on, gates: [shell command that must exit 0]}]}; an object, or YAML or JSON in a string"`
	}
	blockersInput struct {
		Boulder string `json:"boulder,omitempty" jsonschema:"only those of this boulder"`
		All     bool   `json:"all,omitempty" jsonschema:"also what is obsolete or settled"`
	}
	answerInput struct {
		Blocker string `json:"blocker" jsonschema:"its id, as B7"`
		Answer  string `json:"answer,omitempty" jsonschema:"goes to the agent word for word; the number of an option: that option"`
		Skip    bool   `json:"skip,omitempty" jsonschema:"give no answer: the sub-task continues without"`
	}
)
