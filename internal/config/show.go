package config

import (
	_ "embed"

	"github.com/bouldermgr/manager/internal/yamlfile"
)

// Example is a configuration file with every key and what it is for.
//
//go:embed example.yaml
var Example string

// Entry is a value in force.
type Entry struct {
	yamlfile.Entry
	Origin string `json:"origin"` // as config.yaml:3; default: no file says it
}

// Entries are the values in force, in the order of [Config]. Values that are empty by default are left out.
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
