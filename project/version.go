package project

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/store"
)

// Version differs from an earlier one where the state may have changed meanwhile, whoever changed it. Nothing is opened.
func (p *Project) Version() (v string) {
	for _, name := range []string{store.FileName, blockers.FileName, control.SocketName} {
		if info, err := os.Stat(filepath.Join(p.stateDir(), name)); err == nil {
			v += fmt.Sprintln(name, info.ModTime().UnixNano(), info.Size())
		}
	}
	return v
}
