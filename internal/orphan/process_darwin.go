package orphan

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

const zombie = 5 // SZOMB of sys/proc.h

// stat returns the process with this id. Its start is in microseconds since 1970.
func stat(pid int) (process, error) {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return process{}, err
	}
	if int(info.Proc.P_pid) != pid || info.Proc.P_stat == zombie {
		return process{}, fmt.Errorf("process %d has ended", pid)
	}
	return process{pid: pid, start: started(info)}, nil
}

func started(info *unix.KinfoProc) uint64 {
	t := info.Proc.P_starttime
	return uint64(t.Sec)*1e6 + uint64(t.Usec)
}

// processes lists the running processes, with their marks from the variable. Zombies are left out.
func processes(variable string) ([]process, error) {
	infos, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil, err
	}
	var all []process
	for i := range infos {
		info := &infos[i]
		if info.Proc.P_stat == zombie {
			continue
		}
		p := process{
			pid: int(info.Proc.P_pid), parent: int(info.Eproc.Ppid), group: int(info.Eproc.Pgid), start: started(info),
		}
		if session, err := unix.Getsid(p.pid); err == nil {
			p.session = session
		}
		if int(info.Eproc.Ucred.Uid) != os.Geteuid() {
			p.mark = otherUser
		} else if data, err := unix.SysctlRaw("kern.procargs2", p.pid); err == nil {
			p.mark = markOf(environOf(data), variable)
		}
		all = append(all, p)
	}
	return all, nil
}

// environOf returns the environment from kern.procargs2: the number of arguments as a 32-bit number, the path of the
// program, zero bytes, the arguments, the environment. It is empty if the data is cut.
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
