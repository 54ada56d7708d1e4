package executor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/opencode"
)

// readingCommands are all that a look's shell may run; what they could write with is taken out again by [writingOptions].
// Reading, listing and searching files have tools of their own.
var readingCommands = []string{"git log", "git show", "git diff", "git blame", "git ls-files", "git status", "ls", "wc"}

// writingOptions are parts of commands by which one that reads writes a file or starts another one, and those by which a shell
// makes such a part of another text. Patterns match the whole text of a command.
var writingOptions = []string{
	"*$*", "*{*", `*\*`, `*-"*`, "*-'*", `*--o"*`, "*--o'*",
	"*>*", "*`*", "*<(*", "*--ou*", "*--ext*", "*--textc*", "*--pag*", "* -c *", "* -c=*", "*--exec*", "*--conf*", "*\n*",
}

// foreignFiles are parts of commands that show what is outside of the project, where OpenCode does not notice, and files that
// the tool for reading may not read.
var foreignFiles = []string{"* ..", "* .. *", "*/..", "*/.. *", "*'..*", `*"..*`, "*--no-i*", "*.env*"}

// secretFiles are what OpenCode by default asks the user about before it is read.
var secretFiles = []string{"*.env", "*.env.*"}

// lookRules are the permissions of a look's session: everything is denied but reading, and the shell altogether unless it is
// given. The last rule that matches decides.
func lookRules(shell bool) []opencode.Rule {
	rules := []opencode.Rule{{Permission: "*", Pattern: "*", Action: opencode.Deny}}
	add := func(permission string, action opencode.Action, patterns ...string) {
		for _, pattern := range patterns {
			rules = append(rules, opencode.Rule{Permission: permission, Pattern: pattern, Action: action})
		}
	}
	for _, tool := range []string{"read", "grep", "glob", "list"} {
		add(tool, opencode.Allow, "*")
	}
	add("read", opencode.Deny, secretFiles...)
	add("bash", opencode.Deny, "*")
	if !shell {
		return rules
	}
	for _, command := range readingCommands {
		add("bash", opencode.Allow, command, command+" *")
	}
	add("bash", opencode.Deny, writingOptions...)
	add("bash", opencode.Deny, foreignFiles...)
	return rules
}

// optionLike reports whether a file below dir has a name that a command takes for an option if the shell puts it for a *.
func optionLike(ctx context.Context, dir string) bool {
	found := errors.New("found")
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case e == nil || err != nil && e.IsDir():
			return fs.SkipDir // what cannot be read has no names for a shell either
		case strings.HasPrefix(e.Name(), "-"):
			return found
		case e.IsDir() && e.Name() == ".git":
			return fs.SkipDir
		}
		return nil
	})
	return err != nil // if it cannot be known, there is no shell
}

// Look implements orchestrator.Looker. The session works in the project's own directory, or, at the tip of an isolated boulder,
// in the slot for combined trees.
func (e *Executor) Look(
	ctx context.Context, job boulder.LookJob, report func(boulder.Body) error,
) (boulder.Looked, boulder.Usage, error) {
	l := &look{job: job, at: job.Look.LookSession}
	var nudges []boulder.Nudge
	if l.at.Nudge != nil {
		nudges = append(nudges, *l.at.Nudge)
	}
	reads := &Executor{cfg: e.cfg}
	rules := *e.cfg.Rules
	rules.WallClock = job.Time
	reads.cfg.Rules, reads.cfg.Asks, reads.cfg.Diverter = &rules, AsksReject, nil
	l.turn = reads.newTurn(boulder.Job{
		BoulderID: job.BoulderID, SubTask: boulder.SubTask{Subject: "Look at the project"}, Resume: job.Resume, Recovered: job.Recovered,
		Attempt: boulder.Attempt{Tag: job.Look.Tag, Model: job.Look.Model, SessionID: l.at.SessionID, Server: l.at.Server},
		Turn: boulder.Turn{
			Number: 1, Kind: boulder.TurnBrief, Prompt: job.Prompt, MessageID: l.at.MessageID, ResumeID: l.at.ResumeID, Nudges: nudges,
		},
		PerTurn: true,
	}, nil)
	l.oneNudge, l.report = true, l.reporting(report)
	defer func() { l.done() }()
	end, usage, err := l.run(ctx)
	end = redacted(e, end)
	switch {
	case err == nil:
		return end, usage, nil
	case ctx.Err() != nil:
		l.abandon(ctx, true)
		return end, usage, context.Cause(ctx)
	}
	l.abandon(ctx, false)
	return end, usage, &cleanedError{err, e.cfg.Redact.Text(err.Error())}
}

