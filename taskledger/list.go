package taskledger

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// ErrNoList is in the chain of the error when a task is no list that [FromList] can take.
var ErrNoList = errors.New("the task is not a numbered list of 2 to 5 steps")

// FromList makes a plan of the numbered list that the user wrote in a task, without a model: each step is a sub-task
// that depends on the one before. It has a seal that lacks only the base commit, as plans of [Planner.Plan] do.
//
// A step begins a line with its number, from 1, and a dot or a bracket; what follows up to the next number belongs to
// it, lists and code in it included. The last step ends before the first empty line that is followed by a line without
// indentation. The first line before the list is the goal; all of the task is part of every brief. The error wraps
// [ErrNoList] and says what would be right.
func FromList(req boulder.PlanRequest, now time.Time) (*boulder.Plan, error) {
	before, steps, err := splitList(clean(req.Task))
	if err == nil && (len(steps) < minSplit || len(steps) > maxSplit) {
		err = fmt.Errorf("it has %d: %s", len(steps), remedy(len(steps)))
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoList, err)
	}
	p := request(req)
	p.Goal = text.Cut(strings.TrimRight(strings.TrimLeft(headline(before), "# "), ": "), maxGoal)
	for _, step := range steps {
		p.SubTasks = append(p.SubTasks, boulder.Spec{Description: step})
	}
	fill(p)
	for i := range p.SubTasks[1:] {
		p.SubTasks[i+1].DependsOn = []string{p.SubTasks[i].ID}
	}
	return Seal(p, "", boulder.OriginList, "", now), nil
}

// maxGoal bounds a goal that is taken from another text, in characters.
const maxGoal = 200

func remedy(steps int) string {
	if steps < minSplit {
		return "run it as it is with --direct, or let it be planned"
	}
	return "merge some, or write a plan file, which may have any number of sub-tasks"
}

// listItem matches the first line of a step: its indentation, number and text.
var listItem = regexp.MustCompile(`^([ \t]*)(\d{1,3})[.)][ \t]+(\S.*)$`)

// splitList gives the text before the list, and its steps without their numbers.
func splitList(text string) (before string, steps []string, err error) {
	var l listReader
	for line := range strings.Lines(text) {
		if err := l.line(strings.TrimRight(line, " \t\r\n")); err != nil {
			return "", nil, err
		}
	}
	if len(l.items) == 0 {
		return "", nil, errors.New(`there is none; begin each step on a line of its own, as in "1. Add the toggle"`)
	}
	if last := &l.items[len(l.items)-1]; l.end >= 0 {
		*last = (*last)[:l.end]
	}
	for _, item := range l.items {
		steps = append(steps, strings.TrimSpace(strings.Join(item, "\n")))
	}
	return strings.Join(l.before, "\n"), steps, nil
}

// listReader collects a list line by line.
type listReader struct {
	before []string
	items  [][]string
	indent int  // of the newest item
	inner  int  // of its text
	end    int  // lines of it that belong to it even if no other item follows; -1: all of them
	fenced bool // inside of a block of code
	gap    bool // the line before was empty
}

func (l *listReader) line(line string) error {
	body := strings.TrimLeft(line, " \t")
	indent := len(line) - len(body)
	m := listItem.FindStringSubmatch(line)
	if m == nil || l.fenced || len(l.items) > 0 && indent >= l.inner {
		l.add(line, indent)
		l.gap = body == ""
		if strings.HasPrefix(body, "```") || strings.HasPrefix(body, "~~~") {
			l.fenced = !l.fenced
		}
		return nil
	}
	number, _ := strconv.Atoi(m[2]) // of at most three digits
	switch want := len(l.items) + 1; {
	case number == want:
	case want == 1:
		return fmt.Errorf("its first number is %d: begin with 1", number)
	default:
		return fmt.Errorf("the number %d stands where %d should: number the steps one after the other, in one list",
			number, want)
	}
	l.indent, l.inner, l.end, l.gap = indent, len(line)-len(m[3]), -1, false
	l.items = append(l.items, []string{m[3]})
	return nil
}

// add gives a line that begins no step to what it belongs to.
func (l *listReader) add(line string, indent int) {
	if len(l.items) == 0 {
		l.before = append(l.before, line)
		return
	}
	item := &l.items[len(l.items)-1]
	if l.gap && l.end < 0 && !l.fenced && line != "" && indent <= l.indent {
		l.end = len(*item)
	}
	*item = append(*item, line[min(indent, l.inner):])
}
