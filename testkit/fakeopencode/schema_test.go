package fakeopencode

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"
)

// schemas is the API description that the server is checked against.
type schemas struct {
	Operations map[string]struct {
		Request json.RawMessage
		Answers map[string]json.RawMessage
	}
	Events map[string]struct {
		Data    json.RawMessage
		Version int
	}
	Defs map[string]*jsonschema.Schema `json:"$defs"`

	mu       sync.Mutex
	resolved map[string]*jsonschema.Resolved
}

// described returns the schemas of 2.0.21, read once: to resolve one takes 20 ms.
var described = sync.OnceValues(func() (*schemas, error) { return readSchemas("august.json", "2.0.21.json") })

func readSchemas(files ...string) (*schemas, error) {
	whole := map[string]any{}
	for _, file := range files {
		data, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			return nil, err
		}
		var patch map[string]any
		if err := json.Unmarshal(data, &patch); err != nil {
			return nil, err
		}
		merge(whole, patch)
	}
	data, err := json.Marshal(whole)
	if err != nil {
		return nil, err
	}
	s := &schemas{resolved: map[string]*jsonschema.Resolved{}}
	if err := json.Unmarshal(data, s); err != nil {
		return nil, err
	}
	return s, nil
}

// merge applies a JSON merge patch (RFC 7396).
func merge(into, patch map[string]any) {
	for name, value := range patch {
		object, ok := value.(map[string]any)
		old, has := into[name].(map[string]any)
		switch {
		case value == nil:
			delete(into, name)
		case ok && has:
			merge(old, object)
		default:
			into[name] = value
		}
	}
}

func (s *schemas) check(schema json.RawMessage, value []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	resolved := s.resolved[string(schema)]
	if resolved == nil {
		root := &jsonschema.Schema{}
		if err := json.Unmarshal(schema, root); err != nil {
			return err
		}
		root.Defs = map[string]*jsonschema.Schema{}
		for name, def := range maps.All(s.Defs) {
			root.Defs[name] = def.CloneSchemas()
		}
		var err error
		if resolved, err = root.Resolve(nil); err != nil {
			return err
		}
		s.resolved[string(schema)] = resolved
	}
	var v any
	if err := json.Unmarshal(value, &v); err != nil {
		return err
	}
	return resolved.Validate(v)
}

func (s *schemas) answer(operation string, status int, body []byte) error {
	op, known := s.Operations[operation]
	if !known {
		return fmt.Errorf("no operation %s", operation)
	}
	schema, known := op.Answers[fmt.Sprint(status)]
	switch {
	case status == 400 || status == 401:
		var e struct {
			Tag string `json:"_tag"`
		}
		if json.Unmarshal(body, &e) != nil || e.Tag == "" {
			return fmt.Errorf("%s: an error without a tag: %s", operation, body)
		}
		return nil
	case !known:
		return fmt.Errorf("%s: status %d is not described", operation, status)
	case string(schema) == "false":
		if len(body) > 0 {
			return fmt.Errorf("%s: status %d with a body: %s", operation, status, body)
		}
		return nil
	}
	if err := s.check(schema, body); err != nil {
		return fmt.Errorf("%s: %w: %s", operation, err, body)
	}
	return nil
}

func (s *schemas) event(data []byte) error {
	var e struct {
		ID, Type string
		Durable  *durable
		Data     json.RawMessage
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return err
	}
	if e.Type == "server.connected" {
		return nil
	}
	described, known := s.Events[e.Type]
	switch {
	case !known:
		return fmt.Errorf("no event %s", e.Type)
	case (described.Version > 0) != (e.Durable != nil):
		return fmt.Errorf("%s: is it durable? %s", e.Type, data)
	}
	if err := s.check(described.Data, e.Data); err != nil {
		return fmt.Errorf("%s: %w: %s", e.Type, err, e.Data)
	}
	return nil
}
