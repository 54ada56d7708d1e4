package orphan

import (
	"bytes"
	"encoding/binary"
)

// environOf finds the environment in what macOS tells of a process (kern.procargs2): the number of arguments as a
// 32-bit number, the path of the program, zero bytes, the arguments, the environment. It is empty if that is cut off.
func environOf(data []byte) []byte {
	const number = 4
	if len(data) < number {
		return nil
	}
	arguments := binary.NativeEndian.Uint32(data)
	_, rest, _ := bytes.Cut(data[number:], []byte{0})
	rest = bytes.TrimLeft(rest, "\x00")
	for range arguments {
		var whole bool
		if _, rest, whole = bytes.Cut(rest, []byte{0}); !whole {
			return nil
		}
	}
	return rest
}
