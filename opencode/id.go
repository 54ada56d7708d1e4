package opencode

import (
	"crypto/rand"
	"fmt"
	"strings"
	"time"
)

const (
	messagePrefix = "msg_"
	partPrefix    = "prt_"
	randomLength  = 14
)

// NewMessageID makes the id of a prompt that is sent at t. Store it before the prompt is sent: it is the key that
// makes sending again harmless, see [Directory.Prompt].
//
// The format is OpenCode's own: "msg_", the low 48 bits of (milliseconds << 12) as 12 hexadecimal digits, 14 random
// characters. So ids sort by time, up to the wrap that 48 bits bring every 2.2 years, the last in August 2026. The
// server demands no more than the prefix; 1.18.33 orders messages by their creation time first and answered ids from
// 100 s before and after its clock correctly, older versions went by the id alone.
func NewMessageID(t time.Time) string {
	const steps = 1 << 12 // OpenCode counts ids within a millisecond; the clock's finer digits do as well
	fraction := int64(t.Nanosecond()%int(time.Millisecond)) * steps / int64(time.Millisecond)
	stamp := (t.UnixMilli()*steps + fraction) & (1<<48 - 1)
	return fmt.Sprintf("%s%012x%s", messagePrefix, stamp, rand.Text()[:randomLength])
}

// partID derives the id of a prompt's nth part from the prompt's id. Parts without an id of their own get a new one
// each time the prompt arrives, and the message then holds the text twice. Ids ascend with n: parts are sorted by
// them.
func partID(messageID string, n int) string {
	return fmt.Sprintf("%s%s%04d", partPrefix, strings.TrimPrefix(messageID, messagePrefix), n)
}
