package project

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/bouldermgr/manager/internal/statedir"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/project/internal/config"
	"github.com/bouldermgr/manager/project/internal/schema"
	"github.com/bouldermgr/manager/store"
)

// Config is a configuration. Its fields are documented in the file that [Project.Init] writes.
type Config = config.Config

// ConfigEntry is a value of a configuration, with the place that it comes from.
type ConfigEntry = config.Entry

// LandAsk is the value of Config.Land with which nothing lands unasked.
const LandAsk = config.LandAsk

// Schemas are the names of the JSON Schemas: of a plan file, a configuration file, and an event of `--json`.
func Schemas() []string { return schema.Names }

// Schema returns a JSON Schema (draft 2020-12) as the content of a file.
func Schema(name string) ([]byte, error) { return schema.Text(name) }

// Init writes a configuration file for the project with every option commented out, and its schema next to it. It
// returns the file's path, and [fs.ErrExist] if there is a configuration. slots is the line of it that brings what copies of the
// project lack, if that is known.
func (p *Project) Init(ctx context.Context) (path, slots string, err error) {
	path = filepath.Join(p.stateDir(), "config.yaml")
	if _, err := os.Lstat(path); err == nil {
		return path, "", fs.ErrExist
	} else if !errors.Is(err, fs.ErrNotExist) {
		return path, "", err
	}
	described, err := schema.Text("config")
	if err != nil {
		return path, "", err
	}
	lacks, slots, err := p.CopiesLack(ctx)
	if err != nil {
		p.log.Debug("it is not known what copies lack", "error", err) // doctor and runs say it
	}
	example := slots
	if len(lacks) > 0 && slots == "" { // what builds can go on with
		if c, _ := p.withMissing(lacks); len(c.Keep) > len(p.cfg.Slots.Keep) {
			example = slotsText(c)
		}
	}
	file := "# yaml-language-server: $schema=config.schema.json\n# Remove the # before what you want. What counts: manager config show --origin\n\n"
	for line := range strings.Lines(config.Example) {
		if example != "" && strings.HasPrefix(line, "slots:") {
			line = example + "   # what copies of this project lack, and may keep: isolation.md\n"
		}
		file += text.If(line != "\n", "# ") + line
	}
	if _, err := store.EnsureDir(p.dir); err != nil {
		return path, "", err
	}
	for name, data := range map[string][]byte{"config.schema.json": described, "config.yaml": []byte(file)} {
		if err := statedir.Write(p.dir, store.DirName+"/"+name, data); err != nil {
			return path, "", fmt.Errorf("write %s: %w", name, err)
		}
	}
	return path, slots, nil
}
