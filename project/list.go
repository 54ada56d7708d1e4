package project

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/secret"
	"github.com/bouldermgr/manager/project/internal/tasklist"
	"github.com/bouldermgr/manager/taskledger"
)

// TaskList is a list of tasks of another tool, read as a plan.
type TaskList = tasklist.List

// TaskNote tells one thing of a list that is not in the plan as it stands there.
type TaskNote = tasklist.Note

// UnknownList is the error for a file that is no list of tasks.
type UnknownList = tasklist.Unknown

// ListKinds names the lists that [Project.ReadList] reads.
const ListKinds = tasklist.Kinds

// ReadList makes a plan of a list of tasks that another tool keeps, without a model. path stands for the file in messages. Of
// a Task Master file it takes the tasks of a tag; if none is given, of the one that is current there. boxes makes a checklist of
// any text with boxes. The plan is as good as one in a file: it is sealed, for no commit, and secrets are taken out. If data is
// no list, the error is an [*UnknownList].
func (p *Project) ReadList(path string, data []byte, tag string, boxes bool) (*TaskList, error) {
	if tag == "" {
		tag = currentTag(path)
	}
	list, err := tasklist.Read(path, data, tasklist.Options{Tag: tag, Now: time.Now(), Boxes: boxes})
	if err != nil {
		return nil, err
	}
	plan, err := p.cleanPlan("The list "+path, taskledger.Seal(list.Plan, boulder.OriginList, "", time.Now()))
	if err != nil {
		return nil, err
	}
	plan.Reseal()
	list.Plan = plan
	if _, err := taskledger.Format(plan); err != nil { // that it can be written says that it can be run
		return nil, usagef("the plan of %s: %w", path, err)
	}
	list.Notes, list.Remarks = secret.Each(list.Notes, p.secrets), secret.Each(list.Remarks, p.secrets)
	return list, nil
}

// currentTag returns the tag that Task Master's state file names for its tasks.json, or "".
func currentTag(path string) string {
	if filepath.Base(path) != "tasks.json" {
		return ""
	}
	var state struct{ CurrentTag string }
	data, err := os.ReadFile(filepath.Join(filepath.Dir(path), "..", "state.json"))
	if err != nil || json.Unmarshal(data, &state) != nil {
		return ""
	}
	return state.CurrentTag
}
