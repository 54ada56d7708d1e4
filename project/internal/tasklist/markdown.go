package tasklist

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/internal/text"
)

// line is a line of Markdown.
type line struct {
	n       int // from 1
	text    string
	code    bool // in a block of code, or its fence
	heading int  // its level; 0: none
	title   string
	box     byte // ' ' or 'x'; 0: none
	indent  int  // of a box, in columns
	boxed   string
}

var (
	headed   = text.Regexp(`^ {0,3}(#{1,6})[ \t]+(.*?)[ \t]*#*$`)
	boxed    = text.Regexp(`^([ \t]*(?:>[ \t]*)?)(?:[-*+]|\d{1,4}[.)])[ \t]+\[([ xX✓✔])\](?:[ \t]+(.*))?$`)
	fenced   = text.Regexp("^[ \t]*(?:[-*+][ \t]+)?(`{3,}|~{3,})[ \t]*([^`\\s]*)[^`]*$")
	taskHead = text.Regexp(`(?i)^(?:\W*\[([ xX])\]\s*)?(?:[^\w\s\[]+\s*)?(?:(?:Task|Iteration|Story|Issue)\s+#?(\d[\w.]*|[A-Z]{1,5}-?\d+)|(US-\d+))` +
		`\s*(?:[:.)\]–—-]+\s*|\s+|$)(.*)$`)
	ticked   = text.Regexp(`(?i)(?:\s*\[x\]|\s*[✅✓✔]|\s*\((?:done|completed?)\)|\s*\[(?:done|completed?)\])\s*$`)
	phase    = text.Regexp(`(?i)^(?:Phase|Milestone|Epic|Part|Stage|Sprint|Chunk)\b`)
	labelled = text.Regexp(`(?i)^[ \t]*(?:[-*+][ \t]+)?\**(depends on|dependencies|depends|blocked by|after|acceptance criteria|success criteria|` +
		`done when|definition of done|verification|verify|test command|tests?|run|validation|expected)\**[ \t]*:\**[ \t]*(.*)$`)
	planKey = text.Regexp(`(?m)^sub_tasks:`)
	number  = text.Regexp(`\d[\w.]*\w|\d|\b[A-Z]{1,5}-\d+\b`)
	noTask  = text.Regexp(`(?i)^\W*(?:none|no|nothing|n/a|-+)\W*$`)
	toFail  = text.Regexp(`(?i)\b(?:fails?|failing|failure|error|red|non-?zero)\b`) // as is expected of a test before the work
	noFault = text.Regexp(`(?i)\b(?:no|0|zero|without) (?:fail\w*|errors?)`)
)

// taskID returns the id of "Task 3", or of "US-003".
func taskID(s string) string { return text.If(s[0] >= '0' && s[0] <= '9', "task-") + s }

// scan reads lines and knows blocks of code. In a block of Markdown, blocks may be nested.
func scan(doc string) (lines []line, unclosed int) {
	var fences []string // that are open
	nested := false
	for n, s := range strings.Split(strings.TrimRight(doc, "\n"), "\n") {
		l := line{n: n + 1, text: strings.TrimRight(s, " \t")}
		if m := fenced().FindStringSubmatch(l.text); m != nil {
			l.code = true
			switch {
			case len(fences) == 0:
				fences, unclosed = []string{m[1]}, l.n
				nested = m[2] == "markdown" || m[2] == "md"
			case m[2] == "" && m[1][0] == fences[len(fences)-1][0] && len(m[1]) >= len(fences[len(fences)-1]):
				fences = fences[:len(fences)-1]
			case m[2] != "" && nested && m[1][0] == fences[0][0] && len(m[1]) >= len(fences[0]):
				fences = append(fences, m[1])
			}
		} else if l.code = len(fences) > 0; !l.code {
			if m := headed().FindStringSubmatch(l.text); m != nil {
				l.heading, l.title = len(m[1]), m[2]
			} else if m := boxed().FindStringSubmatch(l.text); m != nil {
				l.indent, l.box, l.boxed = len(strings.ReplaceAll(m[1], "\t", "    ")), ' ', m[3]
				if m[2] != " " {
					l.box = 'x'
				}
			}
		}
		lines = append(lines, l)
	}
	if len(fences) == 0 {
		unclosed = 0
	}
	return lines, unclosed
}

// looksLikeMarkdown reports whether a text that begins with a bracket has headings or boxes.
func looksLikeMarkdown(data []byte) bool {
	lines, _ := scan(tidy(string(data)))
	for _, l := range lines {
		if l.heading > 0 || l.box != 0 {
			return true
		}
	}
	return false
}

