// Package shorthand reads and writes numbers of things (tokens, calls) as people do: 1500, 200k, 1.5M.
package shorthand

import (
	"math/big"
	"strconv"
	"strings"
)

// units are what may stand behind a number, the largest first.
var units = []struct {
	mark string
	size int64
}{{"M", 1_000_000}, {"k", 1_000}}

// Parse reads a whole number from 1: digits, perhaps with a decimal point, and perhaps with k or M behind them, in
// upper or lower case.
func Parse(text string) (n int64, ok bool) {
	size := int64(1)
	for _, u := range units {
		if last := len(text) - 1; last >= 0 && strings.EqualFold(text[last:], u.mark) {
			text, size = text[:last], u.size
			break
		}
	}
	if len(text) > 19 || strings.Trim(text, "0123456789.") != "" {
		return 0, false
	}
	value, ok := new(big.Rat).SetString(text)
	if !ok {
		return 0, false
	}
	value.Mul(value, new(big.Rat).SetInt64(size))
	if !value.IsInt() || value.Sign() <= 0 || !value.Num().IsInt64() {
		return 0, false
	}
	return value.Num().Int64(), true
}

// Format writes 150k, not 150000, and nothing that Parse reads as another number.
func Format(n int64) string {
	for _, u := range units {
		if n%u.size == 0 {
			return strconv.FormatInt(n/u.size, 10) + u.mark
		}
	}
	return strconv.FormatInt(n, 10)
}
