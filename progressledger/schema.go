package progressledger

import (
	"encoding/json"
	"fmt"
	"strings"
)

// The few JSON Schema forms that all vendors' strict modes accept. They are put together as text because a Go map would
// lose the order of properties.
const (
	str     = `{"type":"string"}`
	boolean = `{"type":"boolean"}`
)

type property struct{ name, schema string }

func object(properties []property) string {
	var fields, names []string
	for _, p := range properties {
		fields = append(fields, fmt.Sprintf("%q:%s", p.name, p.schema))
		names = append(names, fmt.Sprintf("%q", p.name))
	}
	return fmt.Sprintf(`{"type":"object","properties":{%s},"required":[%s],"additionalProperties":false}`,
		strings.Join(fields, ","), strings.Join(names, ","))
}

func list(items string) string { return fmt.Sprintf(`{"type":"array","items":%s}`, items) }

func oneOf(values []string) string {
	quoted, err := json.Marshal(values)
	if err != nil {
		panic(err) // strings can be marshalled
	}
	return fmt.Sprintf(`{"type":"string","enum":%s}`, quoted)
}

// labels gives C1, C2 … Cn.
func labels(prefix string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = label(prefix, i)
	}
	return all
}

func label(prefix string, i int) string { return fmt.Sprintf("%s%d", prefix, i+1) }
