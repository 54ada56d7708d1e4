//go:build !linux

package blockers

func roles() map[string]func(string) error { return nil }
