package config

import (
	_ "embed"

	"github.com/bouldermgr/manager/internal/yamlfile"
)

// Example is a configuration file with every key and its purpose.
//
//go:embed example.yaml
var Example string

// Entry is an effective value.
type Entry struct {
	yamlfile.Entry
	Origin string `json:"origin"` // such as config.yaml:3, or "default" if no file sets it
}

// Entries lists the effective values in the order of [Config], without empty ones.
func (c *Config) Entries() (all []Entry) {
	for _, e := range yamlfile.Entries(c) {
		origin, said := c.origins[e.Key]
		if !said {
			origin = "default"
		}
		all = append(all, Entry{e, origin})
	}
	return all
}
