package orphan

// process is a running process of this user, as the system lists it.
type process struct {
	pid, parent, group, session int
	start                       uint64 // as in [owner]
	mark                        string // its value of the variable; empty: it has none, or it cannot be read
}

// identity tells a process from a later one with the same id.
type identity struct {
	pid   int
	start uint64
}

func (p process) identity() identity { return identity{p.pid, p.start} }

// pick finds the processes to end: those that carry the mark, and those without any mark that are children of one to
// end, or are in a session or group that one to end leads. self and those that it comes from are never among them: a
// person may sit in a terminal that an agent has opened.
func pick(all []process, mark string, self int) []process {
	spared := lineage(all, self)
	taken := make(map[int]bool)
	var picked []process
	for changed := true; changed; {
		changed = false
		for _, p := range all {
			if taken[p.pid] || spared[p.pid] {
				continue
			}
			// taken[p.session] asks for the leader: a session and a group have the id of the process that began them, and
			// the system does not give it to another one while they exist.
			if p.mark == mark || p.mark == "" && (taken[p.parent] || taken[p.session] || taken[p.group]) {
				taken[p.pid], changed = true, true
				picked = append(picked, p)
			}
		}
	}
	return picked
}

// lineage is a process with its parent, and so on, and the first process of the system.
func lineage(all []process, pid int) map[int]bool {
	parents := make(map[int]int, len(all))
	for _, p := range all {
		parents[p.pid] = p.parent
	}
	line := map[int]bool{0: true, 1: true}
	for !line[pid] {
		line[pid] = true
		pid = parents[pid]
	}
	return line
}
