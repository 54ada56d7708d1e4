package prompts

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// MaxDigest is the greatest length of a digest, in characters.
const MaxDigest = 600

// Digest says in one paragraph of at most [MaxDigest] characters why an attempt failed, judging by its last turn: what
// cut it off, by which rule, which gates were red, what was unmet, what the judge made of it. It names the transcript,
// if there is one. The turn may lack its evidence or its verdict.
func Digest(turn boulder.Turn) string {
	var causes []string
	where := ""
	if e := turn.Evidence; e != nil {
		causes = append(causes, cutOff(e.Ended)...)
		for _, g := range e.Red() {
			causes = append(causes, redGate(g))
		}
		if e.Transcript != "" {
			where = " Transcript: " + text.Short(e.Transcript, 200)
		}
	}
	if v := turn.Verdict; v != nil {
		causes = append(causes, judged(v)...)
	}
	if len(causes) == 0 {
		causes = []string{"It ended without a result."}
	}
	all := text.Short(strings.Join(causes, " "), MaxDigest*10)
	return text.Excerpt(all, MaxDigest-utf8.RuneCountInString(where), text.Start) + where
}

func cutOff(e boulder.Ended) []string {
	switch {
	case e.Stopped != "" && e.Rule != "":
		return []string{fmt.Sprintf("The manager stopped it (rule %s): %s", e.Rule, sentence(e.Stopped))}
	case e.Stopped != "":
		return []string{"The manager stopped it: " + sentence(e.Stopped)}
	case e.Error != "":
		return []string{"It ended with " + sentence(strings.TrimSuffix(e.Error+": "+text.Short(e.Message, 150), ": "))}
	case e.Truncated != "":
		return []string{"Its last turn was cut off: " + sentence(e.Truncated)}
	case e.Finish == "length":
		return []string{"Its last message was cut off at the output limit."}
	}
	return nil
}

// redGate names the command and the last line that it printed, which is the one that tells most.
func redGate(g boulder.Gate) string {
	failed := fmt.Sprintf("Gate `%s` failed (%s)", text.Short(g.Command, 100), gateEnd(g))
	lines := strings.Split(clean(g.Output), "\n")
	if last := text.Short(lines[len(lines)-1], 150); last != "" {
		failed += ": " + last
	}
	return sentence(failed)
}

func judged(v *boulder.Verdict) []string {
	var causes []string
	for _, item := range unmet(v) {
		causes = append(causes, "Not met: "+sentence(text.Short(item, 200)))
	}
	for _, said := range []string{v.StuckReason, v.Summary} {
		if said = text.Short(said, 300); said != "" {
			causes = append(causes, sentence(said))
		}
	}
	return causes
}

// sentence ends a text with a full stop, unless it has an end.
func sentence(text string) string {
	for _, end := range []string{".", "…", "!", "?"} {
		if strings.HasSuffix(text, end) {
			return text
		}
	}
	return text + "."
}
