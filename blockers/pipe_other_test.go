//go:build !unix

package blockers

import "errors"

func makePipe(string) error { return errors.ErrUnsupported }
