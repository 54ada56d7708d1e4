package taskledger

import (
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/bouldermgr/manager/boulder"
)

// maxCost bounds a cost in US dollars: more is a slip, and would not survive being written and read.
const maxCost = 1e9

// tokenUnits are what may stand behind a number of tokens, the largest first.
var tokenUnits = []struct {
	mark string
	size int64
}{{"M", 1_000_000}, {"k", 1_000}}

// parseTokens reads 150000, 150k or 1.5M. The result is a whole number from 1.
func parseTokens(text string) (count int64, ok bool) {
	size := int64(1)
	for _, u := range tokenUnits {
		if number, found := strings.CutSuffix(text, u.mark); found {
			text, size = number, u.size
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

// tokens writes 150k, not 150000.
func tokens(count int64) string {
	for _, u := range tokenUnits {
		if count%u.size == 0 {
			return strconv.FormatInt(count/u.size, 10) + u.mark
		}
	}
	return strconv.FormatInt(count, 10)
}

// bounds reports whether a budget holds nothing but bounds: no amount is below zero, or no number.
func bounds(b boulder.Budget) bool {
	return b.Attempts >= 0 && b.Time >= 0 && b.Tokens >= 0 && b.Calls >= 0 && b.Cost >= 0 && !math.IsInf(b.Cost, 0)
}
