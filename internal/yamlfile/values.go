package yamlfile

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// Period is a duration of more than 0.
type Period time.Duration

// ReadYAML reads 90s, 10m or 1h30m.
func (x *Period) ReadYAML(v Value) error {
	text, ok := v.Text()
	d, err := time.ParseDuration(text)
	if !ok || err != nil || d <= 0 {
		return Wanted("a duration of more than 0 as 90s, 10m or 1h30m")
	}
	*x = Period(d)
	return nil
}

// Quantity is a number of things, at least 1.
type Quantity int64

// ReadYAML reads 1500, 200k or 2M.
func (x *Quantity) ReadYAML(v Value) error {
	written, ok := v.Text()
	n, fits := text.ParseCount(written)
	if !ok || !fits {
		return Wanted("a number of at least 1 as 1500, 200k or 2M")
	}
	*x = Quantity(n)
	return nil
}

// Dollars is an amount of money, more than 0.
type Dollars float64

// maxDollars bounds it: more is a slip, and would not survive being written and read.
const maxDollars = 1e9

// ReadYAML reads 5, 0.50 or $5.
func (x *Dollars) ReadYAML(v Value) error {
	text, ok := v.Text()
	n, err := strconv.ParseFloat(strings.TrimPrefix(text, "$"), 64)
	if !ok || err != nil || !(n > 0 && n <= maxDollars) {
		return Wanted("an amount of US dollars of more than 0 as 5 or 0.50")
	}
	*x = Dollars(n)
	return nil
}

// Budget is a [boulder.Budget] of a file.
type Budget struct {
	Attempts Quantity `yaml:"attempts"`
	Time     Period   `yaml:"time"`
	Tokens   Quantity `yaml:"tokens"`
	Cost     Dollars  `yaml:"cost"`
	Calls    Quantity `yaml:"calls"`
}

// Budget is nil if there is none, or it bounds nothing.
func (b *Budget) Budget() *boulder.Budget {
	if b == nil || *b == (Budget{}) {
		return nil
	}
	return &boulder.Budget{
		Attempts: int(min(b.Attempts, math.MaxInt32)), Time: boulder.Duration(b.Time), Tokens: int64(b.Tokens),
		Cost: float64(b.Cost), Calls: int64(b.Calls),
	}
}