// look is the turn of a look.
type look struct {
	*turn
	job boulder.LookJob
	at  boulder.LookSession // as last reported
}

// reporting makes what the turn reports of its session a [boulder.LookSession]. Progress is not reported.
func (l *look) reporting(report func(boulder.Body) error) func(boulder.Body) error {
	return func(b boulder.Body) error {
		switch b := b.(type) {
		case boulder.TurnSent:
			l.at.Server = b.Server
			if b.Resume {
				l.at.ResumeID = b.MessageID
			} else {
				l.at.MessageID = b.MessageID
			}
		case boulder.Nudged:
			l.at.Nudge = &boulder.Nudge{Rule: b.Rule, MessageID: b.MessageID, Prompt: b.Prompt, At: l.cfg.Now().UTC()}
		default:
			return nil
		}
		return report(redacted(l.Executor, l.at))
	}
}

func (l *look) run(ctx context.Context) (end boulder.Looked, usage boulder.Usage, err error) {
	conn, done, err := l.cfg.Host.Use(ctx)
	if err != nil {
		return end, usage, startFault(err)
	}
	l.done = done
	if l.job.Trunk.Base != "" {
		if l.place, err = l.tip(ctx, l.job.BoulderID, l.job.Trunk); err != nil {
			return end, usage, err
		}
		l.place.slot = nil // nothing in it is captured
	}
	l.conn, l.dir = conn, conn.Client.In(l.path)
	if err := l.converse(ctx, l.open); err != nil {
		return end, l.seen.usage, err
	}
	l.asks.End(ctx)
	r, err := l.read(ctx)
	if err != nil {
		return end, l.seen.usage, err
	}
	usage, e := r.evidence.Usage, &r.evidence
	if err := turnFault(l.ending(e, r), l.modelName(r.model)); err != nil {
		return end, usage, err
	}
	if end.Void, end.NotCompared, err = l.changed(ctx); err != nil || end.Void != "" {
		return end, usage, err
	}
	answer, err := l.dir.Message(ctx, l.at.SessionID, r.newest.ID) // the evidence has it cut
	if err != nil {
		return end, usage, fault(err)
	}
	not := end.NotCompared
	if end, err = findings(l.path, answer.Text(), len(l.job.Look.Questions), l.job.Findings); err != nil {
		end.Void = text.JoinedBy("; ", l.seen.stopped, fmt.Sprintf("its answer has no findings that can be read: %v", err))
	}
	end.NotCompared = not
	return end, usage, nil
}

// open finds or creates the look's session.
func (l *look) open(ctx context.Context) error {
	if l.at.SessionID != "" {
		return nil
	}
	looking, cancel := context.WithTimeout(ctx, workspaceTimeout)
	defer cancel()
	var err error
	if l.at.Snapshot, _, err = l.snapshot(looking); err != nil {
		return fmt.Errorf("look at the project before its session: %w", err)
	}
	if l.at.Repo, err = l.cfg.Workspace.Repo(looking); err != nil {
		return fmt.Errorf("look at the project before its session: %w", err)
	}
	shell := !optionLike(looking, l.path)
	session, err := l.adoptOrCreate(ctx, func() []opencode.Rule { return lookRules(shell) })
	if err != nil {
		return fault(err)
	}
	l.at.SessionID, l.turn.job.Attempt.SessionID = session.ID, session.ID
	return nil
}

// changed says why a look after which the project differs is void. Outside of git nothing can be compared.
func (l *look) changed(ctx context.Context) (why string, unknown bool, err error) {
	looking, cancel := context.WithTimeout(ctx, workspaceTimeout)
	defer cancel()
	now, _, err := l.snapshot(looking)
	if err != nil {
		return "", false, fmt.Errorf("look at the project after the session: %w", err)
	}
	if l.at.Snapshot == "" || now == "" {
		return "", true, nil
	}
	if now != l.at.Snapshot {
		diff, err := l.files.Diff(looking, l.at.Snapshot, now, func(string) bool { return false })
		if err != nil {
			l.cfg.Logger.Warn("what changed during a look is not known", "error", err)
		}
		return "files of the project changed while it looked" +
			text.Prefixed(": ", text.Short(strings.Join(paths(diff.Files), ", "), 300)), false, nil
	}
	repo, err := l.cfg.Workspace.Repo(looking)
	if err != nil {
		return "", false, fmt.Errorf("look at the project after the session: %w", err)
	}
	return text.Prefixed("git changed while it looked: ", strings.Join(repo.Since(l.at.Repo), "; ")), false, nil
}
