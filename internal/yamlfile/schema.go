package yamlfile

import (
	"reflect"
	"regexp"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"go.yaml.in/yaml/v4"

	"github.com/bouldermgr/manager/boulder"
)

// Schema is the JSON Schema of what [Decode] reads into a value of a type, by the same tags. words are what a text may be, by its
// type or, for the texts of Go, by its key.
func Schema(t reflect.Type, words map[any][]any) *jsonschema.Schema {
	return schema(t, "", "", words)
}

func schema(t reflect.Type, key, option string, words map[any][]any) *jsonschema.Schema {
	var is *jsonschema.Schema
	known := words[t]
	if known == nil {
		known = words[key]
	}
	switch {
	case reflect.PointerTo(t).Implements(reflect.TypeFor[yaml.Unmarshaler]()): // a text or several
		return textOr(&jsonschema.Schema{Type: "array", Items: &jsonschema.Schema{Type: "string"}})
	case t == reflect.TypeFor[regexp.Regexp](), t == reflect.TypeFor[time.Time]():
		return &jsonschema.Schema{Type: "string"}
	case t == reflect.TypeFor[time.Duration](), t == reflect.TypeFor[boulder.Duration]():
		is = &jsonschema.Schema{Type: "string", Pattern: `^([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+$`}
	case option == "count":
		is = textOr(&jsonschema.Schema{Type: "integer", Minimum: new(1.0)})
		is.AnyOf[0].Pattern = `^[0-9]+(\.[0-9]+)?[kKmMgG]?$`
	case option == "dollars":
		is = textOr(&jsonschema.Schema{Type: "number", ExclusiveMinimum: new(0.0), Maximum: new(1e9)})
		is.AnyOf[0].Pattern = `^\$?[0-9.]+$`
	case option == "share":
		is = &jsonschema.Schema{Type: "number", Minimum: new(0.0), Maximum: new(1.0)}
	case t.Kind() == reflect.Pointer:
		return schema(t.Elem(), key, option, words)
	case t.Kind() == reflect.Struct:
		return object(t, words)
	case t.Kind() == reflect.Map:
		return &jsonschema.Schema{Type: "object", AdditionalProperties: schema(t.Elem(), key, "", words)}
	case t.Kind() == reflect.Slice:
		items := schema(t.Elem(), key, "", words)
		is = &jsonschema.Schema{Type: "array", Items: items}
		if t.Elem().Kind() == reflect.String { // one is written without a dash
			is = &jsonschema.Schema{AnyOf: []*jsonschema.Schema{items.CloneSchemas(), is}}
		}
		return is
	case t.Kind() == reflect.Bool:
		is = &jsonschema.Schema{Type: "boolean"}
	case t.Kind() == reflect.Int:
		is = &jsonschema.Schema{Type: "integer", Minimum: new(0.0)}
	case t.Kind() == reflect.Float64:
		is = &jsonschema.Schema{Type: "number"}
	default:
		is = &jsonschema.Schema{Type: "string", Enum: known}
	}
	if option == "off" || option == "share" {
		is = &jsonschema.Schema{AnyOf: []*jsonschema.Schema{is, {Const: new(any("off"))}}}
	}
	return is
}

func textOr(other *jsonschema.Schema) *jsonschema.Schema {
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "string"}, other}}
}

func object(t reflect.Type, words map[any][]any) *jsonschema.Schema {
	o := &jsonschema.Schema{
		Type: "object", Properties: map[string]*jsonschema.Schema{}, AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
	}
	for _, f := range fieldsOf(t) {
		o.Properties[f.key] = schema(f.Type, f.key, f.option, words)
		o.PropertyOrder = append(o.PropertyOrder, f.key)
	}
	return o
}