// readMarkdown reads tasks that are headings, else a checklist.
func (r *reader) readMarkdown(doc string) error {
	lines, unclosed := scan(doc)
	r.oneByOne, r.closes = true, true
	tasks, boxes := 0, 0
	for i, l := range lines {
		if i == 0 && l.text == "---" { // front matter
			for j := 1; j < len(lines); j++ {
				lines[j].box, lines[j].heading = 0, 0
				if lines[j].text == "---" {
					break
				}
			}
		}
		if l.heading > 0 && taskHead().MatchString(l.title) {
			tasks++
		}
		if l.box != 0 {
			boxes++
		}
	}
	if unclosed > 0 {
		r.note(unclosed, "", Unread, "a block of code that does not end: no task is looked for in it")
	}
	if tasks > 0 {
		r.list.Kind = markdown
		r.readTasks(lines)
		return nil
	}
	return r.readChecklist(doc, lines, boxes)
}

func struckOut(s string) bool {
	return len(s) > 4 && strings.HasPrefix(s, "~~") && strings.HasSuffix(s, "~~")
}

// section is a heading with the lines below it.
type section struct {
	line
	lines []line
}

// sections cuts lines at headings; the first section has none.
func sections(lines []line) (all []section) {
	all = []section{{}}
	for _, l := range lines {
		if l.heading > 0 {
			all = append(all, section{line: l})
			continue
		}
		last := &all[len(all)-1]
		last.lines = append(last.lines, l)
	}
	return all
}

// readTasks reads headings such as "### Task 3: Filter the list". A task ends at the next heading of its level or above. What
// is outside of tasks is about the whole.
func (r *reader) readTasks(lines []line) {
	var within []*section // the tasks that are open, by depth
	var at []*item
	byItem := map[*item]*section{}
	part := ""
	for _, s := range sections(lines) {
		m := taskHead().FindStringSubmatch(s.title)
		if s.heading == 0 {
			m = nil
		}
		for len(within) > 0 && s.heading > 0 && (s.heading <= within[len(within)-1].heading) {
			within, at = within[:len(within)-1], at[:len(at)-1]
		}
		switch {
		case m != nil:
			title := m[4]
			i := &item{line: s.n, id: taskID(m[2] + m[3]), part: part}
			i.title = cmp.Or(strings.TrimSpace(ticked().ReplaceAllString(title, "")), s.title)
			switch {
			case m[1] == "x", m[1] == "X", ticked().MatchString(title), strings.ContainsAny(strings.TrimSuffix(s.title, title), "✅✓✔"):
				i.state, i.why = done, "done"
			case struckOut(s.title), struckOut(i.title):
				i.state, i.why = gone, "struck out"
			}
			if len(at) > 0 {
				i.parent = at[len(at)-1].id
			}
			r.list.Total++
			r.items = append(r.items, i)
			within, at = append(within, &section{line: s.line, lines: s.lines}), append(at, i)
			byItem[i] = within[len(within)-1]
		case len(within) > 0: // a heading inside of a task
			in := within[len(within)-1]
			in.lines = append(append(in.lines, s.line), s.lines...)
		default:
			if phase().MatchString(s.title) {
				part = s.title
			} else if s.heading > 0 && s.heading <= 2 && part != "" {
				part = ""
			}
			r.outside(s)
		}
	}
	for _, i := range r.items {
		r.readTask(i, byItem[i].lines)
	}
}

var (
	gateHeads = text.Regexp(`(?i)^(?:validation|verification|test|quality|check)\w* (?:commands?|gates?)`)
	limits    = text.Regexp(`(?i)constraint`)
	notGoals  = text.Regexp(`(?i)^(?:non-?goals|not goals|out of scope)`)
	goal      = text.Regexp(`(?i)^\**goal\**:\**\s*(.+)$`)
)

