package executor

import (
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/opencode"
)

// account is what evidence needs to know of all messages of a session, and not of its newest turn alone.
type account struct {
	promised bool                                // the agent said that everything is done, see [boulder.Promise]
	marked   bool                                // or gave [boulder.DoneMarker], which counts where it is diverted
	tools    bool                                // a tool was called
	commands bool                                // by one that may write files without saying which
	edited   map[string]bool                     // files that editing tools wrote, as the calls name them
	failing  map[string][]opencode.LanguageError // the newest word of the language servers, by file
}

// add takes in a message. The order matters: the newest diagnostics win.
func (a *account) add(m opencode.Message) {
	if m.Info.Role == opencode.RoleAssistant && !m.Info.Compacted {
		text := m.Text()
		a.promised = a.promised || enforcer.Promised(text)
		a.marked = a.marked || enforcer.Marked(text, boulder.DoneMarker)
	}
	for _, p := range m.Parts {
		if p.Tool == nil {
			continue
		}
		a.tools = true
		a.commands = a.commands || p.Tool.Tool == "bash" || p.Tool.Tool == "task"
		files := p.Tool.EditedFiles()
		for _, f := range files {
			setIn(&a.edited, f)
		}
		if len(files) == 0 {
			continue
		}
		if byFile, known := p.Tool.LanguageErrors(); known {
			a.failing = byFile
		}
	}
}
