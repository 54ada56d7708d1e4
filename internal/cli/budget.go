package cli

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/internal/yamlfile"
)

// budgetFlag is --budget: `cost=5,time=8h` for the run, `SUBTASK:tokens=200k` for one sub-task; repeatable.
type budgetFlag struct {
	run      *boulder.Budget
	subTasks map[string]boulder.Budget
}

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

// parseBudget reads "tokens=2M,cost=5": what a plan has behind budget: in one line.
func parseBudget(s string, b *boulder.Budget) error {
	for item := range strings.SplitSeq(s, ",") {
		name, limit, _ := strings.Cut(strings.TrimSpace(item), "=")
		if name == "" || limit == "" {
			return fmt.Errorf("%q is not NAME=LIMIT, as in cost=5", item)
		}
		file, err := yamlfile.Decode("", fmt.Appendf(nil, "%q: %q", name, limit), b)
		if err == nil {
			err = file.Err()
		}
		if wrong, ok := errors.AsType[*yamlfile.Error](err); ok {
			return errors.New(strings.TrimSuffix(wrong.Problems[0].What+": "+wrong.Problems[0].Do, ": "))
		}
	}
	return nil
}
