package report

// document is what a report says, before it is decided how that is written. What agents and models wrote is in its
// spans and nowhere else, and the writers escape every span: no text can become a heading, an item, a link or a
// terminal's command.
type document struct{ blocks []block }

type blockKind int

const (
	blockTitle blockKind = iota
	blockHeading
	blockPara
	blockItem
	blockOutput // lines of a program, below an item
)

type block struct {
	kind  blockKind
	level int // of an item, from 0, and of the output below it
	mark  mark
	spans []span
}

// mark says before an item how it stands.
type mark int

const (
	markNone mark = iota
	markGood
	markSoSo
	markBad
	markWaits
	markOpen
	markOff
)

func (m mark) String() string { return [...]string{"", "✓", "≈", "✗", "!", "○", "–"}[m] }

type spanKind int

const (
	spanText   spanKind = iota
	spanStrong          // what an item is about
	spanCode            // to be typed or found as it is
	spanFaint           // what can be skipped
)

type span struct {
	kind spanKind
	text string
}

func plain(s string) span  { return span{spanText, s} }
func strong(s string) span { return span{spanStrong, s} }
func code(s string) span   { return span{spanCode, s} }
func faint(s string) span  { return span{spanFaint, s} }

func (d *document) add(b block) { d.blocks = append(d.blocks, b) }

func (d *document) title(s string)      { d.add(block{kind: blockTitle, spans: []span{plain(s)}}) }
func (d *document) heading(s string)    { d.add(block{kind: blockHeading, spans: []span{plain(s)}}) }
func (d *document) para(spans ...span)  { d.add(block{kind: blockPara, spans: spans}) }
func (d *document) item(spans ...span)  { d.add(block{kind: blockItem, spans: spans}) }
func (d *document) below(spans ...span) { d.add(block{kind: blockItem, level: 1, spans: spans}) }

func (d *document) marked(m mark, spans ...span) {
	d.add(block{kind: blockItem, mark: m, spans: spans})
}

func (d *document) markedBelow(m mark, spans ...span) {
	d.add(block{kind: blockItem, level: 1, mark: m, spans: spans})
}

// output is shown below an item of the second level.
func (d *document) output(s string) {
	d.add(block{kind: blockOutput, level: 1, spans: []span{plain(s)}})
}
