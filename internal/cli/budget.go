package cli

import (
	"cmp"
	"errors"
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

func (f *budgetFlag) String() string { return "" }
func (f *budgetFlag) Type() string   { return "LIMITS" }

// Set takes one value of the flag. What is given for the same budget twice is put together.
func (f *budgetFlag) Set(text string) error {
	id, limits, ofSubTask := strings.Cut(text, ":")
	switch {
	case !ofSubTask:
		if f.run == nil {
			f.run = &boulder.Budget{}
		}
		return parseBudget(text, f.run)
	case id == "":
		return fmt.Errorf("%q names no sub-task before the colon", text)
	case f.subTasks == nil:
		f.subTasks = map[string]boulder.Budget{}
	}
	b := f.subTasks[id]
	err := parseBudget(limits, &b)
	f.subTasks[id] = b
	return err
}

// name puts ids in the place of numbers, as in 2:tokens=200k for the second of these sub-tasks. It refuses what is none of
// them, and begins with none then.
func (f *budgetFlag) name(ids []string, none string) error {
	for _, ref := range slices.Sorted(maps.Keys(f.subTasks)) {
		if slices.Contains(ids, ref) {
			continue
		}
		n, isNumber := subTaskPlace(ref)
		if !isNumber || n > len(ids) || ids[n-1] == "" {
			has := strings.Join(slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return id == "" }), ", ")
			return usagef("%s %q to give a budget to; there is %s", none, ref, text.Clip(cmp.Or(has, "none"), 400))
		}
		if _, given := f.subTasks[ids[n-1]]; !given {
			f.subTasks[ids[n-1]] = f.subTasks[ref]
		}
		delete(f.subTasks, ref)
	}
	return nil
}

// parseBudget reads "tokens=2M,cost=5".
func parseBudget(s string, b *boulder.Budget) error {
	for item := range strings.SplitSeq(s, ",") {
		name, value, found := strings.Cut(strings.TrimSpace(item), "=")
		if !found {
			return fmt.Errorf("%q is not NAME=LIMIT, as in cost=5", item)
		}
		count, isCount := text.ParseCount(value)
		var err error
		switch name {
		case "tokens":
			b.Tokens = count
		case "calls":
			b.Calls = count
		case "attempts":
			b.Attempts = int(min(count, math.MaxInt32))
		case "cost":
			b.Cost, err = strconv.ParseFloat(strings.TrimPrefix(value, "$"), 64)
			if err == nil && !(b.Cost > 0 && b.Cost < math.MaxInt32) {
				err = errors.New("it must be more than 0")
			}
			isCount = true
		case "time":
			err = b.Time.UnmarshalText([]byte(value))
			isCount = true
		default:
			return fmt.Errorf("there is no budget %q: use tokens, cost, time, attempts or calls", name)
		}
		if !isCount {
			err = fmt.Errorf("%q is not a whole number of at least 1, as 1500, 200k or 2M", value)
		}
		if err != nil {
			return fmt.Errorf("budget %s=%s: %w", name, value, err)
		}
	}
	return nil
}
