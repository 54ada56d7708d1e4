// Package prompts writes the prompts of sub-tasks: the brief that begins an attempt ([Build]), the prompts that keep
// its session going ([Continuation], [Resume]), and what the next attempt is told of a failed one ([Digest]).
//
// Everything here is pure: the same records give the same text, so a prompt can be made again after a crash. What does
// not fit into a brief is cut where the reader sees it,
//
//	[cut: 2000 of 5231 characters; full text: /project/.manager/runs/01k/api/output.md]
//
// 2,000 being missing here, and the whole text goes into the file that the notice names. A character is a Unicode code
// point, in all limits and counts. Bytes that are not UTF-8 become U+FFFD.
package prompts