// outside reads what is said of the whole.
func (r *reader) outside(s section) {
	notOurs := notGoals().MatchString(s.title)
	var said []string
	for _, l := range s.lines {
		entry := bullet().FindString(l.text)
		switch {
		case l.code:
			said = append(said, l.text)
		case gateHeads().MatchString(s.title) && (entry != "" || l.box != 0):
			cmd := asCommand(strings.TrimSpace(l.text[len(entry):]))
			if cmd == "" {
				r.sentence(l.n, "", s.title, strings.TrimSpace(l.text[len(entry):]), &r.demands)
				break
			}
			r.gate(&r.gates, l.n, s.title, cmd)
		case entry != "" && (notOurs || limits().MatchString(s.title)):
			r.constraints = appendNew(r.constraints, text.If(notOurs, notGoal)+l.text[len(entry):])
		case l.box != 0:
			r.note(l.n, text.Clip(l.boxed, 40), Left, "a box outside of the tasks")
			said = append(said, l.text)
		default:
			if m := goal().FindStringSubmatch(l.text); m != nil && r.goal == "" {
				r.goal = m[1]
			}
			said = append(said, l.text)
		}
	}
	body := strings.Trim(strings.Join(said, "\n"), "\n")
	switch {
	case s.heading == 1 && r.title == "":
		r.title = s.title
	case s.heading > 0 && body != "":
		r.about = text.JoinedBy("\n\n", r.about, s.text)
	}
	r.about = text.JoinedBy("\n\n", r.about, body)
}

// readTask reads what is below the heading of a task.
func (r *reader) readTask(i *item, lines []line) {
	boxes, ticks := 0, 0
	var said []string
	under := "" // the label that a list belongs to
	for n, l := range lines {
		said = append(said, l.text)
		if l.code {
			continue
		}
		if l.heading > 0 {
			under = strings.ToLower(l.title)
			continue
		}
		if m := labelled().FindStringSubmatch(l.text); m != nil && l.box == 0 {
			under = strings.ToLower(m[1])
			r.label(i, l, under, m[2], lines[n+1:])
			continue
		}
		entry := bullet().FindString(l.text)
		switch {
		case l.box != 0:
			if boxes++; l.box == 'x' {
				ticks++
			} else if step := strings.Trim(l.boxed, "* "); !strings.HasPrefix(step, "Step ") && step != "" {
				i.criteria = appendNew(i.criteria, strings.TrimSpace(strings.TrimLeft(strings.TrimSpace(l.boxed), "➕⚠️ ")))
			}
			for _, cmd := range commandsIn(l.boxed) {
				r.gate(&i.gates, l.n, i.called(), cmd)
			}
		case entry != "" && isCriteria(under):
			i.criteria = appendNew(i.criteria, l.text[len(entry):])
			for _, cmd := range commandsIn(l.text[len(entry):]) {
				r.gate(&i.gates, l.n, i.called(), cmd)
			}
		case entry == "" && l.text != "" && !strings.HasPrefix(l.text, " "):
			under = ""
		}
	}
	i.describe("", strings.Trim(strings.Join(said, "\n"), "\n"))
	switch {
	case i.state != open:
	case boxes > 0 && ticks == boxes:
		i.state, i.why = done, "done: all its boxes are ticked"
	case ticks > 0:
		r.note(i.line, i.called(), Changed, "%d of its %d boxes are ticked: it is told so", ticks, boxes)
		i.describe("", "What is ticked is done already.")
	}
}

func isCriteria(label string) bool {
	return strings.Contains(label, "criteria") || strings.HasPrefix(label, "done when") ||
		strings.HasPrefix(label, "definition of done")
}

// label reads a line such as "**Depends on:** Task 1" or "Run: `go test ./...`".
func (r *reader) label(i *item, l line, label, said string, below []line) {
	switch label {
	case "depends on", "dependencies", "depends", "blocked by", "after":
		var ids []string
		for _, id := range number().FindAllString(said, -1) {
			id = taskID(id)
			if slices.ContainsFunc(r.items, func(other *item) bool { return other.id == id }) {
				ids = append(ids, id)
			}
		}
		if len(ids) == 0 && !noTask().MatchString(said) {
			if strings.TrimSpace(said) != "" {
				r.note(l.n, i.called(), Unread, "%q names no task of the file: it comes after the one before", text.Clip(said, 60))
			}
			return
		}
		i.ordered, i.after = true, appendNew(i.after, ids...)
	case "acceptance criteria", "success criteria", "done when", "definition of done":
		i.criteria = appendNew(i.criteria, strings.Trim(said, "* "))
	case "verification", "verify", "test command", "test", "tests", "run", "validation":
		cmds, rest := block(said, below)
		for _, next := range rest[:min(len(rest), 3)] {
			e := labelled().FindStringSubmatch(next.text)
			if e != nil && strings.EqualFold(e[1], "expected") && toFail().MatchString(noFault().ReplaceAllString(e[2], "")) {
				return
			}
		}
		for _, cmd := range cmds {
			if isCheck(cmd) || strings.HasPrefix(cmd, "(cd ") {
				r.gate(&i.gates, l.n, i.called(), cmd)
			}
		}
	}
}

