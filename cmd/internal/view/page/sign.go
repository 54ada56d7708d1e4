package page

// Sign says how something is, in one column.
type Sign int

const (
	NoSign    Sign = iota
	Good           // done, met, or passed
	Bad            // failed
	Attention      // needs attention
	Question       // waits for an answer of the user
	Doubtful       // good, but proves less than it seems
	Again          // done another time
	ByUser         // the user changed something
	Instead        // one model takes the place of another
	Found          // found out by the manager
	Active         // at work
	Idle           // waits for its turn
	Dropped        // not to be done, or not run
	Minor          // of less interest
	Unended        // has no end that is known
)

// signs has the character of each sign, and its colour.
var signs = map[Sign]struct {
	character string
	color     func(Paint, string) string
}{
	NoSign:    {"", Paint.Dim},
	Good:      {"✓", Paint.Green},
	Bad:       {"✗", Paint.Red},
	Attention: {"!", Paint.Yellow},
	Question:  {"?", Paint.Yellow},
	Doubtful:  {"≈", Paint.Yellow},
	Again:     {"↻", Paint.Yellow},
	ByUser:    {"✎", Paint.Yellow},
	Instead:   {"⇄", Paint.Dim},
	Found:     {"»", Paint.Dim},
	Active:    {"●", Paint.Cyan},
	Idle:      {"○", Paint.Dim},
	Dropped:   {"–", Paint.Dim},
	Minor:     {"·", Paint.Dim},
	Unended:   {"…", Paint.Dim},
}

func (s Sign) String() string { return signs[s].character }

// GoodIf returns Good if met, else Bad.
func GoodIf(met bool) Sign {
	if met {
		return Good
	}
	return Bad
}

// As colours a text with the colour of a sign.
func (p Paint) As(sign Sign, s string) string { return signs[sign].color(p, s) }

// Mark returns a sign in its colour.
func (p Paint) Mark(sign Sign) string { return p.As(sign, sign.String()) }
