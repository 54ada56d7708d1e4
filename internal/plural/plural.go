// Package plural counts things in English.
package plural

import "fmt"

// Of gives the number with the thing, whose plural takes an s: "1 turn", "0 turns", "2 turns".
func Of(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
