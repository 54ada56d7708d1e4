package taskledger

import (
	"fmt"
	"io"
	"os"

	"github.com/bouldermgr/manager/boulder"
)

// maxFile bounds a plan file, in bytes. 10,000 sub-tasks of a few lines fit well.
const maxFile = 4 << 20

// ReadFile reads a plan file as [Parse] does. A file that is not there or cannot be read is an error that wraps the one
// of the file system (fs.ErrNotExist); one that is no plan is a [*FileError].
func ReadFile(path string) (*boulder.Plan, error) {
	data, err := readPlanFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

func readPlanFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the plan: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the plan: %w", err)
	case info.IsDir():
		return nil, fileProblem(path, "this is a directory", "name the plan file in it")
	case info.Size() > maxFile:
		return nil, tooLarge(path, info.Size())
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1)) // the size of a pipe is not known beforehand
	if err != nil {
		return nil, fmt.Errorf("read the plan %s: %w", path, err)
	}
	return data, nil
}

func tooLarge(name string, size int64) error {
	return fileProblem(name,
		fmt.Sprintf("a plan file of %.1f MiB is too large, the limit is %d MiB", float64(size)/(1<<20), maxFile>>20),
		"check that this is the plan; long material belongs into files of the project that the descriptions name")
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
	if len(data) > maxFile {
		return nil, tooLarge(name, int64(len(data)))
	}
	found := &problems{file: name}
	root := parseSyntax(data, found)
	if len(found.all) > 0 {
		return nil, found.err()
	}
	d := newDecoder(found)
	plan := d.plan(root)
	fill(plan)
	if newer := checkVersion(plan); newer != nil { // then nothing else can be judged
		found.all = nil
		d.report(newer)
		return nil, found.err()
	}
	d.report(check(plan))
	if err := found.err(); err != nil {
		return nil, err
	}
	return plan, nil
}
