//go:build race

package simulate

// raced: the race detector looks on, which costs seven times the time.
const raced = true
