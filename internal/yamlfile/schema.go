package yamlfile

import (
	"reflect"
	"regexp"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

// Schema returns the JSON Schema of what [Decode] reads into a type, from the same tags.
func Schema(t reflect.Type) *jsonschema.Schema { return schema(t, "") }

func schema(t reflect.Type, option string) *jsonschema.Schema {
	switch kind := t.Kind(); {
	case t == reflect.TypeFor[regexp.Regexp]():
		return &jsonschema.Schema{Type: "string"}
	case kind == reflect.Pointer:
		return schema(t.Elem(), option)
	case kind == reflect.Map:
		return &jsonschema.Schema{Type: "object", AdditionalProperties: schema(t.Elem(), "")}
	case kind == reflect.Slice:
		items := schema(t.Elem(), itemOption(t, option))
		is := &jsonschema.Schema{Type: "array", Items: items}
		if t.Elem().Kind() == reflect.String { // a single one needs no dash
			is = anyOf(items.CloneSchemas(), is)
		}
		return is
	case isList(t):
		return anyOf(&jsonschema.Schema{Type: "string"}, &jsonschema.Schema{Type: "array", Items: &jsonschema.Schema{Type: "string"}})
	case kind != reflect.Struct, t == reflect.TypeFor[time.Time]():
		return scalarOf(t, option).schema
	}
	o := &jsonschema.Schema{
		Type: "object", Properties: map[string]*jsonschema.Schema{}, AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
	}
	for _, f := range fieldsOf(t) {
		o.Properties[f.key] = schema(f.Type, f.option)
		o.PropertyOrder = append(o.PropertyOrder, f.key)
	}
	return o
}
