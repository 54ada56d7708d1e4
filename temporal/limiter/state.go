package limiter

import "slices"

// Permit is the right to use a model. It belongs to a boulder and lasts until it is released or the boulder's workflow ends,
// whatever happens to workers meanwhile.
type Permit struct {
	Boulder string `json:"boulder"` // its workflow's id
	Run     string `json:"run"`     // the first run of its workflow: a boulder that is begun again has none of the old permits
	ID      string `json:"id"`      // what for, and unique within the run: <sub-task>/<attempt>#<n>
}

// State is what a limiter knows, and takes along when it continues as new. The zero value with a model is a limiter
// that has to ask first who holds permits.
type State struct {
	Model   string     `json:"model"`
	Cap     int        `json:"cap"`
	Set     bool       `json:"set,omitempty"` // by [SetCap]; else the cap is the one that the latest request brought:
	Asked   int        `json:"asked,omitempty"`
	Held    []Permit   `json:"held,omitempty"`
	Waiting [][]Permit `json:"waiting,omitempty"` // by boulder, in the order of their turns; none is empty
	Rebuilt bool       `json:"rebuilt,omitempty"`
	Unasked []string   `json:"unasked,omitempty"` // boulders that did not say what they hold when the limiter was rebuilt
}

// ask takes in what a boulder has configured.
func (s *State) ask(limit int) {
	if s.Asked = limit; !s.Set {
		s.Cap = limit
	}
}

// request puts a permit in the boulder's line, unless it is there or held already.
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

// grant gives a permit to the boulder whose turn it is, which then goes to the end.
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

// drop takes back a permit, or the request for it.
func (s *State) drop(p Permit) {
	is := func(other Permit) bool { return other == p }
	s.Held = slices.DeleteFunc(s.Held, is)
	for i := range s.Waiting {
		s.Waiting[i] = slices.DeleteFunc(s.Waiting[i], is)
	}
	s.Waiting = slices.DeleteFunc(s.Waiting, func(line []Permit) bool { return len(line) == 0 })
}
