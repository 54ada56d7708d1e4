package prompts

// Limits bounds a brief, in characters; notices of cuts and headings within a part count. Start from [DefaultLimits].
//
// A text that is shorter than the notice which would replace it is never cut.
type Limits struct {
	// Total is for the whole brief. Defaults to 24,000. It yields only to what is never cut: goal, constraints, the
	// sub-task's own content, criteria, outputs and commands, what to do when a person is needed, headings and the notices of
	// cuts. If these alone are longer, they are the brief.
	Total int
	// Request is for the original request. Defaults to 8,000.
	Request int
	// Dependency is for the result of one direct dependency. Defaults to 4,000.
	Dependency int
	// Dependencies is for the results of all direct dependencies together. Defaults to 10,000. Short results are given
	// whole; the long ones share what is left.
	Dependencies int
	// Notes is for what people noted while the job was under way, the newest first. Defaults to 4,000: at least the newest
	// one whole.
	Notes int
	// Answers is for what people said about blockers, the newest first. Defaults to 8,000: at least the newest one whole.
	Answers int
	// Failures is for the digests of earlier attempts, the newest first. Defaults to 2,500: four digests of full length.
	Failures int
	// Facts is for what the Task Ledger knew when it planned. Defaults to 2,000.
	Facts int
	// NewFacts is for what was found out since, the newest first. Defaults to 2,000.
	NewFacts int
	// Finished is for the list of other finished sub-tasks. Defaults to 2,000: some twenty lines.
	Finished int
}

// DefaultLimits returns the documented defaults.
func DefaultLimits() Limits {
	return Limits{
		Total: 24_000, Request: 8_000, Dependency: 4_000, Dependencies: 10_000, Notes: 4_000, Answers: 8_000,
		Failures: 2_500, Facts: 2_000, NewFacts: 2_000, Finished: 2_000,
	}
}
