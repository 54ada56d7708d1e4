package view

import (
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/workspace"
)

// Land is what `manager land --json` prints: one object.
type Land struct {
	Type      string `json:"type"` // land
	BoulderID string `json:"boulder_id"`
	boulder.Landed
	Files  []workspace.Change `json:"files,omitempty"`
	DryRun bool               `json:"dry_run"`
}
