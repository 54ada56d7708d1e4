package taskledger

import (
	"fmt"
	"slices"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/yamlfile"
)

// Problem is one thing that is wrong in a plan file.
type Problem = yamlfile.Problem

// FileError says everything that is wrong in a plan file, in the order of the file.
type FileError = yamlfile.Error

// ReadFile reads a plan file as [Parse] does. A file that is not there or cannot be read is an error that wraps the one
// of the file system (fs.ErrNotExist); one that is no plan is a [*FileError].
func ReadFile(path string) (*boulder.Plan, error) {
	data, err := yamlfile.Read(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// Parse reads a plan from YAML or JSON. name stands for the file in messages. All problems are collected in one
// [*FileError].
//
// Strict: unknown and repeated keys, wrong types, ids that are taken, bad or longer than 64 bytes, dependencies that
// are missing or circular, more than one document, anchors, aliases, tags. Lenient, because each has only one reading:
// a single value where a list is wanted is a list of one; any scalar where a text is wanted is that text as it is
// written (`id: 007` is "007", the gate `true` is "true"); a key without a value counts as absent. What may be left out
// is filled in, see the package comment; the version is 1 then, the task is the goal, or else the subjects.
func Parse(name string, data []byte) (*boulder.Plan, error) {
	plan := &boulder.Plan{}
	file, err := yamlfile.Decode(name, data, plan)
	if err != nil {
		return nil, err
	}
	if file.Empty() {
		return nil, file.Just("", "the file is empty", "write a plan, or make one with `manager plan \"TASK\"`")
	}
	fill(plan)
	if plan.Version != boulder.PlanVersion { // then nothing else can be judged
		return nil, file.Just("version",
			fmt.Sprintf("this plan has version %d, this manager reads version %d", plan.Version, boulder.PlanVersion),
			"install a newer manager, or plan again with this one")
	}
	check(plan, file.Report)
	wrongSeal := func(key, what string) {
		file.Report("seal."+key, what, "restore it, or remove the whole seal: the plan is then taken as written by hand")
	}
	switch s := plan.Seal; {
	case s == nil:
	case !slices.Contains(origins, s.Origin):
		wrongSeal("origin", fmt.Sprintf("the seal's origin is %q, not model, direct, fallback, list, replan or hand", s.Origin))
	case s.Hash == "":
		wrongSeal("hash", "the seal has no hash")
	case s.CreatedAt.IsZero():
		wrongSeal("created_at", "the seal has no created_at")
	}
	if err := file.Err(); err != nil {
		return nil, err
	}
	return plan, nil
}

var origins = []boulder.Origin{
	boulder.OriginModel, boulder.OriginDirect, boulder.OriginFallback, boulder.OriginHand, boulder.OriginList,
	boulder.OriginReplan,
}