// block returns the commands behind a label: in backticks, alone on the line, or in the block of code below; and what follows.
func block(said string, below []line) (cmds []string, rest []line) {
	if m := span().FindStringSubmatch(said); m != nil {
		return []string{strings.TrimSpace(m[1])}, below
	}
	if said = strings.TrimSpace(said); said != "" {
		return slices.DeleteFunc([]string{said}, func(cmd string) bool { return !certain().MatchString(cmd) }), below
	}
	at := slices.IndexFunc(below, func(l line) bool { return l.text != "" })
	if at < 0 || !below[at].code {
		return nil, below
	}
	for at++; at < len(below) && below[at].code && !fenced().MatchString(below[at].text); at++ {
		cmds = append(cmds, strings.TrimSpace(below[at].text))
	}
	cmds = slices.DeleteFunc(cmds, func(cmd string) bool { return cmd == "" || strings.HasPrefix(cmd, "#") })
	switch {
	case slices.ContainsFunc(cmds, func(cmd string) bool { return strings.HasSuffix(cmd, "\\") || strings.Contains(cmd, "<<") }):
		cmds = nil // a script, whose lines mean nothing alone
	case len(cmds) > 1 && strings.HasPrefix(cmds[0], "cd ") && slices.ContainsFunc(cmds, isCheck):
		cmds = []string{"(" + strings.Join(cmds, " && ") + ")"}
	}
	return cmds, below[min(len(below), at+1):]
}

// readChecklist reads boxes that are not within others. A text with more other lines than boxes is no checklist.
func (r *reader) readChecklist(doc string, lines []line, boxes int) error {
	var i *item
	var said, about []string
	part, other, deep := "", 0, 0
	ticks, inner := 0, 0
	end := func() {
		if i == nil {
			return
		}
		i.describe("", strings.Trim(strings.Join(said, "\n"), "\n"))
		if i.state == done && ticks < inner {
			i.state, i.why = open, ""
			r.note(i.line, i.called(), Changed, "it is ticked, and %d of its %d inner boxes are not: taken", inner-ticks, inner)
		}
		i, said, ticks, inner = nil, nil, 0, 0
	}
	for _, l := range lines {
		switch in := len(l.text) - len(strings.TrimLeft(l.text, " \t")); {
		case l.heading > 0:
			end()
			if l.heading == 1 && r.title == "" && len(r.items) == 0 {
				r.title = l.title
			} else {
				part = l.title
			}
		case l.box != 0 && (i == nil || l.indent <= deep):
			end()
			r.list.Total++
			if strings.TrimSpace(l.boxed) == "" {
				r.note(l.n, "", Unread, "a box without a text")
				continue
			}
			i, deep = &item{line: l.n, title: strings.TrimSpace(l.boxed), part: part}, l.indent
			if l.box == 'x' {
				i.state, i.why = done, "done"
			}
			if struckOut(i.title) {
				i.state, i.why = gone, "struck out"
			}
			for _, cmd := range commandsIn(l.boxed) {
				r.gate(&i.gates, l.n, i.called(), cmd)
			}
			r.items = append(r.items, i)
		case i != nil && (l.text == "" || in > deep || l.code):
			if l.box != 0 {
				if inner++; l.box == 'x' {
					ticks++
				} else {
					i.criteria = appendNew(i.criteria, l.boxed)
				}
				for _, cmd := range commandsIn(l.boxed) {
					r.gate(&i.gates, l.n, i.called(), cmd)
				}
			}
			said = append(said, strings.TrimPrefix(l.text, strings.Repeat(" ", min(in, deep+2))))
		case l.text != "":
			end()
			if !l.code {
				other++
			}
			about = append(about, l.text)
		}
	}
	end()
	r.about = strings.Join(about, "\n")
	if boxes == 0 || other > boxes && !r.Boxes {
		if planKey().MatchString(doc) {
			return &Unknown{Looks: "looks like a plan of manager", Plan: true}
		}
		with := text.If(boxes == 1, " with a box") + text.If(boxes > 1, fmt.Sprintf(" with %d boxes", boxes))
		return &Unknown{Looks: "looks like prose" + with, Text: true, Boxes: boxes}
	}
	r.list.Kind = checklist
	return nil
}
