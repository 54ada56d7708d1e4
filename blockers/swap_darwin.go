package blockers

import "golang.org/x/sys/unix"

func swap(dir int, one, other string) error {
	return unix.RenameatxNp(dir, one, dir, other, unix.RENAME_SWAP)
}
