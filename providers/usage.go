package providers

// Usage counts tokens the same way for every provider: Input is all input, Output is all billed output; the others are
// parts of these two. Adapters normalise: the vendors differ in what they include.
type Usage struct {
	Input       int64    `json:"input"`                  // all input tokens, CachedInput and CacheWrite included
	CachedInput int64    `json:"cached_input,omitempty"` // the part of Input that was read from a prompt cache
	CacheWrite  int64    `json:"cache_write,omitempty"`  // the part of Input that was written to a prompt cache
	Output      int64    `json:"output"`                 // all billed output tokens, Reasoning included
	Reasoning   int64    `json:"reasoning,omitempty"`    // the part of Output that the model spent thinking
	Cost        *float64 `json:"cost,omitempty"`         // in US dollars. Nil means unknown, which is not zero.
}

// Add gives the sum of both. The cost of a sum is known only if both costs are; the zero Usage changes nothing.
func (u Usage) Add(v Usage) Usage {
	if u == (Usage{}) {
		return v
	}
	if v == (Usage{}) {
		return u
	}
	sum := Usage{
		Input:       u.Input + v.Input,
		CachedInput: u.CachedInput + v.CachedInput,
		CacheWrite:  u.CacheWrite + v.CacheWrite,
		Output:      u.Output + v.Output,
		Reasoning:   u.Reasoning + v.Reasoning,
	}
	if u.Cost != nil && v.Cost != nil {
		sum.Cost = new(*u.Cost + *v.Cost)
	}
	return sum
}

// Total is all billed tokens, input and output.
func (u Usage) Total() int64 { return u.Input + u.Output }
