// Package prompted asks for an answer of a certain form in words, for models that cannot be constrained to a schema.
package prompted

import "github.com/bouldermgr/manager/providers"

// System gives the system instruction of req, followed by its schema. The word JSON in it is needed: OpenAI refuses to
// answer with some JSON object when no message contains it.
func System(req *providers.Request) string {
	wish := "Answer with one JSON object that follows this JSON Schema, and nothing else:\n" + string(req.Schema)
	if req.System == "" {
		return wish
	}
	return req.System + "\n\n" + wish
}
