package cli

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// budgetFlag is --budget: `cost=5,time=8h` for the run, `SUBTASK:tokens=200k` for one sub-task; repeatable.
type budgetFlag struct {
	run      *boulder.Budget
	subTasks map[string]boulder.Budget
}

// budgetUsage is the flag's help.
const budgetUsage = "`LIMITS` of the run as tokens=2M,cost=5,time=8h,attempts=20,calls=500 (cost in US dollars)," +
	" or of one sub-task as SUBTASK:tokens=200k; repeatable"

func (f *budgetFlag) String() string { return "" }
func (f *budgetFlag) Type() string   { return "LIMITS" }

// Set takes one value of the flag. What is given for the same budget twice is put together.
func (f *budgetFlag) Set(text string) error {
	id, limits, ofSubTask := strings.Cut(text, ":")
	if !ofSubTask {
		id, limits = "", text
	}
	var b boulder.Budget
	switch {
	case ofSubTask && id == "":
		return fmt.Errorf("%q names no sub-task before the colon", text)
	case ofSubTask:
		b = f.subTasks[id]
	case f.run != nil:
		b = *f.run
	}
	if err := parseBudget(limits, &b); err != nil {
		return err
	}
	if !ofSubTask {
		f.run = &b
		return nil
	}
	if f.subTasks == nil {
		f.subTasks = map[string]boulder.Budget{}
	}
	f.subTasks[id] = b
	return nil
}

// name puts ids in the place of numbers, as in 2:tokens=200k for the second of these sub-tasks.
func (f *budgetFlag) name(ids []string) {
	for _, ref := range slices.Sorted(maps.Keys(f.subTasks)) {
		n, isNumber := subTaskPlace(ref)
		if !isNumber || n > len(ids) || slices.Contains(ids, ref) {
			continue
		}
		if _, given := f.subTasks[ids[n-1]]; !given {
			f.subTasks[ids[n-1]] = f.subTasks[ref]
		}
		delete(f.subTasks, ref)
	}
}

// parseBudget reads "tokens=2M,cost=5".
func parseBudget(text string, b *boulder.Budget) error {
	for item := range strings.SplitSeq(text, ",") {
		name, value, found := strings.Cut(strings.TrimSpace(item), "=")
		if !found {
			return fmt.Errorf("%q is not NAME=LIMIT, as in cost=5", item)
		}
		var err error
		switch name {
		case "tokens":
			b.Tokens, err = amount(value)
		case "calls":
			b.Calls, err = amount(value)
		case "attempts":
			var n int64
			n, err = amount(value)
			b.Attempts = int(min(n, math.MaxInt32))
		case "cost":
			b.Cost, err = strconv.ParseFloat(strings.TrimPrefix(value, "$"), 64)
			if err == nil && !(b.Cost > 0 && b.Cost < math.MaxInt32) {
				err = fmt.Errorf("it must be more than 0")
			}
		case "time":
			err = b.Time.UnmarshalText([]byte(value))
		default:
			return fmt.Errorf("there is no budget %q: use tokens, cost, time, attempts or calls", name)
		}
		if err != nil {
			return fmt.Errorf("budget %s=%s: %w", name, value, err)
		}
	}
	return nil
}

// amount reads a number of things: 1500, 200k, 2M.
func amount(s string) (int64, error) {
	n, ok := text.ParseCount(s)
	if !ok {
		return 0, fmt.Errorf("%q is not a whole number of at least 1, as 1500, 200k or 2M", s)
	}
	return n, nil
}
