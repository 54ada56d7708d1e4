package limiter

import "slices"

// Permit is the right to use a model. It belongs to a boulder, not to a worker, and lasts until it is released or the
// boulder's workflow ends.
type Permit struct {
	Boulder string `json:"boulder"` // workflow id
	Run     string `json:"run"`     // first run id of the workflow: a boulder started again has no old permits
	ID      string `json:"id"`      // unique within the run: <sub-task>/<attempt>#<n>
}

// State is the state of a limiter, passed on at continue-as-new. A State with only Model set has yet to ask the
// boulders for their permits.
type State struct {
	Model   string     `json:"model"`
	Cap     int        `json:"cap"`
	Set     bool       `json:"set,omitempty"`   // Cap is from [SetCap]; else it is Asked
	Asked   int        `json:"asked,omitempty"` // cap of the latest request
	Held    []Permit   `json:"held,omitempty"`
	Waiting [][]Permit `json:"waiting,omitempty"` // by boulder, in order of their turns; no line is empty
	Rebuilt bool       `json:"rebuilt,omitempty"`
	Unasked []string   `json:"unasked,omitempty"` // boulders that did not answer the rebuild
}

// ask notes the cap that a request brought.
func (s *State) ask(limit int) {
	if s.Asked = limit; !s.Set {
		s.Cap = limit
	}
}

// request adds a permit to its boulder's line, unless it is waiting or held already. It reports whether it is held.
func (s *State) request(p Permit) (held bool) {
	if slices.Contains(s.Held, p) {
		return true
	}
	for i, line := range s.Waiting {
		if line[0].Boulder == p.Boulder {
			if !slices.Contains(line, p) {
				s.Waiting[i] = append(line, p)
			}
			return false
		}
	}
	s.Waiting = append(s.Waiting, []Permit{p})
	return false
}

// grant grants a permit to the boulder whose turn it is, and moves that boulder to the end.
func (s *State) grant() (p Permit, ok bool) {
	if len(s.Held) >= s.Cap || len(s.Waiting) == 0 {
		return Permit{}, false
	}
	line := s.Waiting[0]
	s.Waiting = s.Waiting[1:]
	if len(line) > 1 {
		s.Waiting = append(s.Waiting, line[1:])
	}
	s.Held = append(s.Held, line[0])
	return line[0], true
}

func (s *State) drop(p Permit) {
	is := func(other Permit) bool { return other == p }
	s.Held = slices.DeleteFunc(s.Held, is)
	for i := range s.Waiting {
		s.Waiting[i] = slices.DeleteFunc(s.Waiting[i], is)
	}
	s.Waiting = slices.DeleteFunc(s.Waiting, func(line []Permit) bool { return len(line) == 0 })
}
