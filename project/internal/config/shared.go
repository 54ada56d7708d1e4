package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/internal/yamlfile"
)

// File is a configuration file to load.
type File struct {
	Path string
	// Trusted is set for a file that comes with the repository, for everybody. Unless it accepts the content, only what is
	// harmless counts: whoever writes there must not have this user's manager run or reach anything.
	Trusted func(content []byte) bool
}

// Untrusted is a file that is not trusted, and sets what only a trusted one may.
type Untrusted struct {
	Path    string           `json:"file"`
	Content []byte           `json:"-"`
	Ignored []yamlfile.Entry `json:"ignored"` // what does not count; never empty
}

// readUntrusted reads the file of a repository, of which only what is harmless counts.
func (c *Config) readUntrusted(name string, data []byte) error {
	all := Default()
	all.Limits.Models = nil
	if err := all.read(name, data); err != nil {
		return err
	}
	harmless, u := c.harmless(all), &Untrusted{Path: name, Content: data}
	for _, key := range keysIn(all.origins) {
		if take, ok := harmless[key]; ok {
			take()
			c.learnOrigins(all, key)
		} else {
			u.Ignored = append(u.Ignored, yamlfile.Entry{Key: key, Value: all.text(key)})
		}
	}
	if len(u.Ignored) > 0 {
		c.Untrusted = u
	}
	return nil
}

// harmless returns, by key, how to take over what a file may set although it is not trusted: it runs nothing, sends nothing
// anywhere and lets agents do nothing more. A budget or a limit of the user's is not among it, nor is anything that is not
// listed here.
func (c *Config) harmless(from *Config) map[string]func() {
	return map[string]func(){
		"model":           func() { c.Model = from.Model },
		"effort":          func() { c.Effort = from.Effort },
		"ledger_model":    func() { c.LedgerModel = from.LedgerModel },
		"models.fallback": func() { c.Models.Fallback = from.Models.Fallback },
		"models.describe": func() {
			for model, good := range from.Models.Describe {
				if c.Models.Describe == nil {
					c.Models.Describe = map[string]string{}
				}
				c.Models.Describe[model] = good
			}
		},
		"agent":           func() { c.Agent = from.Agent },
		"plan.look":       func() { c.Plan.Look = from.Plan.Look },
		"plan.look_model": func() { c.Plan.LookModel = from.Plan.LookModel },
		"review":          func() { c.Review = from.Review },
		"gate_timeout":    func() { c.GateTimeout = from.GateTimeout },
		"isolation":       func() { c.Isolation = from.Isolation },
		"scope":           func() { c.Scope = from.Scope },
	}
}

// keysIn lists the keys that a file sets, sorted: lists and the maps below [Models].Describe are one each.
func keysIn(origins map[string]string) (keys []string) {
	all := map[string]bool{}
	for path := range origins {
		path, _, _ = strings.Cut(path, "[")
		if strings.HasPrefix(path, "models.describe.") {
			path = "models.describe"
		}
		all[path] = path != ""
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		above := slices.ContainsFunc(slices.Collect(maps.Keys(all)), func(other string) bool { return strings.HasPrefix(other, key+".") })
		if all[key] && !above {
			keys = append(keys, key)
		}
	}
	return keys
}

// text returns the value of a key for people.
func (c *Config) text(key string) string {
	var parts []string
	for _, e := range yamlfile.Entries(c) {
		if e.Key == key {
			return e.Value
		}
		if below, ok := strings.CutPrefix(e.Key, key+"["); ok {
			parts = append(parts, strings.Replace(below, "].", ".", 1)+": "+e.Value)
		}
	}
	if parts == nil {
		return "off, or empty"
	}
	return strings.Join(parts, ", ")
}

func (c *Config) learnOrigins(from *Config, key string) {
	if c.origins == nil {
		c.origins = map[string]string{}
	}
	for path, place := range from.origins {
		if path == key || strings.HasPrefix(path, key+"[") || strings.HasPrefix(path, key+".") {
			c.origins[path] = place
		}
	}
}

// another reports whether a file is another program's: none of its keys is one of a configuration.
func another(name string, data []byte) bool {
	c := Default()
	file, err := yamlfile.Decode(name, data, c)
	return err == nil && file.Err() != nil && len(keysIn(pathsOf(file))) == 0
}

func pathsOf(file *yamlfile.File) map[string]string {
	all := map[string]string{}
	for path := range file.Paths() {
		all[path] = path
	}
	return all
}
