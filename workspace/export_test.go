package workspace

// ErrKilled leaves a landing as a kill does.
var ErrKilled = errKilled

// OnStep has f called before each change of the user's files.
func (s *Slots) OnStep(f func() error) { s.onStep = f }

// IgnoreCase has landing behave as if the file system took names that differ in case for one.
func (s *Slots) IgnoreCase() { s.ignoresCase = true }
