package project

import (
	"fmt"
	"path/filepath"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/statedir"
	"github.com/bouldermgr/manager/store"
	"github.com/bouldermgr/manager/taskledger"
)

// WritePlan writes a plan to a file that a person named, as they would write it, or to the project's own, which is
// below .manager: there a link is not followed, since it may come from anybody.
func (p *Project) WritePlan(path string, plan *boulder.Plan) error {
	if path != p.PlanPath() {
		return taskledger.WriteFile(path, plan)
	}
	data, err := taskledger.Format(plan)
	if err != nil {
		return err
	}
	dir, err := statedir.Open(p.dir, store.DirName)
	if err != nil {
		return fmt.Errorf("write the plan: %w", err)
	}
	defer dir.Close()
	if err := dir.Write(filepath.Base(path), data); err != nil {
		return fmt.Errorf("write the plan to %s: %w", path, err)
	}
	return nil
}
