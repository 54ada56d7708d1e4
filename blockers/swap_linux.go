package blockers

import "golang.org/x/sys/unix"

func swap(dir int, one, other string) error {
	return unix.Renameat2(dir, one, dir, other, unix.RENAME_EXCHANGE)
}
