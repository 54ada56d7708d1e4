// Package schema derives JSON Schemas (draft 2020-12) from the types that manager reads and prints.
package schema

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/yamlfile"
	"github.com/bouldermgr/manager/project/internal/config"
)

// Names of the schemas: a plan file, a configuration file, and an event of `--json`.
var Names = []string{"plan", "config", "events"}

// Of returns the schema with a name.
func Of(name string) (*jsonschema.Schema, error) {
	var s *jsonschema.Schema
	var err error
	switch name {
	case "plan":
		s = yamlfile.Schema(reflect.TypeFor[boulder.Plan]())
		s.Required = []string{"sub_tasks"}
		s.Properties["version"].Enum = []any{boulder.PlanVersion}
		s.Properties["sub_tasks"].Items.Required = []string{"description"}
	case "config":
		s = yamlfile.Schema(reflect.TypeFor[config.Config]())
		s.Properties["review"].Type, s.Properties["review"].Types = "", []string{"boolean", "string"}
	case "events":
		s, err = events()
	default:
		err = fmt.Errorf("there is no schema %q", name)
	}
	if err != nil {
		return nil, err
	}
	s.Schema, s.Title = "https://json-schema.org/draft/2020-12/schema", "manager: "+name
	return s, nil
}

// Text returns [Of] as the content of a file.
func Text(name string) ([]byte, error) {
	s, err := Of(name)
	if err != nil {
		return nil, err
	}
	data, err := json.MarshalIndent(s, "", "  ")
	return append(data, '\n'), err
}

// events is the schema of any public event. Later versions add types and fields, which readers must ignore.
func events() (*jsonschema.Schema, error) {
	one := &jsonschema.Schema{}
	for name, body := range boulder.PublicTypes() {
		s, err := jsonschema.ForType(body, &jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
			reflect.TypeFor[boulder.Duration](): {Type: "string"}, reflect.TypeFor[json.RawMessage](): {},
			reflect.TypeFor[boulder.Models](): yamlfile.Schema(reflect.TypeFor[boulder.Models]()),
		}})
		if err != nil {
			return nil, fmt.Errorf("event %s: %w", name, err)
		}
		for _, f := range reflect.VisibleFields(body) {
			if f.Tag.Get("log") == "only" {
				name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				delete(s.Properties, name)
			}
		}
		s.Properties["type"] = &jsonschema.Schema{Const: new(any(name))}
		s.Properties["time"] = &jsonschema.Schema{Type: "string", Format: "date-time"}
		s.Properties["boulder_id"] = &jsonschema.Schema{Type: "string"}
		s.Properties["seq"] = &jsonschema.Schema{Type: "integer"}
		s.Required, s.PropertyOrder = append([]string{"type", "time", "boulder_id"}, s.Required...), nil
		open(s)
		one.OneOf = append(one.OneOf, s)
	}
	return one, nil
}

// open allows additional keys in objects.
func open(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if s.Type == "object" && len(s.Properties) > 0 {
		s.AdditionalProperties = nil
	}
	for _, below := range s.Properties {
		open(below)
	}
	open(s.Items)
	open(s.AdditionalProperties)
}
