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

// Digest says in one paragraph of at most [MaxDigest] characters why an attempt failed, by its last turn: what cut it
// off, red gates, unmet criteria, the judge's view, the transcript. The turn may lack evidence or verdict.
func Digest(turn boulder.Turn) string {
	var causes []string
	add := func(said string) {
		if said != "" {
			causes = append(causes, sentence(said))
		}
	}
	transcript := ""
	if e := turn.Evidence; e != nil {
		transcript = e.Transcript
		switch end := e.Ended; {
		case end.Stopped != "":
			add("The manager stopped it" + text.If(end.Rule != "", " (rule "+string(end.Rule)+")") + ": " + end.Stopped)
		case end.Error != "":
			add("It ended with " + end.Error + text.Prefixed(": ", text.Short(end.Message, 150)))
		case end.Truncated != "":
			add("Its last turn was cut off: " + end.Truncated)
		case end.Finish == "length":
			add("Its last message was cut off at the output limit.")
		}
		for _, g := range e.Red() { // the last line of an output tells most
			lines := strings.Split(clean(g.Output), "\n")
			add(fmt.Sprintf("Gate `%s` failed (%s)", text.Short(g.Command, 100), g.End()) +
				text.Prefixed(": ", text.Short(lines[len(lines)-1], 150)))
		}
	}
	if v := turn.Verdict; v != nil {
		for _, item := range unmet(v) {
			add("Not met: " + text.Short(item, 200))
		}
		add(text.Short(v.StuckReason, 300))
		add(text.Short(v.Summary, 300))
	}
	if len(causes) == 0 {
		add("It ended without a result.")
	}
	return digest(text.Short(strings.Join(causes, " "), MaxDigest*10), transcript)
}

const transcriptAt = " Transcript: "

// digest cuts a text to [MaxDigest] characters, including where the transcript is.
func digest(said, transcript string) string {
	transcript = text.Prefixed(transcriptAt, text.Short(transcript, 200))
	return text.Excerpt(said, MaxDigest-utf8.RuneCountInString(transcript), text.Start) + transcript
}

// WaitDigest tells the next attempt why this one ended (why follows "It") and what its agent said last; its work is in
// the files. It has at most [MaxDigest] characters.
func WaitDigest(why string, e boulder.Evidence) string {
	said := text.Prefixed(" Its last words: ", text.Short(e.FinalMessage, MaxDigest))
	return digest("It "+sentence(text.Short(why, MaxDigest/2))+said, e.Transcript)
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
