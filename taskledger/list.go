package taskledger

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// ErrNoList is in the chain of the error if a task is not a list that [FromList] accepts.
var ErrNoList = errors.New("the task is not a numbered list of 2 to 5 steps")

// FromList makes a plan of the numbered list in a task, without a model: each step is a sub-task that depends on the
// one before. As after [Planner.Plan], the seal lacks only the base commit.
//
// A step starts a line with its number, from 1, and a dot or a bracket, and extends to the next number, with any lists
// and code. The last step ends before the first empty line that precedes an unindented line. The first line before the
// list is the goal; every brief has the whole task. The error wraps [ErrNoList] and says what would be right.
func FromList(req boulder.PlanRequest, now time.Time) (*boulder.Plan, error) {
	before, steps, err := splitList(clean(req.Task))
	switch n := len(steps); {
	case err != nil:
	case n < minSplit:
		err = fmt.Errorf("it has %d: run it as it is with --direct, or let it be planned", n)
	case n > maxSplit:
		err = fmt.Errorf("it has %d: merge some, or write a plan file, which may have any number of sub-tasks", n)
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
	return Seal(p, boulder.OriginList, "", now), nil
}

const maxGoal = 200

// listItem matches the first line of a step: its indentation, number and text.
var listItem = text.Regexp(`^([ \t]*)(\d{1,3})[.)][ \t]+(\S.*)$`)

// splitList returns the text before the list, and its steps without their numbers.
func splitList(text string) (before string, steps []string, err error) {
	var (
		outer, inner int  // indentation of the newest step and of its text
		end          = -1 // end of that step if no other follows; -1: not known yet
		fenced       bool // inside a block of code
		gap          bool // the previous line was empty
	)
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \t\r\n")
		body := strings.TrimLeft(line, " \t")
		indent := len(line) - len(body)
		if m := listItem().FindStringSubmatch(line); m != nil && !fenced && (len(steps) == 0 || indent < inner) {
			number, _ := strconv.Atoi(m[2]) // of at most three digits
			switch want := len(steps) + 1; {
			case number == want:
			case want == 1:
				return "", nil, fmt.Errorf("its first number is %d: begin with 1", number)
			default:
				return "", nil, fmt.Errorf("the number %d stands where %d should: number the steps one after the other, in one list",
					number, want)
			}
			outer, inner, end, gap = indent, len(line)-len(m[3]), -1, false
			steps = append(steps, m[3])
			continue
		}
		if len(steps) == 0 {
			before += line + "\n"
		} else {
			step := &steps[len(steps)-1]
			if gap && end < 0 && !fenced && line != "" && indent <= outer {
				end = len(*step)
			}
			*step += "\n" + line[min(indent, inner):]
		}
		gap = body == ""
		if strings.HasPrefix(body, "```") || strings.HasPrefix(body, "~~~") {
			fenced = !fenced
		}
	}
	if len(steps) == 0 {
		return "", nil, errors.New(`there is none; begin each step on a line of its own, as in "1. Add the toggle"`)
	}
	if last := &steps[len(steps)-1]; end >= 0 {
		*last = (*last)[:end]
	}
	for i := range steps {
		steps[i] = strings.TrimSpace(steps[i])
	}
	return before, steps, nil
}
