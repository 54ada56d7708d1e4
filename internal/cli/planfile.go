package cli

import (
	"fmt"
	"path/filepath"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/statedir"
	"github.com/bouldermgr/manager/store"
	"github.com/bouldermgr/manager/taskledger"
)

// writePlan writes a plan to a file that a person named, as they would write it, or to the project's own, which is
// below .manager: there a link is not followed, since it may come from anybody.
func writePlan(project, path string, plan *boulder.Plan) error {
	if path != planPath(project) {
		return taskledger.WriteFile(path, plan)
	}
	data, err := taskledger.Format(plan)
	if err != nil {
		return err
	}
	dir, err := statedir.Open(project, store.DirName)
	if err != nil {
		return fmt.Errorf("write the plan: %w", err)
	}
	defer dir.Close()
	if err := dir.Write(filepath.Base(path), data); err != nil {
		return fmt.Errorf("write the plan to %s: %w", path, err)
	}
	return nil
}
