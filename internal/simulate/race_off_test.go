//go:build !race

package simulate

// raced: the race detector does not look on.
const raced = false
